"""Staging directories have names that tell their transaction."""

from __future__ import annotations

import pytest

from hiveacid.core.format.names import is_hidden
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import FileEntry, is_own_staging
from hiveacid.errors import StorageError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.paths import StorageUri
from hiveacid.storage.staging import (
    STREAM_PREFIX,
    WRITE_PREFIX,
    abandoned_staging,
    delete_staging,
    expired_staging,
    new_staging_directory,
    staging_name,
    staging_txn_id,
)


def test_names_are_hidden_tell_the_transaction_and_never_collide() -> None:
    one, two = (new_staging_directory("/wh/t/", TxnId(17)) for _ in range(2))
    assert one != two
    folder, _, name = one.rpartition("/")
    assert folder == "/wh/t"
    assert is_hidden(name)
    assert staging_txn_id(name) == TxnId(17)
    assert staging_name(TxnId(3), "ab12") == ".hiveacid-staging-3-ab12"
    assert all(map(is_own_staging, (name, WRITE_PREFIX, STREAM_PREFIX)))


@pytest.mark.parametrize(
    "name",
    [
        "delta_1_1_0000",
        ".hive-staging_3",
        ".hiveacid-staging-",
        ".hiveacid-staging-x-1",
        ".hiveacid-staging-3-zz",
    ],
)
def test_other_names_are_no_staging(name: str) -> None:
    assert staging_txn_id(name) is None


def test_abandoned_are_those_of_ended_transactions_at_the_top() -> None:
    entries = [
        FileEntry(".hiveacid-staging-1-aa", is_dir=True),
        FileEntry(".hiveacid-staging-1-aa/.hiveacid-staging-2-aa", is_dir=True),
        FileEntry(".hiveacid-staging-2-bb", is_dir=True),
        FileEntry(".hiveacid-staging-3-cc", is_dir=False),
        FileEntry("delta_0000001_0000001_0000", is_dir=True),
    ]
    assert abandoned_staging(entries, lambda txn_id: txn_id == TxnId(2)) == (".hiveacid-staging-1-aa",)


def test_forgotten_is_what_jobs_staged_long_ago() -> None:
    entries = [
        FileEntry(".hiveacid-write-old", is_dir=True, modified=10),
        FileEntry(".hiveacid-write-old/rows", is_dir=True, modified=20),
        FileEntry(".hiveacid-write-old/rows/a.arrow", is_dir=False, modified=30),
        FileEntry(".hiveacid-write-busy", is_dir=True, modified=10),
        FileEntry(".hiveacid-write-busy/rows/b.arrow", is_dir=False, modified=31),
        FileEntry(".hiveacid-stream-0123", is_dir=True, modified=10),
        FileEntry(".hiveacid-staging-1-aa", is_dir=True, modified=10),
        FileEntry("p=1/.hiveacid-write-deep", is_dir=True, modified=10),
        FileEntry("delta_0000001_0000001_0000", is_dir=True, modified=10),
    ]
    assert expired_staging(entries, 31) == (".hiveacid-write-old", ".hiveacid-stream-0123")


def test_what_cannot_be_deleted_is_left_to_the_cleaner(caplog: pytest.LogCaptureFixture) -> None:
    """The statement goes on, or keeps its own error."""

    def away(place: StorageUri) -> FileSystem:
        raise StorageError(f"cannot open {place}")

    delete_staging(AnyFileSystem(away), "hdfs://away:1/t/.hiveacid-staging-1-aa")
    assert "hdfs://away:1/t/.hiveacid-staging-1-aa is left to the cleaner: " in caplog.text
    assert "Traceback" not in caplog.text
