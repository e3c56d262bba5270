"""Contexts of connections without Spark, for tests of what needs none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.context import Context, SessionState
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transactions
from support.samples import CLIENT


def context_of(store: Any, warehouse: str, clock: Clock, heartbeats: Heartbeats) -> Context:
    """Return a context on local disk."""
    transactions = Transactions(store, heartbeats, clock, CLIENT)
    return Context(
        env=cast("Any", None),  # no Spark session: nothing here asks for it
        fs=LocalFileSystem(durable=False),
        store=store,
        catalog=store,
        transactions=transactions,
        read_leases=ReadLeases(transactions),
        clock=clock,
        warehouse=warehouse,
        session=SessionState(Settings()),
    )


def open_context(root: Path, wrap: Callable[[WarehouseStore], Any] = lambda store: store) -> Context:
    """Open a warehouse with an SQLite store; ``wrap``: around its store, but not for heartbeats."""
    store, warehouse = open_store(str(root), None, Settings(), SystemClock())
    return context_of(wrap(store), warehouse, SystemClock(), Heartbeats(store, 600.0))


class PausedStore:
    """A store whose client sleeps just before a call until its transactions have timed out and others did their work."""

    def __init__(
        self, store: WarehouseStore, call: str, meanwhile: Callable[[], None], *, timed_out: bool = True
    ) -> None:
        self._store, self._call, self._meanwhile = store, call, meanwhile
        self._timed_out = timed_out

    def __getattr__(self, name: str) -> Any:
        """Return a method of the store, after the pause if it is the one."""
        method = getattr(self._store, name)
        if name != self._call:
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            if self._timed_out:
                self._store.abort_txns(self._store.valid_txns().open, "time out")
            self._meanwhile()
            return method(*arguments, **options)

        return call
