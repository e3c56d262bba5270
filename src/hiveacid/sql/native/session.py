"""`NativeSession`: a Spark session whose own ``sql`` and ``table`` know transactional tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog, Database
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.sql_formatter import SQLStringFormatter

from hiveacid.core.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.catalyst import items
from hiveacid.spark.inside import inject_parser
from hiveacid.spark.relations import substituted
from hiveacid.spark.session import SparkFacts
from hiveacid.spark.views import is_temporary_view
from hiveacid.sql import statements as s
from hiveacid.sql.binding import relation_of_ours
from hiveacid.sql.naming import Named, about_table
from hiveacid.sql.native.door import Door, bound_for_spark, judged, mirror, with_our_tables
from hiveacid.sql.native.parser import NativeParser
from hiveacid.sql.ownership import Owner, refuse_transactional
from hiveacid.sql.past import about as about_frame
from hiveacid.sql.session import connected
from hiveacid.sql.values import table_ref

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.sql.native.connection import NativeConnection


Place: TypeAlias = tuple[str | None, str | None, Mapping[str, str] | None]


class NativeSession(SparkSession):
    """Spark's session; statements that name a transactional table are carried out by hiveacid.

    Made by ``hiveacid.configure(SparkSession.builder, native=True, warehouse=...).getOrCreate()``. Threads may
    share it; a transaction (START TRANSACTION) belongs to the thread that began it.
    """

    def __init__(self, plain: SparkSession, door: Door, place: Place) -> None:
        """Wrap a session whose parser was put in place by `opened`."""
        super().__init__(plain.sparkContext, plain._jsparkSession)  # noqa: SLF001
        self._door = door
        self._parser = door.parser_of(plain._jsparkSession)  # noqa: SLF001
        self._local = threading.local()
        self.place = place

    @property
    def acid(self) -> NativeConnection:
        """The connection of this session and thread: ``spark.acid.table("db.t").merge(...)``.

        Closing it ends a transaction that was begun by START TRANSACTION; all else ends with the Spark session.
        """
        if not hasattr(self._local, "acid"):
            self._local.acid = self._door.connection(self, self._parser)
        acid: NativeConnection = self._local.acid
        return acid

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - Spark's name
        """Run a statement: as Spark does, and on transactional tables as `AcidSession.sql` does.

        Raises the errors of `hiveacid.errors` for the latter.
        """
        if not self._door.open:
            return super().sql(sqlQuery, args, **kwargs)
        if kwargs:
            return self._formatted(sqlQuery, args, kwargs)
        if getattr(self._local, "inside", False):  # hiveacid's own, on the way of a statement of ours
            return self._sparks(sqlQuery, args)
        self._local.inside = True
        try:
            return self._shared(sqlQuery, args)
        finally:
            self._local.inside = False

    def _formatted(self, text: str, args: Any, values: Mapping[str, Any]) -> DataFrame:
        """Run a statement with ``values`` between its braces; a DataFrame is a view as long as it runs."""
        formatter = SQLStringFormatter(self)
        try:
            return self.sql(formatter.format(text, **values), args)
        finally:
            formatter.clear()

    def _shared(self, text: str, args: Any) -> DataFrame:
        text = substituted(self.acid.context.facts, text)
        found = judged(self.acid, text)
        if found.owner is Owner.OURS:
            return self.acid.sql(text, args)
        if found.owner is Owner.SPARK_READING_OURS:
            with self.acid.binder() as binder:
                return self._sparks(bound_for_spark(binder, text), args)
        answer = self._sparks(text, args)
        if isinstance(found.statement, s.ShowTables | s.ShowViews):
            return with_our_tables(self.acid, found.statement, answer)
        return answer

    def _sparks(self, text: str, args: Any) -> DataFrame:
        """Run what Spark is to carry out as it stands."""
        with self._door.passing(self._jsparkSession, text):
            return super().sql(text, args)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's name
        """Return a table, ours at its present snapshot."""
        ours = self.table_of_ours(tableName)
        if ours is not None:
            return self.acid.table(ours).to_df()
        about = self.about_table(tableName)
        if about is not None:
            return about_frame(self.acid.context, about, None)
        self.require_readable(tableName)
        return super().table(tableName)

    def about_table(self, name: str) -> Named | None:
        """Return what a name says about a table of ours (``db.t.history``); None for other names."""
        parts = self._parts(name)
        return None if parts is None else about_table(self.acid.context, parts)

    def table_of_ours(self, name: str) -> TableName | None:
        """Return the table or view of ours that a name, as Spark takes it, means; None if it is Spark's."""
        parts = self._parts(name)
        return None if parts is None else relation_of_ours(self.acid.context, table_ref(parts))

    def _parts(self, name: str) -> list[str] | None:
        self.acid.follow()
        try:
            return [str(part).lower() for part in items(self._parser.parseMultipartIdentifier(name))]
        except PySparkException:  # Spark says what is wrong with it
            return None

    def naming_database(self, name: str) -> AbstractContextManager[None]:
        """Let Spark take a name for that of a database, though a table of ours may be called so, too."""
        return self._door.passing(self._jsparkSession, name)

    def require_readable(self, name: str) -> None:
        """Raise UnsupportedFeatureError for a transactional table of Spark's own catalog, a Hive Metastore's."""
        context = self.acid.context
        if not context.facts.hive_support:
            return
        parts = self._parts(name)
        ref = table_ref(parts) if parts else None
        if ref is not None and not (ref.database is None and is_temporary_view(context.facts, ref.name)):
            refuse_transactional(context.facts, ref.resolve(context.database))

    @property
    def read(self) -> DataFrameReader:
        """Spark's reader, whose ``table`` knows ours."""
        return _Reader(self)

    @property
    def catalog(self) -> Catalog:
        """Spark's catalog, whose ``tableExists`` knows ours."""
        return _Catalog(self)

    def newSession(self) -> NativeSession:  # noqa: N802 - Spark's name
        """Return a session with its own views, settings and current database, on the same tables."""
        plain = SparkSession(self.sparkContext, self._jsparkSession.newSession())
        return NativeSession(plain, self._door, self.place)

    def close(self) -> None:
        """Give Spark its SQL back and end the connections, with their open transactions; Spark goes on."""
        self._door.close()
        SparkSession._instantiatedSession = SparkSession(self.sparkContext, self._jsparkSession)  # noqa: SLF001

    def stop(self) -> None:
        """End the connection and Spark."""
        self.close()
        super().stop()


class _Reader(DataFrameReader):
    def __init__(self, spark: NativeSession) -> None:
        super().__init__(spark)
        self._native = spark

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - Spark's name
        spark = self._native
        if spark.table_of_ours(tableName) is not None or spark.about_table(tableName) is not None:
            return spark.table(tableName)
        spark.require_readable(tableName)
        return super().table(tableName)


class _Catalog(Catalog):
    def __init__(self, spark: NativeSession) -> None:
        super().__init__(spark)
        self._native = spark

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:  # noqa: N802, N803 - Spark's names
        full = tableName if dbName is None else f"{quote_name(dbName)}.{quote_name(tableName)}"
        return self._native.table_of_ours(full) is not None or super().tableExists(tableName, dbName)

    def setCurrentDatabase(self, dbName: str) -> None:  # noqa: N802, N803 - Spark's names
        with self._native.naming_database(dbName):
            super().setCurrentDatabase(dbName)

    def getDatabase(self, dbName: str) -> Database:  # noqa: N802, N803 - Spark's names
        with self._native.naming_database(dbName):
            return super().getDatabase(dbName)

    def databaseExists(self, dbName: str) -> bool:  # noqa: N802, N803 - Spark's names
        with self._native.naming_database(dbName):
            return super().databaseExists(dbName)

    def refreshTable(self, tableName: str) -> None:  # noqa: N802, N803 - Spark's names
        if self._native.table_of_ours(tableName) is None:
            super().refreshTable(tableName)


def opened(
    spark: SparkSession, warehouse: str | None, store: str | None, settings: Mapping[str, str] | None
) -> NativeSession:
    """Return a session around ``spark`` on a warehouse; later sessions of the application know its tables, too.

    Raises UnsupportedFeatureError on Spark Connect, and what `hiveacid.connect` raises.
    """
    if not SparkFacts(spark).classic:
        raise UnsupportedFeatureError("native=True needs a classic session: on Spark Connect use acid.sql")
    root = connected(spark, warehouse, store, settings)
    door = Door(root)
    try:
        inject_parser(spark, lambda session, parser: _parser(door, spark, session, parser))
        native = NativeSession(spark, door, (warehouse, store, settings))
        mirror(native.acid)
    except BaseException:
        door.close()
        raise
    SparkSession._instantiatedSession = native  # noqa: SLF001 - what SparkSession.builder.getOrCreate() returns
    return native


def _parser(door: Door, spark: SparkSession, session: Any, parser: Any) -> Any:
    if not door.open:
        return parser
    door.remember(session, parser)
    return NativeParser(door, SparkSession(spark.sparkContext, session), parser)
