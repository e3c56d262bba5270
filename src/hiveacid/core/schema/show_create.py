"""SHOW CREATE TABLE with exactly the text of Hive 4, blanks included (``DDLPlanUtils.getCreateTableCommand``).

The text parses to the same definition, in hiveacid and in Hive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hiveacid.core.model import (
    Bucketing,
    Column,
    Constraint,
    DatabaseDefinition,
    StorageFormat,
    TableDefinition,
    ViewDefinition,
)
from hiveacid.core.schema.constraints import ONE_PER_COLUMN, clause
from hiveacid.core.schema.storage_formats import SERIALIZATION_FORMAT
from hiveacid.core.schema.types import parse_type, quote_name, quoted_type_text

# Statistics, and properties that other clauses of the statement show (PROPERTIES_TO_IGNORE_AT_TBLPROPERTIES).
NOT_SHOWN = frozenset(
    {"TEMPORARY", "EXTERNAL", "comment", "SORTBUCKETCOLSPREFIX", "storage_handler", "created_with_ctas"}
    | {"COLUMN_STATS_ACCURATE", "numFiles", "numRows", "rawDataSize", "totalSize", "numFilesErasureCoded"}
)
_DEFAULT_SERIALIZATION = (SERIALIZATION_FORMAT, "1")
_ESCAPES = str.maketrans(
    {"'": r"\'", ";": r"\;", "\\": r"\\", "\b": r"\b", "\n": r"\n", "\t": r"\t", "\r": r"\r"}
    # Hive prints a form feed as \f, which its own parser reads as the letter.
    | {"\f": r"\u000C"}
)


def show_create_table(
    table: TableDefinition, constraints: Sequence[Constraint] = (), *, with_database: bool = True
) -> str:
    """Return the CREATE TABLE statement of a table. ``constraints`` have their names and options, of which Hive shows some.

    Like Hive, leave the database out (``with_database=False``) if SHOW CREATE TABLE names the table without it.
    """
    name = quote_name(table.name.name)
    if with_database:
        name = f"{quote_name(table.name.database)}.{name}"
    lines = [
        f"CREATE {'EXTERNAL ' if table.external else ''}TABLE {name}(",
        _joined(
            [
                *(
                    _column(column, quoted_type_text(parse_type(column.type)), constraints)
                    for column in table.columns
                ),
                *(clause(one) for one in constraints if one.kind not in ONE_PER_COLUMN),
            ]
        )
        + ")",
    ]
    if table.comment is not None:
        lines.append(f"COMMENT {_quoted(table.comment)}")
    if table.partition_columns:
        columns = _joined(_column(column, column.type, constraints) for column in table.partition_columns)
        lines += ["PARTITIONED BY ( ", f"{columns})"]
    if table.bucketing is not None:
        lines += _buckets(table.bucketing)
    lines += [*_storage(table.storage), "LOCATION", f"  {_quoted(table.location)}"]
    shown = [pair for pair in table.properties if pair[0] not in NOT_SHOWN]
    if shown:
        lines += ["TBLPROPERTIES (", f"{_properties(shown)})"]
    return "\n".join(lines)


def show_create_view(view: ViewDefinition, *, with_database: bool = True) -> str:
    """Return the CREATE VIEW statement of a view, with all names in its query qualified."""
    name = quote_name(view.name.name)
    if with_database:
        name = f"{quote_name(view.name.database)}.{name}"
    columns = _joined(f"{quote_name(column.name)}{_comment(column)}" for column in view.columns)
    lines = [f"CREATE VIEW {name}(", f"{columns})"]
    if view.comment is not None:
        lines.append(f"COMMENT {_quoted(view.comment)}")
    if view.properties:
        lines += ["TBLPROPERTIES (", f"{_properties(view.properties)})"]
    return "\n".join([*lines, "AS", view.text])


def show_create_database(database: DatabaseDefinition) -> str:
    """Return the CREATE DATABASE statement of a database (``ShowCreateDatabaseOperation``)."""
    lines = [f"CREATE DATABASE {quote_name(database.name)}"]
    if database.comment:
        lines += ["COMMENT", f"  {_quoted(database.comment)}"]
    lines += ["LOCATION", f"  {_quoted(database.location)}"]
    if database.properties:
        lines += ["WITH DBPROPERTIES (", f"{_properties(database.properties)})"]
    return "\n".join(lines)


def _joined(members: Iterable[str]) -> str:
    return ", \n".join(f"  {member}" for member in members)


def _column(column: Column, kind: str, constraints: Sequence[Constraint]) -> str:
    own = (
        f" {clause(one)}" for one in constraints if one.kind in ONE_PER_COLUMN and one.column == column.name
    )
    return f"{quote_name(column.name)} {kind}{''.join(own)}{_comment(column)}"


def _comment(column: Column) -> str:
    return "" if column.comment is None else f" COMMENT {_quoted(column.comment)}"


def _buckets(bucketing: Bucketing) -> list[str]:
    lines = ["CLUSTERED BY (", ",\n".join(f"  {quote_name(name)}" for name in bucketing.columns) + ")"]
    if bucketing.sort_columns:
        keys = (
            f"{quote_name(name)} {'DESC' if name in bucketing.descending else 'ASC'}"
            for name in bucketing.sort_columns
        )
        lines += ["SORTED BY ( ", f"{_joined(keys)}) "]
    return [*lines, f"INTO {bucketing.count} BUCKETS"]


def _storage(storage: StorageFormat) -> list[str]:
    lines = ["ROW FORMAT SERDE ", f"  {_quoted(storage.serde)} "]
    properties = [pair for pair in storage.serde_properties if pair != _DEFAULT_SERIALIZATION]
    if properties:
        lines += ["WITH SERDEPROPERTIES ( ", f"{_properties(properties)}) "]
    return [
        *lines,
        "STORED AS INPUTFORMAT ",
        f"  {_quoted(storage.input_format)} ",
        "OUTPUTFORMAT ",
        f"  {_quoted(storage.output_format)}",
    ]


def _properties(properties: Sequence[tuple[str, str]]) -> str:
    return _joined(f"{_ascii(_quoted(key))}={_ascii(_quoted(value))}" for key, value in sorted(properties))


def _quoted(text: str) -> str:
    """Return a string literal (``HiveStringUtils.escapeHiveCommand``)."""
    return f"'{text.translate(_ESCAPES)}'"


def _ascii(literal: str) -> str:
    r"""Write everything but printable ASCII as ``\uXXXX``, in UTF-16 units (``HiveStringUtils.escapeUnicode``)."""
    return "".join(char if " " <= char <= "\x7f" else _units(char) for char in literal)


def _units(char: str) -> str:
    encoded = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[offset : offset + 2].hex().upper()}" for offset in range(0, len(encoded), 2))
