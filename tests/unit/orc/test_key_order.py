"""Key order, row by row, and files of a bucket put behind one another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyorc
import pytest

from hiveacid.errors import BadFileError
from hiveacid.orc.key_order import KeyRun, read_keys_if_ascending, sort_by_key
from hiveacid.orc.writing import HEADER, merged_tail, place_stripes, read_stripes
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, splice_by_bucket
from hiveacid.storage.local_file_system import LocalFileSystem
from support.corpus.acid_files import bucket_property, orc_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAT = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:boolean,c0:int>"
B0, B0_1, B1 = bucket_property(0), bucket_property(0, 1), bucket_property(1)
FS = LocalFileSystem(durable=False)


def staged(path: Path, keys: Sequence[tuple[int | None, int, int]]) -> StagedFile:
    """Write a staged file of inserts with these keys."""
    data = orc_bytes([(0, *key, key[0], True, n) for n, key in enumerate(keys)], FLAT)
    path.write_bytes(data)
    return StagedFile(str(path), len(data), StagedKind.INSERTED, (), None)


def run(path: Path, keys: Sequence[tuple[int | None, int, int]]) -> KeyRun | None:
    file = staged(path, keys)
    return read_keys_if_ascending(FS, file.path, file.size)


def test_every_row_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "f"
    ascending: list[tuple[int | None, int, int]] = [(1, B0, 5), (1, B0, 7), (1, B0_1, 0), (3, B0, 0)]
    assert run(path, ascending) == KeyRun(4, (1, B0, 5), (3, B0, 0), frozenset({B0, B0_1}))
    assert run(path, ascending[:1]) == KeyRun(1, (1, B0, 5), (1, B0, 5), frozenset({B0}))
    for spoilt in (
        [(1, B0, 7), (1, B0, 5)],
        [(1, B0, 5), (1, B0, 5)],
        [(1, B0_1, 0), (1, B0, 7)],
        [(2, B0, 0), (1, B0_1, 7)],
        [(1, B0, 0), (None, B0, 1)],
        [],
    ):
        assert run(path, spoilt) is None, spoilt


def test_stripes_have_to_follow_one_another(tmp_path: Path) -> None:
    low, high = [(1, B0, n) for n in range(5)], [(1, B0, n) for n in range(5, 9)]
    for stripes, expected in (
        ([low, high], KeyRun(9, (1, B0, 0), (1, B0, 8), frozenset({B0}))),
        ([high, low], None),
        ([low, low], None),
    ):
        pieces = [read_stripes(Path(staged(tmp_path / "one", keys).path).read_bytes()) for keys in stripes]
        data, placed = HEADER, []
        for piece in pieces:
            placed.append(place_stripes(piece, len(data)))
            data += piece.body
        _, tail = merged_tail(placed, len(data), "both")
        (tmp_path / "both").write_bytes(data + tail)
        assert read_keys_if_ascending(FS, str(tmp_path / "both"), len(data) + len(tail)) == expected


def test_what_is_no_orc_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"not ORC")
    with pytest.raises(BadFileError, match="f"):
        read_keys_if_ascending(FS, str(tmp_path / "f"), 7)


def test_files_of_a_bucket_come_together_in_the_order_of_their_keys(tmp_path: Path) -> None:
    files = [
        staged(tmp_path / "a", [(3, B0, n) for n in range(10)]),
        staged(tmp_path / "b", [(1, B0, n) for n in range(10)]),
        staged(tmp_path / "c", []),
        staged(tmp_path / "d", [(2, B1, 4)]),
        staged(tmp_path / "e", [(1, B0_1, 0), (2, B0, 0)]),
    ]
    done = splice_by_bucket(FS, files)
    assert done is not None
    assert [(Path(one.path).name, one.bucket) for one in done] == [("b", 0), ("d", 1)]
    assert done[0].size == (tmp_path / "b").stat().st_size
    with (tmp_path / "b").open("rb") as opened:
        keys = [row[1:4] for row in pyorc.Reader(opened)]
    assert keys == [(1, B0, n) for n in range(10)] + [(1, B0_1, 0), (2, B0, 0)] + [
        (3, B0, n) for n in range(10)
    ]


def test_files_that_overlap_or_hold_several_buckets_are_left_as_they_are(tmp_path: Path) -> None:
    low = staged(tmp_path / "low", [(1, B0, 0), (1, B0, 5)])
    for keys in ([(1, B0, 3), (1, B0, 9)], [(1, B0, 5), (1, B0, 6)], [(2, B0, 0), (2, B1, 0)], [(2, 0, 0)]):
        other = staged(tmp_path / "other", keys)
        before = [Path(one.path).read_bytes() for one in (low, other)]
        assert splice_by_bucket(FS, [low, other]) is None, keys
        assert [Path(one.path).read_bytes() for one in (low, other)] == before


def test_rows_are_sorted_though_new_rows_without_ids_lie_between_them() -> None:
    """A MERGE brings changed rows, which have ids, and new ones in any order."""
    rows = pa.table({"writeid": [5, None, 3], "bucketid": [1, None, 1], "rowid": [0, None, 2]})
    ordered = sort_by_key(rows, ("writeid", "bucketid", "rowid"))
    assert ordered.column("writeid").to_pylist() == [3, 5, None]
