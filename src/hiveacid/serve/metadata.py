"""Metadata calls: databases, tables, columns, types and functions as JDBC describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from hiveacid.core.model import Column, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError
from hiveacid.serve.results import RowsResult
from hiveacid.spark.session.classic_session import spark_catalog_tables

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession

_LONGEST_PATTERN = 512
TABLE_TYPES = ("TABLE", "VIEW")

_TABLES = [
    (name, "string")
    for name in (
        *("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS"),
        *("TYPE_CAT", "TYPE_SCHEM", "TYPE_NAME", "SELF_REFERENCING_COL_NAME", "REF_GENERATION"),
    )
]
_COLUMNS = [
    *[(name, "string") for name in ("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME")],
    *[("DATA_TYPE", "int"), ("TYPE_NAME", "string"), ("COLUMN_SIZE", "int"), ("BUFFER_LENGTH", "tinyint")],
    *[("DECIMAL_DIGITS", "int"), ("NUM_PREC_RADIX", "int"), ("NULLABLE", "int"), ("REMARKS", "string")],
    *[("COLUMN_DEF", "string"), ("SQL_DATA_TYPE", "int"), ("SQL_DATETIME_SUB", "int")],
    *[("CHAR_OCTET_LENGTH", "int"), ("ORDINAL_POSITION", "int"), ("IS_NULLABLE", "string")],
    *[("SCOPE_CATALOG", "string"), ("SCOPE_SCHEMA", "string"), ("SCOPE_TABLE", "string")],
    *[("SOURCE_DATA_TYPE", "smallint"), ("IS_AUTO_INCREMENT", "string")],
]
_TYPE_INFO = [
    *[("TYPE_NAME", "string"), ("DATA_TYPE", "int"), ("PRECISION", "int"), ("LITERAL_PREFIX", "string")],
    *[("LITERAL_SUFFIX", "string"), ("CREATE_PARAMS", "string"), ("NULLABLE", "smallint")],
    *[("CASE_SENSITIVE", "boolean"), ("SEARCHABLE", "smallint"), ("UNSIGNED_ATTRIBUTE", "boolean")],
    *[("FIXED_PREC_SCALE", "boolean"), ("AUTO_INCREMENT", "boolean"), ("LOCAL_TYPE_NAME", "string")],
    *[("MINIMUM_SCALE", "smallint"), ("MAXIMUM_SCALE", "smallint"), ("SQL_DATA_TYPE", "int")],
    *[("SQL_DATETIME_SUB", "int"), ("NUM_PREC_RADIX", "int")],
]
_FUNCTIONS = [
    *[("FUNCTION_CAT", "string"), ("FUNCTION_SCHEM", "string"), ("FUNCTION_NAME", "string")],
    *[("REMARKS", "string"), ("FUNCTION_TYPE", "int"), ("SPECIFIC_NAME", "string")],
]
_PRIMARY_KEYS = ("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME")
_CROSS_REFERENCE = (
    *("PKTABLE_CAT", "PKTABLE_SCHEM", "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_CAT", "FKTABLE_SCHEM"),
    *("FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ", "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME"),
    "DEFERRABILITY",
)
# Type: number of java.sql.Types, precision, radix.
_JDBC_TYPES: dict[str, tuple[int, int | None, int | None]] = {
    "boolean": (16, None, None),
    "tinyint": (-6, 3, 10),
    "smallint": (5, 5, 10),
    "int": (4, 10, 10),
    "bigint": (-5, 19, 10),
    "float": (6, 7, 10),
    "double": (8, 15, 10),
    "decimal": (3, 38, 10),
    "string": (12, None, None),
    "varchar": (12, None, None),
    "char": (1, None, None),
    "binary": (-2, None, None),
    "date": (91, 10, None),
    "timestamp": (93, 29, None),
    "array": (2003, None, None),
    "map": (2000, None, None),
    "struct": (2002, None, None),
}


def matches(pattern: str | None, text: str) -> bool:
    r"""Match JDBC's pattern (``%``, ``_``, ``\`` escapes) or Hive's ``*``, in time bounded by the product of their lengths."""
    if not pattern or pattern in ("%", "*"):
        return True
    if len(pattern) > _LONGEST_PATTERN:
        return False
    tokens = list(_pattern_tokens(pattern.lower()))
    states = _states_after_wildcards({0}, tokens)
    for letter in text.lower():
        reached = {
            state + (tokens[state] != "%%")
            for state in states
            if state < len(tokens) and tokens[state] in ("%%", "_?", letter)
        }
        states = _states_after_wildcards(reached, tokens)
    return len(tokens) in states


def _pattern_tokens(pattern: str) -> Iterator[str]:
    """Yield a token for each part of a pattern: ``%%`` is any text, ``_?`` any letter, and a letter is itself."""
    letters = iter(pattern)
    for letter in letters:
        if letter == "\\":
            yield next(letters, "\\")
        else:
            yield {"%": "%%", "*": "%%", "_": "_?"}.get(letter, letter)


def _states_after_wildcards(states: set[int], tokens: Sequence[str]) -> set[int]:
    reached = set(states)
    for state in states:
        end = state
        while end < len(tokens) and tokens[end] == "%%":
            end += 1
            reached.add(end)
    return reached


@dataclass(frozen=True)
class Metadata:
    """Metadata of both catalogs, as one session sees them."""

    spark: NativeSession

    def catalogs(self) -> RowsResult:
        """Return no rows, as Hive does: catalogs are not used."""
        return RowsResult([("TABLE_CAT", "string")], [])

    def schemas(self, pattern: str | None) -> RowsResult:
        """Return databases."""
        rows = [(name, None) for name in self._databases(pattern)]
        return RowsResult([("TABLE_SCHEM", "string"), ("TABLE_CATALOG", "string")], rows)

    def table_types(self) -> RowsResult:
        """Return the types of tables."""
        return RowsResult([("TABLE_TYPE", "string")], [(name,) for name in TABLE_TYPES])

    def tables(self, schema: str | None, pattern: str | None, types: Sequence[str] | None) -> RowsResult:
        """Return tables and views."""
        kinds = None if not types else {kind.upper() for kind in types}
        rows = [
            (None, name.database, name.name, kind, comment, *[None] * 5)
            for name, kind, comment in self._relations(schema, pattern)
            if kinds is None or kind in kinds
        ]
        return RowsResult(_TABLES, rows)

    def columns(self, schema: str | None, table: str | None, column: str | None) -> RowsResult:
        """Return columns of tables and views, in their order."""
        rows: list[Sequence[object]] = []
        for name, _, _ in self._relations(schema, table):
            for position, member in enumerate(self._columns_of(name), 1):
                if matches(column, member.name):
                    rows.append(_column_row(name, member, position))
        return RowsResult(_COLUMNS, rows)

    def type_info(self) -> RowsResult:
        """Return the types of columns."""
        rows = [
            (
                *(
                    name.upper(),
                    number,
                    precision,
                    None,
                    None,
                    None,
                    1,
                    name in ("string", "char", "varchar"),
                ),
                *(3 if precision or name in ("string", "boolean") else 0, precision is None, False, False),
                *(None, 0, 38 if name == "decimal" else 0, None, None, radix),
            )
            for name, (number, precision, radix) in _JDBC_TYPES.items()
        ]
        return RowsResult(_TYPE_INFO, rows)

    def functions(self, pattern: str | None) -> RowsResult:
        """Return Spark's functions."""
        names = [str(row[0]) for row in self.spark.sql("SHOW FUNCTIONS").collect()]
        rows = [(None, None, name, "", 1, name) for name in names if matches(pattern, name)]
        return RowsResult(_FUNCTIONS, rows)

    def primary_keys(self) -> RowsResult:
        """Return no rows: keys are not enforced."""
        kinds = [(name, "int" if name == "KEY_SEQ" else "string") for name in _PRIMARY_KEYS]
        return RowsResult(kinds, [])

    def cross_reference(self) -> RowsResult:
        """Return no rows: keys are not enforced."""
        numbers = ("KEY_SEQ", "UPDATE_RULE", "DELETE_RULE", "DEFERRABILITY")
        return RowsResult([(name, "int" if name in numbers else "string") for name in _CROSS_REFERENCE], [])

    def _databases(self, pattern: str | None) -> list[str]:
        ours = self.spark.acid.context.catalog.list_databases()
        theirs = [str(row[0]) for row in self.spark.sql("SHOW DATABASES").collect()]
        return sorted(name for name in {*ours, *theirs} if matches(pattern, name))

    def _relations(
        self, schema: str | None, pattern: str | None
    ) -> Iterator[tuple[TableName, str, str | None]]:
        """Yield name, type and comment of hiveacid's tables and views, and of Spark's whose names hiveacid does not have."""
        catalog = self.spark.acid.context.catalog
        for database in self._databases(schema):
            ours: dict[str, str] = {}
            if catalog.get_database(database) is not None:
                ours = dict.fromkeys(catalog.list_tables(database), "TABLE")
                ours |= dict.fromkeys(catalog.list_views(database), "VIEW")
            theirs = {name.lower() for name in spark_catalog_tables(self.spark.acid.context.facts, database)}
            for name in sorted({*ours, *theirs}):
                if matches(pattern, name):
                    full = TableName(database, name)
                    yield full, ours.get(name, "TABLE"), self._comment(full) if name in ours else None

    def _comment(self, name: TableName) -> str | None:
        catalog = self.spark.acid.context.catalog
        relation = catalog.get_table(name) or catalog.get_view(name)
        return None if relation is None else relation.comment

    def _columns_of(self, name: TableName) -> Iterable[Column]:
        catalog = self.spark.acid.context.catalog
        table, view = catalog.get_table(name), catalog.get_view(name)
        if table is not None:
            return (*table.columns, *table.partition_columns)
        if view is not None:
            return view.columns
        try:
            frame = self.spark.table(f"{quote_name(name.database)}.{quote_name(name.name)}")
        except (PySparkException, HiveAcidError):  # one broken view must not hide the columns of all others
            return ()
        return [Column(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _column_row(name: TableName, column: Column, position: int) -> Sequence[object]:
    kind, _, rest = column.type.lower().partition("<" if "<" in column.type else "(")
    number, precision, radix = _JDBC_TYPES.get(kind, (1111, None, None))
    arguments = [int(part) for part in rest.rstrip(")").split(",") if part.strip().isdigit()]
    size = arguments[0] if arguments and "<" not in column.type else precision
    digits = (
        (arguments[1] if len(arguments) > 1 else 0) if radix and kind not in ("float", "double") else None
    )
    return (
        *(
            None,
            name.database,
            name.name,
            column.name,
            number,
            kind.upper(),
            size,
            None,
            digits,
            radix,
        ),
        *(1, column.comment, None, None, None, None, position, "YES", None, None, None, None, "NO"),
    )
