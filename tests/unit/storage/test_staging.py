"""Staging directories have names that tell their transaction; publishing is planned first, then done."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.core.model import TxnId
from hiveacid.core.names import is_hidden
from hiveacid.errors import BadFileError, StorageError
from hiveacid.ports import FileEntry
from hiveacid.storage.local import LocalFileSystem
from hiveacid.storage.staging import (
    Move,
    PublishPlan,
    abandoned,
    new_staging_directory,
    plan_publish,
    publish,
    staging_name,
    staging_txn_id,
)

FS = LocalFileSystem(durable=False)


def test_names_are_hidden_tell_the_transaction_and_never_collide() -> None:
    one, two = (new_staging_directory("/wh/t/", TxnId(17)) for _ in range(2))
    assert one != two
    folder, _, name = one.rpartition("/")
    assert folder == "/wh/t"
    assert is_hidden(name)
    assert staging_txn_id(name) == TxnId(17)
    assert staging_name(TxnId(3), "ab12") == ".hiveacid-staging-3-ab12"


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
    assert abandoned(entries, lambda txn_id: txn_id == TxnId(2)) == (".hiveacid-staging-1-aa",)


def test_a_plan_says_everything_before_anything_is_done() -> None:
    moves = [
        Move("/s/1", "/t/p=2/delta_1_1_0000/bucket_00000"),
        Move("/s/2", "/t/p=1/delta_1_1_0000/bucket_00000"),
    ]
    plan = plan_publish(moves, full_acid=True, keep=["/t/p=3/base_0000001"])
    assert plan == PublishPlan(
        tuple(moves), ("/t/p=1/delta_1_1_0000", "/t/p=2/delta_1_1_0000", "/t/p=3/base_0000001")
    )
    assert plan_publish(moves, full_acid=False).version_directories == ()


def test_two_files_for_one_name_are_refused() -> None:
    with pytest.raises(BadFileError, match="two staged files claim one name: /t/delta_1_1/bucket_00000"):
        plan_publish([Move(f"/s/{n}", "/t/delta_1_1/bucket_00000") for n in range(2)], full_acid=True)


def test_publishing_moves_and_marks(tmp_path: Path) -> None:
    FS.write_bytes(f"{tmp_path}/stage/part-0", b"rows")
    (tmp_path / "stage" / ".part-0.crc").touch()
    target = f"{tmp_path}/delta_0000001_0000001_0000"
    plan = plan_publish(
        [Move(f"{tmp_path}/stage/part-0", f"{target}/bucket_00000")],
        full_acid=True,
        keep=[f"{tmp_path}/base_0000001"],
    )
    publish(FS, plan)
    files = {
        e.path: FS.read_bytes(f"{tmp_path}/{e.path}") for e in FS.list_tree(str(tmp_path)) if not e.is_dir
    }
    assert files == {
        "base_0000001/_orc_acid_version": b"2",
        "delta_0000001_0000001_0000/_orc_acid_version": b"2",
        "delta_0000001_0000001_0000/bucket_00000": b"rows",
    }
    FS.write_bytes(f"{tmp_path}/stage/part-0", b"again")
    with pytest.raises(StorageError, match="bucket_00000"):
        publish(FS, plan)
    assert FS.read_bytes(f"{target}/bucket_00000") == b"rows"
