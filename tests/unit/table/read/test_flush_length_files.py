"""What of a streamed file may be read while its writer goes on, and when the file itself may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_write_id_list
from hiveacid.core.model import TableName
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.errors import BadFileError, StorageError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.read.flush_length_files import prepare_readable_part
from support.corpus.acid_files import flush_lengths

T = TableName("default", "t")
SIDE = "delta_2_5/bucket_00000_flush_length"


@dataclass
class Here:
    """A connection, as far as it is asked."""

    warehouse: str
    fs: LocalFileSystem = field(default_factory=lambda: LocalFileSystem(durable=False))


@dataclass
class Reader:
    """A transaction, as far as it is asked."""

    list: str
    txn_id: int = 7

    def valid_write_ids(self, _: TableName) -> ValidWriteIdList:
        return parse_write_id_list(self.list)


def look(root: Path, listed: int, ids: str) -> tuple[int, str | None]:
    file = DataFile("delta_2_5/bucket_00000", listed, SIDE)
    return prepare_readable_part(Here(str(root)), T, Reader(ids), f"{root}/{file.path}", file)  # type: ignore[arg-type]


def put(root: Path, data: bytes, *lengths: int) -> None:
    (root / "delta_2_5").mkdir(exist_ok=True)
    (root / "delta_2_5/bucket_00000").write_bytes(data)
    (root / SIDE).write_bytes(flush_lengths(*lengths))


OPEN, ENDED = "default.t:5:5:5:", "default.t:5:9223372036854775807::"


def test_a_file_that_may_grow_is_never_read_itself(tmp_path: Path) -> None:
    put(tmp_path, b"0123456789", 4, 10)
    for ids in (OPEN, "default.t:4:9223372036854775807::"):
        length, copy = look(tmp_path, 10, ids)
        assert length == 10
        assert copy is not None
        assert Path(copy).read_bytes() == b"0123456789"
    assert look(tmp_path, 10, ENDED) == (10, None)
    put(tmp_path, b"0123456789 and more", 4, 10)
    length, copy = look(tmp_path, 19, ENDED)
    assert (length, Path(copy or "").read_bytes()) == (10, b"0123456789")


def test_a_file_that_has_grown_since_the_listing_is_not_short(tmp_path: Path) -> None:
    put(tmp_path, b"0123456789", 4, 10)
    length, copy = look(tmp_path, 4, OPEN)
    assert (length, Path(copy or "").read_bytes()) == (10, b"0123456789")
    put(tmp_path, b"0123456789", 4, 11)
    with pytest.raises(BadFileError, match="11 bytes were flushed, but only 10"):
        look(tmp_path, 4, OPEN)


def test_a_file_that_was_ended_since_the_listing_counts_as_a_whole(tmp_path: Path) -> None:
    put(tmp_path, b"0123456789", 10)
    (tmp_path / SIDE).unlink()
    assert look(tmp_path, 4, OPEN) == (10, None)
    put(tmp_path, b"0123456789", 0)
    assert look(tmp_path, 10, OPEN) == (0, None)


def test_a_file_that_is_gone_since_the_listing_is_no_empty_file(tmp_path: Path) -> None:
    put(tmp_path, b"0123456789", 4, 10)
    (tmp_path / "delta_2_5/bucket_00000").unlink()
    with pytest.raises(StorageError, match=r"bucket_00000: it was there .* and is gone"):
        look(tmp_path, 4, OPEN)  # DROP TABLE or a cleaner is at work: the side file is still there
    (tmp_path / SIDE).unlink()
    for ids in (OPEN, ENDED):
        with pytest.raises(StorageError, match=r"bucket_00000: it was there .* and is gone"):
            look(tmp_path, 10, ids)
