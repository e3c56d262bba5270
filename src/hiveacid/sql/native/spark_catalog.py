"""``spark.catalog`` of a native session: Spark's own, which also knows the tables of the hiveacid catalog.

`ChangingCatalog` has the methods that only Spark 4.2 and later offer: they change databases and tables, or describe a table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.catalog import Catalog, Column, Database, Function, Table
from pyspark.storagelevel import StorageLevel

from hiveacid.catalog.repair_partitions import repair_partitions
from hiveacid.core.model import TableDefinition, TableName, ViewDefinition
from hiveacid.core.schema.types import quote_name, unquoted_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.catalog import Catalog as AcidCatalog
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.session.jvm import scala_items
from hiveacid.sql.binding.parameters import literal
from hiveacid.sql.execute import show_rows
from hiveacid.sql.grammar.admin import CACHE_ADVICE
from hiveacid.sql.native.both_catalogs import mirror_databases
from hiveacid.sql.native.shared_gateway import NativeConnection
from hiveacid.sql.statements import SPARK_CATALOG

if TYPE_CHECKING:
    from pyspark.sql.catalog import TablePartition

T = TypeVar("T")
RowsOf: TypeAlias = Callable[[AcidCatalog, str, str | None], list[tuple[str, ...]]]


class CatalogSession(Protocol):
    """The parts of a native session that its catalog needs."""

    @property
    def acid(self) -> NativeConnection:
        """The connection of this thread."""

    def sql(self, sqlQuery: str) -> DataFrame:
        """Run a statement."""

    def find_hiveacid_table(self, name: str) -> TableName | None:
        """Return the hiveacid table or view that a name refers to."""

    def require_readable(self, name: str) -> None:
        """Raise UnsupportedFeatureError for a transactional table of Spark's own catalog."""

    def resolved_by_spark(self, name: str) -> AbstractContextManager[None]:
        """Let Spark resolve a name (of a database, view or function), even if a hiveacid table has it."""


class NativeCatalog(Catalog):
    """Spark's catalog with the tables of both catalogs; methods that are not defined here are Spark's."""

    def __init__(self, spark: CatalogSession) -> None:
        """Show the catalogs of a native session."""
        super().__init__(spark)  # type: ignore[arg-type] # it is a SparkSession
        self._native = spark

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        """Tell whether one of the catalogs has a table or view."""
        return self._find(tableName, dbName) is not None or super().tableExists(tableName, dbName)

    def getTable(self, tableName: str) -> Table:
        """Return a table or view."""
        ours = self._find(tableName)
        return super().getTable(tableName) if ours is None else self._table(ours)

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:
        """Return the tables and views of a database, and all temporary views."""
        theirs = self._of_database(dbName, lambda: super(NativeCatalog, self).listTables(dbName, pattern))
        return self._with_hiveacid(theirs, show_rows.table_rows, dbName, pattern)

    def listColumns(self, tableName: str, dbName: str | None = None) -> list[Column]:
        """Return the columns of a table or view, partition columns last."""
        ours = self._find(tableName, dbName)
        if ours is None:
            return super().listColumns(tableName, dbName)
        relation = self._relation(ours)
        is_table = isinstance(relation, TableDefinition)
        partitioned = relation.partition_columns if isinstance(relation, TableDefinition) else ()
        buckets = relation.bucketing if isinstance(relation, TableDefinition) else None
        values: list[dict[str, Any]] = [
            {
                "name": column.name,
                "description": column.comment or None,
                "dataType": column_type(column).simpleString() if is_table else column.type,
                "nullable": True,
                "isPartition": column in partitioned,
                "isBucket": buckets is not None and column.name in buckets.columns,
                "isCluster": False,
            }
            for column in (*relation.columns, *partitioned)
        ]
        return [Column(**{name: value[name] for name in Column._fields}) for value in values]

    def listDatabases(self, pattern: str | None = None) -> list[Database]:
        """Return the databases of both catalogs."""
        mirror_databases(self._native.acid)
        return super().listDatabases(pattern)

    def setCurrentDatabase(self, dbName: str) -> None:
        """Make a database the current one."""
        self._of_database(dbName, lambda: super(NativeCatalog, self).setCurrentDatabase(dbName))

    def getDatabase(self, dbName: str) -> Database:
        """Return a database."""
        return self._of_database(dbName, lambda: super(NativeCatalog, self).getDatabase(dbName))

    def databaseExists(self, dbName: str) -> bool:
        """Tell whether one of the catalogs has a database."""
        return self._of_database(dbName, lambda: super(NativeCatalog, self).databaseExists(dbName))

    def cacheTable(self, tableName: str, storageLevel: StorageLevel | None = None) -> None:
        """Cache a table of Spark's own; UnsupportedFeatureError for a transactional one."""
        if self._find(tableName) is not None:
            raise UnsupportedFeatureError(f"{tableName}: {CACHE_ADVICE}")
        super().cacheTable(tableName, *(() if storageLevel is None else (storageLevel,)))

    def isCached(self, tableName: str) -> bool:
        """Tell whether a table is cached; a transactional one never is."""
        return self._find(tableName) is None and super().isCached(tableName)

    def uncacheTable(self, tableName: str) -> None:
        """Release the cached rows of a table."""
        if self._find(tableName) is None:
            super().uncacheTable(tableName)

    def refreshTable(self, tableName: str) -> None:
        """Let later reads of a table see its current rows. Reads of hiveacid tables always do."""
        if self._find(tableName) is None:
            super().refreshTable(tableName)

    def recoverPartitions(self, tableName: str) -> None:
        """Add the partitions on disk to a table, as ALTER TABLE RECOVER PARTITIONS."""
        ours = self._find(tableName)
        if ours is None:
            super().recoverPartitions(tableName)
        else:
            repair_partitions(self._native.acid.context, ours, list, add=True, drop=False)

    def functionExists(self, functionName: str, dbName: str | None = None) -> bool:
        """Tell whether a function exists, even if a hiveacid table has its name."""
        with self._native.resolved_by_spark(functionName):
            return super().functionExists(functionName, dbName)

    def getFunction(self, functionName: str) -> Function:
        """Return a function, even if a hiveacid table has its name."""
        with self._native.resolved_by_spark(functionName):
            return super().getFunction(functionName)

    def _find(self, name: str, database: str | None = None) -> TableName | None:
        full = name if database is None else f"{quote_name(database)}.{quote_name(name)}"
        return self._native.find_hiveacid_table(full)

    def _database(self, name: str | None) -> str:
        acid = self._native.acid
        acid.follow()
        return (
            acid.context.database
            if name is None
            else name.strip("`").lower().removeprefix(f"{SPARK_CATALOG}.")
        )

    def _of_database(self, name: str | None, ask: Callable[[], T]) -> T:
        """Ask Spark about a database, after creating those that only the hiveacid catalog has."""
        if name is None:
            return ask()
        mirror_databases(self._native.acid)
        with self._native.resolved_by_spark(name):
            return ask()

    def _with_hiveacid(
        self, theirs: list[Table], rows_of: RowsOf, database: str | None, pattern: str | None
    ) -> list[Table]:
        """Add tables or views of the hiveacid catalog (``rows_of``) to those of Spark, which they hide."""
        catalog, database = self._native.acid.context.catalog, self._database(database)
        if catalog.get_database(database) is None:
            return theirs
        names = [row[0] for row in rows_of(catalog, database, pattern)]
        visible = [table for table in theirs if table.isTemporary or table.name.lower() not in names]
        ours = [self._table(TableName(database, name)) for name in names]
        return sorted((*visible, *ours), key=lambda table: (table.isTemporary, table.name))

    def _relation(self, name: TableName) -> TableDefinition | ViewDefinition:
        context = self._native.acid.context
        return context.catalog.get_view(name) or context.require(name)

    def _table(self, name: TableName) -> Table:
        relation = self._relation(name)
        kind = "VIEW"
        if isinstance(relation, TableDefinition):
            kind = "EXTERNAL" if relation.external else "MANAGED"
        return Table(
            name.name, SPARK_CATALOG, [name.database], relation.comment or None, kind, isTemporary=False
        )


class ChangingCatalog(NativeCatalog):
    """Catalog that runs the SQL statement of each method for hiveacid's tables, and for databases, which are of both.

    Spark's own methods would change or describe only Spark's catalog.
    """

    def createDatabase(
        self, dbName: str, ifNotExists: bool = False, properties: dict[str, str] | None = None
    ) -> None:
        """Create a database in both catalogs; the properties ``comment`` and ``location`` are its clauses."""
        others = dict(properties or {})
        text = f"CREATE DATABASE {'IF NOT EXISTS ' if ifNotExists else ''}{self._quoted(dbName)}"
        for key in ("comment", "location"):
            if key in others:
                text += f" {key.upper()} {self._literal(others.pop(key))}"
        if others:
            pairs = ", ".join(f"{self._literal(k)} = {self._literal(v)}" for k, v in others.items())
            text += f" WITH DBPROPERTIES ({pairs})"
        self._native.sql(text)

    def dropDatabase(self, dbName: str, ifExists: bool = False, cascade: bool = False) -> None:
        """Drop a database from both catalogs; with ``cascade`` also its tables."""
        exists, tables = "IF EXISTS " if ifExists else "", " CASCADE" if cascade else ""
        self._native.sql(f"DROP DATABASE {exists}{self._quoted(dbName)}{tables}")

    def dropTable(self, tableName: str, ifExists: bool = False, purge: bool = False) -> None:
        """Drop a table, even if a temporary view has its name."""
        ours = self._find_persistent(tableName)
        if ours is None:
            super().dropTable(tableName, ifExists, purge)
        else:
            self._native.sql(f"DROP TABLE {ours}{' PURGE' if purge else ''}")

    def dropView(self, viewName: str, ifExists: bool = False) -> None:
        """Drop a view that is not temporary."""
        ours = self._find_persistent(viewName)
        if ours is None:
            super().dropView(viewName, ifExists)
        else:
            self._native.sql(f"DROP VIEW {ours}")

    def truncateTable(self, tableName: str) -> None:
        """Remove all rows of a table."""
        ours = self._find_changed(tableName)
        if ours is None:
            super().truncateTable(tableName)
        else:
            self._native.sql(f"TRUNCATE TABLE {ours}")

    def analyzeTable(self, tableName: str, noScan: bool = False) -> None:
        """Compute statistics of a Spark table. Tables of hiveacid need none (ANALYZE TABLE in docs/sql.md)."""
        ours = self._find_changed(tableName)
        if ours is None:
            super().analyzeTable(tableName, noScan)
        else:
            self._native.sql(f"ANALYZE TABLE {ours} COMPUTE STATISTICS")

    def listViews(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:
        """Return the views of a database, and all temporary views."""
        theirs = self._of_database(dbName, lambda: super(ChangingCatalog, self).listViews(dbName, pattern))
        return self._with_hiveacid(theirs, show_rows.view_rows, dbName, pattern)

    def listPartitions(self, tableName: str) -> list[TablePartition]:
        """Return the partitions of a table, as SHOW PARTITIONS prints them."""
        from pyspark.sql.catalog import TablePartition  # noqa: PLC0415 - older versions have none

        ours = self._find(tableName)
        if ours is None:
            return super().listPartitions(tableName)
        return [
            TablePartition(row[0]) for row in self._native.sql(f"SHOW PARTITIONS {_full(ours)}").collect()
        ]

    def getTableProperties(self, tableName: str) -> dict[str, str]:
        """Return the properties of a table, as SHOW TBLPROPERTIES prints them."""
        ours = self._find(tableName)
        if ours is None:
            return super().getTableProperties(tableName)
        return {row[0]: row[1] for row in self._native.sql(f"SHOW TBLPROPERTIES {_full(ours)}").collect()}

    def getCreateTableString(self, tableName: str, asSerde: bool = False) -> str:
        """Return the statement that creates a table or view, a hiveacid table's in Hive's dialect."""
        ours = self._find(tableName)
        if ours is None:
            return super().getCreateTableString(tableName, asSerde)
        return "\n".join(row[0] for row in self._native.sql(f"SHOW CREATE TABLE {_full(ours)}").collect())

    def _find_changed(self, name: str) -> str | None:
        """Return the quoted name of hiveacid's table or view; None for one that Spark may change."""
        ours = self._find(name)
        if ours is not None:
            return _full(ours)
        self._native.require_readable(name)
        return None

    def _find_persistent(self, name: str) -> str | None:
        """Return the quoted name as `_find_changed` does, also for a table that a temporary view hides."""
        hidden = self._find(unquoted_name(name), self._database(None))
        return self._find_changed(name if hidden is None else _full(hidden))

    def _quoted(self, name: str) -> str:
        """Return the name of a database, which a catalog's may precede, with its parts in back-quotes."""
        parts = self._native.acid.context.env.parser.parseMultipartIdentifier(name)
        return ".".join(quote_name(str(part)) for part in scala_items(parts))

    def _literal(self, text: str) -> str:
        escaped = self._sparkSession.conf.get("spark.sql.parser.escapedStringLiterals")
        return literal(text, escapes=str(escaped).lower() != "true")


def _full(name: TableName) -> str:
    return f"{quote_name(name.database)}.{quote_name(name.name)}"
