"""`WarehouseConnection`: one warehouse, one store, one Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from pyspark.sql import SparkSession

from hiveacid.catalog.adopt import adopt
from hiveacid.catalog.opening import begin_session, log_new_warehouse, open_store
from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Displayed, TableDefinition, TableName
from hiveacid.errors import UnsupportedFeatureError, no_such_database
from hiveacid.ports.clock import SystemClock
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.file_systems import SessionFileSystems
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.table.acid_table import AcidTable
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean_on_request
from hiveacid.table.context import Context, SessionState
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transaction


def make_context(
    spark: SparkSession, warehouse: str | None, store: str | None, settings: dict[str, str] | None
) -> Context:
    """Open (or make) a warehouse and its store.

    ``store``: an SQLAlchemy URL, or ``thrift://host:9083`` for a Hive Metastore; default: SQLite inside the
    warehouse directory. Raises ConfigError, StorageError, StoreUnavailableError, StoreVersionError.
    """
    chosen = Settings.of(settings or {})
    env = SparkEnvironment(spark)
    env.apply_settings()
    env.require_absolute_warehouse(warehouse)
    clock = SystemClock()
    if warehouse is not None:
        log_new_warehouse(warehouse, store)
    opened, root = open_store(warehouse, store, chosen, clock)
    chosen, transactions = begin_session(opened, settings or {}, clock)
    fs = AnyFileSystem(SessionFileSystems(env, {k: v for k, v in chosen.changed if k.startswith("fs.")}))
    return Context(
        env=env,
        fs=fs,
        store=opened,
        catalog=opened,
        transactions=transactions,
        read_leases=ReadLeases(transactions),
        clock=clock,
        warehouse=root,
        session=SessionState(chosen),
    )


@dataclass(repr=False)
class WarehouseConnection(Displayed):
    """The operations of a connection that are not SQL; `hiveacid.sql.session.AcidSession` adds ``sql``."""

    context: Context
    joined: Transaction | None = None

    def shown(self) -> Mapping[str, object]:
        """Return the warehouse, the current database and the transaction that statements join."""
        facts = {"warehouse": self.context.warehouse, "database": self.context.database}
        return facts if self.joined is None else {**facts, "txn_id": self.joined.txn_id}

    @property
    def settings(self) -> Settings:
        """Return the session's settings (``SET`` changes them)."""
        return self.context.settings

    def set(self, name: str, value: str) -> None:
        """Change a setting of this session. Raises ConfigError."""
        self.context.change_settings(self.context.settings.with_value(name, value))

    def use(self, database: str) -> None:
        """Make a database the current one. Raises NoSuchDatabaseError."""
        if self.context.catalog.get_database(database.lower()) is None:
            raise no_such_database(database, self.context.catalog.list_databases())
        self.context.session.database = database.lower()

    def table(self, name: str | TableName) -> AcidTable:
        """Return a table of the catalog. Raises NoSuchTableError."""
        full = self.context.resolve(name)
        self.context.require(full)
        return AcidTable(self.context, full, self.joined)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run several statements on several tables in one transaction: one snapshot, one commit.

        An error rolls back all statements. Yields a connection whose tables belong to the transaction.
        """
        if self.joined is not None:
            raise UnsupportedFeatureError(
                "transactions cannot be nested: end the open transaction before you begin another one"
            )
        txn = self.context.read_leases.begin_explicit(self.context.settings)
        try:
            yield type(self)(self.context, txn)
            if not txn.ended:
                txn.commit()
        except BaseException as error:
            txn.abort(str(error)[:200])
            raise

    def adopt_table(
        self,
        table: TableDefinition,
        write_ids: ValidWriteIdList | None = None,
        txns: ValidTxnList | None = None,
    ) -> AcidTable:
        """Register an existing directory as a table (``AcidSession.adopt`` accepts its DDL as SQL)."""
        adopt(self.context, table, write_ids, txns)
        return AcidTable(self.context, table.name)

    def clean(self, table: str | TableName | None = None) -> list[str]:
        """Remove files of compactions and aborted transactions that no reader needs; return the paths.

        Without ``table`` all tables are searched, which lists all their directories.

        Raises NoSuchTableError; UnsupportedFeatureError with a Hive Metastore, which has a cleaner of its own.
        """
        name = None if table is None else self.context.require(self.context.resolve(table)).name
        return clean_on_request(self.context, name)

    def close(self) -> None:
        """End snapshots, heartbeat and the store's connections; the files of its DataFrames may be deleted then."""
        self.context.close()

    def __enter__(self) -> Self:
        """Use the connection in a ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it at the end of the block."""
        self.close()
