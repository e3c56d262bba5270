"""The SQL store on SQLite passes the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.errors import StoreUnavailableError
from hiveacid.stores.sql.dialects.sqlite import copy_database
from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.contract.given_again import require_that_ids_of_others_are_safe
from support.contract.suites import CatalogContract, TransactionStoreContract
from support.samples import STOCK, database, table


class TestSqlite(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock, tmp_path: Path) -> Iterator[SqlStore]:
        made = SqlStore(f"sqlite:///{tmp_path}/store.db", clock=clock)
        yield made
        made.close()

    def test_ids_given_out_again_after_a_restore(self, store: SqlStore, tmp_path: Path) -> None:
        file, backup = tmp_path / "store.db", tmp_path / "backup.db"
        copy_database(file, backup)

        def restore() -> None:
            backup.replace(file)
            for side in ("-wal", "-shm"):
                file.with_name(file.name + side).unlink(missing_ok=True)

        other = SqlStore(f"sqlite:///{file}")
        require_that_ids_of_others_are_safe(store, other, restore)
        other.close()

    def test_a_file_that_is_replaced_while_it_is_open(self, store: SqlStore, tmp_path: Path) -> None:
        """Commits go into the file that is at the path, as after a backup was restored; and into no deleted file."""
        file, backup = tmp_path / "store.db", tmp_path / "backup.db"
        store.create_database(database())
        copy_database(file, backup)
        store.create_table(table())
        backup.replace(file)
        for side in ("-wal", "-shm"):
            file.with_name(file.name + side).unlink(missing_ok=True)
        assert store.list_tables("shop") == ()
        store.create_table(table(STOCK))
        other = SqlStore(f"sqlite:///{file}")
        assert other.list_tables("shop") == ("stock",)
        other.close()
        file.unlink()
        with pytest.raises(StoreUnavailableError, match="was removed while it was open"):
            store.create_table(table())
        assert not file.exists()
