"""What of a staging directory is published, and when the store is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.core.model import Column, StorageFormat, TableDefinition, TableName
from hiveacid.errors import TransactionAbortedError
from hiveacid.spark.write.staged_files import StagedKind, TaskReport, list_staged_files
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.write.publish import publish_without_acid_columns

FS = LocalFileSystem(durable=False)
_UNKNOWN = TaskReport((), None, None)
TEXT = TableDefinition(
    TableName("default", "t"),
    (Column("id", "int"),),
    StorageFormat("serde", "TextInputFormat", "out"),
    "/wh/t",
)


def put(path: Path) -> None:
    """Write a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"1\n")


def test_files_of_tasks_that_were_not_committed_are_not_published(tmp_path: Path) -> None:
    """A speculative task may leave one after the commit of its job; a partition value may look like such a directory."""
    put(tmp_path / "part-00000")
    put(tmp_path / "_temporary" / "0" / "_temporary" / "attempt_1" / "part-00001")
    put(tmp_path / ".spark-staging-1" / "part-00002")
    put(tmp_path / "_p=_temporary" / "part-00003")
    found = list_staged_files(FS, str(tmp_path), StagedKind.INSERTED, _UNKNOWN)
    assert [(Path(file.path).name, file.values) for file in found] == [
        ("part-00003", ("_temporary",)),
        ("part-00000", ()),
    ]


def test_nothing_is_published_once_the_transaction_has_ended(tmp_path: Path) -> None:
    """The store is asked before the first directory is made."""
    put(tmp_path / "staged" / "part-00000")
    files = list_staged_files(FS, str(tmp_path / "staged"), StagedKind.INSERTED, _UNKNOWN)

    def ended() -> None:
        raise TransactionAbortedError("it was aborted")

    def directory(*_: object) -> str:
        raise AssertionError("a directory is made")

    with pytest.raises(TransactionAbortedError):
        publish_without_acid_columns(FS, TEXT, files, directory, lambda *_: "000000_0", _UNKNOWN, ended)
    assert [path.name for path in tmp_path.iterdir()] == ["staged"]
