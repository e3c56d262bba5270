"""``spark.catalog`` methods of Spark 4.2 and later: they change databases and tables, or describe a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.catalog import Table

from hiveacid.core.model import TableName
from hiveacid.core.schema.types import quote_name, unquoted_name
from hiveacid.spark.parser.catalyst import scala_items
from hiveacid.sql.binding.parameters import literal
from hiveacid.sql.execute import show_rows
from hiveacid.sql.native.catalog import NativeCatalog

if TYPE_CHECKING:
    from pyspark.sql.catalog import TablePartition


class ChangingCatalog(NativeCatalog):
    """Catalog that runs the SQL statement of each method for hiveacid's tables, and for databases, which are of both.

    Spark's own methods would change or describe only Spark's catalog.
    """

    def createDatabase(  # noqa: N802 - Spark's names
        self,
        dbName: str,  # noqa: N803
        ifNotExists: bool = False,  # noqa: FBT001, FBT002, N803
        properties: dict[str, str] | None = None,
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

    def dropDatabase(self, dbName: str, ifExists: bool = False, cascade: bool = False) -> None:  # noqa: FBT001, FBT002, N802, N803
        """Drop a database from both catalogs; with ``cascade`` also its tables."""
        exists, tables = "IF EXISTS " if ifExists else "", " CASCADE" if cascade else ""
        self._native.sql(f"DROP DATABASE {exists}{self._quoted(dbName)}{tables}")

    def dropTable(self, tableName: str, ifExists: bool = False, purge: bool = False) -> None:  # noqa: FBT001, FBT002, N802, N803
        """Drop a table, even if a temporary view has its name."""
        ours = self._find_persistent(tableName)
        if ours is None:
            super().dropTable(tableName, ifExists, purge)
        else:
            self._native.sql(f"DROP TABLE {ours}{' PURGE' if purge else ''}")

    def dropView(self, viewName: str, ifExists: bool = False) -> None:  # noqa: FBT001, FBT002, N802, N803
        """Drop a view that is not temporary."""
        ours = self._find_persistent(viewName)
        if ours is None:
            super().dropView(viewName, ifExists)
        else:
            self._native.sql(f"DROP VIEW {ours}")

    def truncateTable(self, tableName: str) -> None:  # noqa: N802, N803
        """Remove all rows of a table."""
        ours = self._find_changed(tableName)
        if ours is None:
            super().truncateTable(tableName)
        else:
            self._native.sql(f"TRUNCATE TABLE {ours}")

    def analyzeTable(self, tableName: str, noScan: bool = False) -> None:  # noqa: FBT001, FBT002, N802, N803
        """Compute statistics of a Spark table. Raises UnsupportedFeatureError for hiveacid tables, which need none."""
        ours = self._find_changed(tableName)
        if ours is None:
            super().analyzeTable(tableName, noScan)
        else:
            self._native.sql(f"ANALYZE TABLE {ours} COMPUTE STATISTICS")

    def listViews(self, dbName: str | None = None, pattern: str | None = None) -> list[Table]:  # noqa: N802, N803
        """Return the views of a database, and all temporary views."""
        theirs = self._of_database(dbName, lambda: super(ChangingCatalog, self).listViews(dbName, pattern))
        return self._with_hiveacid(theirs, show_rows.view_rows, dbName, pattern)

    def listPartitions(self, tableName: str) -> list[TablePartition]:  # noqa: N802, N803
        """Return the partitions of a table, as SHOW PARTITIONS prints them."""
        from pyspark.sql.catalog import TablePartition  # noqa: PLC0415 - older versions have none

        ours = self._find(tableName)
        if ours is None:
            return super().listPartitions(tableName)
        return [
            TablePartition(row[0]) for row in self._native.sql(f"SHOW PARTITIONS {_full(ours)}").collect()
        ]

    def getTableProperties(self, tableName: str) -> dict[str, str]:  # noqa: N802, N803
        """Return the properties of a table, as SHOW TBLPROPERTIES prints them."""
        ours = self._find(tableName)
        if ours is None:
            return super().getTableProperties(tableName)
        return {row[0]: row[1] for row in self._native.sql(f"SHOW TBLPROPERTIES {_full(ours)}").collect()}

    def getCreateTableString(self, tableName: str, asSerde: bool = False) -> str:  # noqa: FBT001, FBT002, N802, N803
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
