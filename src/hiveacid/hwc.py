"""The calls of the Hive Warehouse Connector, each one verb of this project (docs/coming-from.md).

Jobs written for ``pyspark_llap`` change only their import, to ``from hiveacid.hwc import HiveWarehouseSession``.
Names, order and meaning of the arguments are those of HWC's documented Python API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession

from hiveacid.config.property_definitions import TRANSACTIONAL
from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.sql.binding.parameters import literal
from hiveacid.sql.session import AcidSession, connect

WAREHOUSE_KEY = "spark.hiveacid.warehouse"
STORE_KEY = "spark.hiveacid.store"
_LOGIN_CALLS = frozenset({"userPassword", "hs2url", "principal", "credentialsEnabled"})


class HiveWarehouseSession:
    """Entry point of HWC: ``HiveWarehouseSession.session(spark).build()``.

    The constants are names of data sources for ``df.write.format(...)`` and ``writeStream``: here all the same.
    """

    HIVE_WAREHOUSE_CONNECTOR = "hiveacid"
    DATAFRAME_TO_STREAM = "hiveacid"
    STREAM_TO_STREAM = "hiveacid"

    @staticmethod
    def session(spark: SparkSession) -> HiveWarehouseBuilder:
        """Begin a connection on a Spark session."""
        return HiveWarehouseBuilder(spark)


@dataclass(frozen=True)
class HiveWarehouseBuilder:
    """Builder of a connection."""

    spark: SparkSession
    database: str | None = None

    def defaultDB(self, database: str) -> HiveWarehouseBuilder:
        """Make a database the current one of the connection."""
        return HiveWarehouseBuilder(self.spark, database)

    def build(self) -> HiveWarehouse:
        """Open the connection.

        Its location is that of a native session, or else ``spark.hiveacid.warehouse`` and ``spark.hiveacid.store`` of
        the session's configuration, as for `hiveacid.connect`. Raises ConfigError without one, and what `connect` raises.
        """
        place = {key: self.spark.conf.get(key, None) for key in (WAREHOUSE_KEY, STORE_KEY)}
        if not any(place.values()) and not hasattr(self.spark, "acid"):
            raise ConfigError(
                f"the session does not say where the tables are: set {WAREHOUSE_KEY} to the warehouse's directory, or {STORE_KEY} to its store "
                "(thrift://host:9083 for a Hive Metastore), in the configuration of the Spark session"
            )
        acid = connect(self.spark, warehouse=place[WAREHOUSE_KEY], store=place[STORE_KEY])
        if self.database is not None:
            acid.use(self.database)
        return HiveWarehouse(acid)

    def __getattr__(self, call: str) -> Callable[..., NoReturn]:
        """Return a function that refuses a call with a HiveServer2 or a login. It raises UnsupportedFeatureError."""
        if call not in _LOGIN_CALLS:
            raise AttributeError(call)

        def refuse(*_: object) -> NoReturn:
            raise UnsupportedFeatureError(
                f"{call}: hiveacid uses no HiveServer2 and needs no login: leave the call out. The password of a store "
                "on a server is taken from HIVEACID_STORE_PASSWORD (docs/operate.md)"
            )

        return refuse


@dataclass(frozen=True)
class HiveWarehouse:
    """HWC's session: each method is one statement, or one verb, of ``acid``."""

    acid: AcidSession

    def sql(self, query: str) -> DataFrame:
        """Return the rows of a query. Raises the errors of `hiveacid.errors`."""
        return self.acid.sql(query)

    executeQuery = execute = sql

    def executeUpdate(self, statement: str, propagateException: bool = True) -> bool:
        """Run a statement; return True. An error is raised whatever ``propagateException`` says."""
        del propagateException
        self.acid.sql(statement)
        return True

    def table(self, name: str) -> DataFrame:
        """Return a table's rows."""
        return self.acid.table(name).to_df()

    def session(self) -> SparkSession:
        """Return the Spark session."""
        return self.acid.context.env.spark

    def setDatabase(self, database: str) -> None:
        """Make a database the current one."""
        self.acid.use(database)

    def showDatabases(self) -> DataFrame:
        """Return the databases."""
        return self.acid.sql("SHOW DATABASES")

    def showTables(self) -> DataFrame:
        """Return the tables of the current database."""
        return self.acid.sql("SHOW TABLES")

    def describeTable(self, name: str) -> DataFrame:
        """Return a table's columns."""
        return self.acid.sql(f"DESCRIBE {name}")

    def createDatabase(self, name: str, ifNotExists: bool) -> None:
        """Make a database."""
        self.acid.sql(f"CREATE DATABASE {'IF NOT EXISTS ' if ifNotExists else ''}{name}")

    def dropDatabase(self, name: str, ifExists: bool, cascade: bool) -> None:
        """Drop a database, with its tables if ``cascade``."""
        self.acid.sql(
            f"DROP DATABASE {'IF EXISTS ' if ifExists else ''}{name}{' CASCADE' if cascade else ''}"
        )

    def dropTable(self, name: str, ifExists: bool, purge: bool) -> None:
        """Drop a table."""
        self.acid.sql(f"DROP TABLE {'IF EXISTS ' if ifExists else ''}{name}{' PURGE' if purge else ''}")

    def createTable(self, name: str) -> CreateTableBuilder:
        """Return a builder of a table."""
        return CreateTableBuilder(self.acid, name)

    def mergeBuilder(self) -> MergeBuilder:
        """Return a builder of a MERGE."""
        return MergeBuilder(self.acid)

    def close(self) -> None:
        """Close the connection; Spark keeps running."""
        self.acid.close()


@dataclass
class CreateTableBuilder:
    """Builder of a table: full ACID in ORC, as Hive's managed tables, unless a property says otherwise."""

    acid: AcidSession
    name: str
    _if_not_exists: bool = False
    _columns: list[str] = field(default_factory=list)
    _partitions: list[str] = field(default_factory=list)
    _buckets: str = ""
    _properties: dict[str, str] = field(default_factory=lambda: {TRANSACTIONAL.name: "true"})

    def ifNotExists(self) -> CreateTableBuilder:
        """Do nothing where the table exists."""
        self._if_not_exists = True
        return self

    def column(self, name: str, type: str) -> CreateTableBuilder:
        """Add a column."""
        self._columns.append(f"{name} {type}")
        return self

    def partition(self, name: str, type: str) -> CreateTableBuilder:
        """Add a partition column."""
        self._partitions.append(f"{name} {type}")
        return self

    def clusterBy(self, numBuckets: int, *columns: str) -> CreateTableBuilder:
        """Divide rows into buckets. Raises ConfigError unless a number and at least one column are given."""
        given: object = numBuckets  # a caller may forget it
        if not isinstance(given, int) or isinstance(given, bool) or given < 1 or not columns:
            raise ConfigError("clusterBy takes the number of buckets, then columns: clusterBy(4, 'id')")
        self._buckets = f" CLUSTERED BY ({', '.join(columns)}) INTO {numBuckets} BUCKETS"
        return self

    def prop(self, key: str, value: str) -> CreateTableBuilder:
        """Set a table property."""
        self._properties[key] = value
        return self

    def toString(self) -> str:
        """Return the statement."""
        exists = "IF NOT EXISTS " if self._if_not_exists else ""
        partitions = f" PARTITIONED BY ({', '.join(self._partitions)})" if self._partitions else ""
        properties = ", ".join(f"{literal(key)}={literal(value)}" for key, value in self._properties.items())
        return (
            f"CREATE TABLE {exists}{self.name} ({', '.join(self._columns)}){partitions}{self._buckets} "
            f"STORED AS ORC TBLPROPERTIES ({properties})"
        )

    def create(self) -> None:
        """Make the table."""
        self.acid.sql(self.toString())


@dataclass
class MergeBuilder:
    """Builder of a MERGE; its clauses come in HWC's order: update, delete, insert."""

    acid: AcidSession
    _target: str = ""
    _source: str = ""
    _on: str = ""
    _clauses: dict[str, str] = field(default_factory=dict)

    def mergeInto(self, targetTable: str, alias: str) -> MergeBuilder:
        """Name the table that is changed."""
        self._target = f"{targetTable} AS {alias}"
        return self

    def using(self, sourceTableOrExpr: str, alias: str) -> MergeBuilder:
        """Name the source: a table, a temporary view, or a query in parentheses."""
        self._source = f"{sourceTableOrExpr} AS {alias}"
        return self

    def on(self, expr: str) -> MergeBuilder:
        """Say which rows belong together."""
        self._on = expr
        return self

    def whenMatchedThenUpdate(self, matchExpr: str | None, *nameValuePairs: str) -> MergeBuilder:
        """Update matched rows for which ``matchExpr`` holds (None: all), by pairs like ``qty = s.qty``."""
        return self._when("update", "MATCHED", matchExpr, f"UPDATE SET {', '.join(nameValuePairs)}")

    def whenMatchedThenDelete(self, matchExpr: str | None) -> MergeBuilder:
        """Delete matched rows for which ``matchExpr`` holds (None: all)."""
        return self._when("delete", "MATCHED", matchExpr, "DELETE")

    def whenNotMatchedInsert(self, matchExpr: str | None, *values: str) -> MergeBuilder:
        """Insert values, one for each column, for source rows without a match."""
        return self._when("insert", "NOT MATCHED", matchExpr, f"INSERT VALUES ({', '.join(values)})")

    def toString(self) -> str:
        """Return the statement."""
        clauses = [self._clauses[name] for name in ("update", "delete", "insert") if name in self._clauses]
        return " ".join([f"MERGE INTO {self._target} USING {self._source} ON {self._on}", *clauses])

    def merge(self) -> None:
        """Run the MERGE. Raises ConfigError if a part is missing."""
        missing = [
            call
            for call, there in (("mergeInto", self._target), ("using", self._source), ("on", self._on))
            if not there
        ]
        if missing or not self._clauses:
            raise ConfigError(f"mergeBuilder lacks {', '.join(missing) or 'a when... clause'}")
        self.acid.sql(self.toString())

    def _when(self, name: str, match: str, condition: str | None, action: str) -> MergeBuilder:
        extra = f" AND ({condition})" if condition else ""
        self._clauses[name] = f"WHEN {match}{extra} THEN {action}"
        return self
