"""Random walks: the SQL store answers as the reference store does."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from hiveacid.ports.clock import Clock
from hiveacid.stores.sql.store import SqlStore
from support.exhaustive import examples
from support.samples import Store
from support.store_machine import StoreMachine


class SqliteMachine(StoreMachine):
    def make_store(self, clock: Clock) -> Store:
        self.directory = tempfile.TemporaryDirectory()
        self.opened = SqlStore(f"sqlite:///{Path(self.directory.name)}/store.db", clock=clock)
        return self.opened

    def teardown(self) -> None:
        self.opened.close()
        self.directory.cleanup()


TestSqliteWalks = SqliteMachine.TestCase
TestSqliteWalks.settings = settings(
    max_examples=examples(40), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
