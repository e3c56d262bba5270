"""Names of Hive's virtual columns, which a query may name but ``*`` does not show."""

ROW_ID = "ROW__ID"
FILE_NAME = "INPUT__FILE__NAME"
RESERVED_NAMES = frozenset(
    name.lower() for name in (ROW_ID, FILE_NAME, "BLOCK__OFFSET__INSIDE__FILE", "_metadata")
)
"""Names that no column of a table may have, in lower case as a table has them.

``_metadata`` is Spark's column of the path of a row's file, which a column of the table would hide.
"""
