"""Metadata calls: databases, tables, columns, types and functions as JDBC describes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from hiveacid.core.model import Column, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError
from hiveacid.serve.hs2_messages import Request
from hiveacid.serve.results import RowsResult
from hiveacid.spark.session.classic_session import spark_catalog_tables
from hiveacid.storage.paths import compile_wildcards

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession

_LONGEST_PATTERN = 512


def _columns(names: str) -> list[tuple[str, str]]:
    """Return the columns of a result; a name has its type behind a colon, unless it is a string."""
    columns = (name.partition(":") for name in names.split())
    return [(name, kind or "string") for name, _, kind in columns]


_TABLES = _columns(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME TABLE_TYPE REMARKS TYPE_CAT TYPE_SCHEM TYPE_NAME SELF_REFERENCING_COL_NAME "
    "REF_GENERATION"
)
_COLUMNS = _columns(
    "TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME DATA_TYPE:int TYPE_NAME COLUMN_SIZE:int BUFFER_LENGTH:tinyint "
    "DECIMAL_DIGITS:int NUM_PREC_RADIX:int NULLABLE:int REMARKS COLUMN_DEF SQL_DATA_TYPE:int SQL_DATETIME_SUB:int "
    "CHAR_OCTET_LENGTH:int ORDINAL_POSITION:int IS_NULLABLE SCOPE_CATALOG SCOPE_SCHEMA SCOPE_TABLE "
    "SOURCE_DATA_TYPE:smallint IS_AUTO_INCREMENT"
)
_TYPE_INFO = _columns(
    "TYPE_NAME DATA_TYPE:int PRECISION:int LITERAL_PREFIX LITERAL_SUFFIX CREATE_PARAMS NULLABLE:smallint "
    "CASE_SENSITIVE:boolean SEARCHABLE:smallint UNSIGNED_ATTRIBUTE:boolean FIXED_PREC_SCALE:boolean "
    "AUTO_INCREMENT:boolean LOCAL_TYPE_NAME MINIMUM_SCALE:smallint MAXIMUM_SCALE:smallint SQL_DATA_TYPE:int "
    "SQL_DATETIME_SUB:int NUM_PREC_RADIX:int"
)
_FUNCTIONS = _columns("FUNCTION_CAT FUNCTION_SCHEM FUNCTION_NAME REMARKS FUNCTION_TYPE:int SPECIFIC_NAME")
_PRIMARY_KEYS = _columns("TABLE_CAT TABLE_SCHEM TABLE_NAME COLUMN_NAME KEY_SEQ:int PK_NAME")
_CROSS_REFERENCE = _columns(
    "PKTABLE_CAT PKTABLE_SCHEM PKTABLE_NAME PKCOLUMN_NAME FKTABLE_CAT FKTABLE_SCHEM FKTABLE_NAME FKCOLUMN_NAME "
    "KEY_SEQ:int UPDATE_RULE:int DELETE_RULE:int FK_NAME PK_NAME DEFERRABILITY:int"
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
    pieces, letters = [""], iter(pattern.lower())
    for letter in letters:
        if letter in "%*":
            pieces.append("")
        elif letter == "_":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(next(letters, letter) if letter == "\\" else letter)
    return compile_wildcards(pieces).fullmatch(text.lower()) is not None


@dataclass(frozen=True)
class Metadata:
    """Metadata of both catalogs, as one session sees them."""

    spark: NativeSession

    def schemas(self, pattern: str | None) -> RowsResult:
        """Return databases."""
        rows = [(name, None) for name in self._databases(pattern)]
        return RowsResult(_columns("TABLE_SCHEM TABLE_CATALOG"), rows)

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

    def _databases(self, pattern: str | None) -> list[str]:
        ours = self.spark.acid.context.catalog.list_databases()
        theirs = [str(row[0]) for row in self.spark.sql("SHOW DATABASES").collect()]
        return sorted(name for name in {*ours, *theirs} if matches(pattern, name))

    def _relations(
        self, schema: str | None, pattern: str | None
    ) -> Iterator[tuple[TableName, str, str | None]]:
        """Yield name, type and comment of hiveacid's tables and views, and of those in Spark's catalog that they do not hide."""
        catalog = self.spark.acid.context.catalog
        for database in self._databases(schema):
            ours: dict[str, str] = {}
            if catalog.get_database(database) is not None:
                ours = dict.fromkeys(catalog.list_tables(database), "TABLE")
                ours |= dict.fromkeys(catalog.list_views(database), "VIEW")
            theirs = {name.lower() for name in spark_catalog_tables(self.spark.acid.context.env, database)}
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
            return table.all_columns
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
        *(None, name.database, name.name, column.name, number, kind.upper(), size, None, digits, radix),
        *(1, column.comment, None, None, None, None, position, "YES", None, None, None, None, "NO"),
    )


METADATA_CALLS: Mapping[str, tuple[int, Callable[[Metadata, Request], RowsResult]]] = MappingProxyType(
    {
        "GetTypeInfo": (1, lambda metadata, _: metadata.type_info()),
        "GetCatalogs": (2, lambda *_: RowsResult(_columns("TABLE_CAT"), [])),  # not used, as in Hive
        "GetSchemas": (3, lambda metadata, request: metadata.schemas(request.schemaName)),
        "GetTables": (
            4,
            lambda metadata, request: metadata.tables(
                request.schemaName, request.tableName, request.tableTypes
            ),
        ),
        "GetTableTypes": (5, lambda *_: RowsResult(_columns("TABLE_TYPE"), [("TABLE",), ("VIEW",)])),
        "GetColumns": (
            6,
            lambda metadata, request: metadata.columns(
                request.schemaName, request.tableName, request.columnName
            ),
        ),
        "GetFunctions": (7, lambda metadata, request: metadata.functions(request.tableName)),
        # keys are not enforced
        "GetPrimaryKeys": (8, lambda *_: RowsResult(_PRIMARY_KEYS, [])),
        "GetCrossReference": (8, lambda *_: RowsResult(_CROSS_REFERENCE, [])),
    }
)
"""By calls: ``TOperationType``, and the function that returns the rows."""
