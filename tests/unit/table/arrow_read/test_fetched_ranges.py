"""What is fetched of a remote ORC file: exactly what Arrow asks for, in few requests, and the same values as without."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.table.arrow_read import orc_file
from hiveacid.table.arrow_read.orc_file import FetchedRanges, column_ids, pieces

KEYS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
FIELDS = ("a", "b", "c", "d")


@dataclass
class Remote:
    """A file system with one file, and what was read of it."""

    data: bytes
    reads: list[tuple[int, int]] = field(default_factory=list)

    def read_bytes(self, _: str, start: int = 0, length: int | None = None) -> bytes:
        start = max(0, len(self.data) + start) if start < 0 else start
        found = self.data[start : None if length is None else start + length]
        self.reads.append((start, start + len(found)))
        return found


def acid_file(seed: int, rows: int = 30_000) -> bytes:
    """Return a file with the columns of ACID events and stripes of some thousand rows."""
    random = Random(seed)
    row = pa.table(
        {
            "a": [random.randrange(1 << 40) for _ in range(rows)],
            "b": [f"text {random.randrange(1 << 60)}" for _ in range(rows)],
            "c": [[random.randrange(1 << 30)] * (number % 3) for number in range(rows)],
            "d": [
                None if number % 5 else {"x": random.random(), "y": [str(number)]} for number in range(rows)
            ],
        }
    )
    keys = {name: pa.array([random.randrange(1 << 40) for _ in range(rows)]) for name in KEYS}
    table = pa.table({**keys, "row": row.to_struct_array().combine_chunks()})
    sink = pa.BufferOutputStream()
    codec = random.choice(["uncompressed", "zlib", "snappy"])
    orc.write_table(table, sink, compression=codec, stripe_size=200_000, batch_size=1024)
    return sink.getvalue().to_pybytes()


def opened(remote: Any) -> tuple[FetchedRanges, OrcTail, orc.ORCFile]:
    file = FetchedRanges(remote, "s3a://lake/t/bucket_00000", len(remote.data))
    return file, read_tail(remote, file._path, len(remote.data)), orc.ORCFile(pa.PythonFile(file, mode="r"))


@pytest.mark.parametrize("seed", range(6))
def test_arrow_asks_for_nothing_that_was_not_fetched(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(orc_file, "_WHOLE", random.choice([0, 1 << 30]))
    monkeypatch.setattr(orc_file, "_GAP", random.choice([0, 1000, 1 << 20]))
    monkeypatch.setattr(orc_file, "_PIECE", random.choice([40_000, 8 << 20]))
    remote = Remote(acid_file(seed))
    plain = orc.ORCFile(pa.BufferReader(remote.data))
    file, tail, arrow = opened(remote)
    assert len(tail.stripes) == plain.nstripes > 2
    for _ in range(20):
        stripe = random.randrange(plain.nstripes)
        columns: list[str] | None = random.sample(
            [*KEYS, *(f"row.{name}" for name in FIELDS)], random.randrange(1, 6)
        )
        columns = random.choice([columns, None, ["row"]])
        file.fetch(tail, stripe, columns)
        remote.reads.clear()
        assert arrow.read_stripe(stripe, columns=columns).equals(plain.read_stripe(stripe, columns=columns))
        assert remote.reads == []
    file.forget()  # then Arrow still reads what it asks for
    assert arrow.read_stripe(0).equals(plain.read_stripe(0))


def test_requests_of_a_column_and_of_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote(acid_file(1))
    monkeypatch.setattr(orc_file, "_WHOLE", len(remote.data))
    _, _, arrow = opened(remote)
    arrow.read_stripe(0)
    assert len(remote.reads) == 2  # all of the file, and its tail for us
    monkeypatch.setattr(orc_file, "_WHOLE", 0)
    file, tail, arrow = opened(remote)
    remote.reads.clear()
    for columns in (["row.a"], ["row.b", "row.c"], [*KEYS]):
        file.fetch(tail, 1, columns)
        arrow.read_stripe(1, columns=columns)
    assert len(remote.reads) == 4  # the footer of the stripe, and one range for each
    assert sum(stop - start for start, stop in remote.reads) < len(remote.data)


def test_a_shorter_answer_is_not_taken_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was replaced meanwhile is an error, as without fetching, and never other values."""
    monkeypatch.setattr(orc_file, "_WHOLE", 0)
    remote = Remote(acid_file(2))
    file, tail, arrow = opened(remote)
    file.fetch(tail, 1, None)
    remote.data = remote.data[: tail.stripes[0].offset + tail.stripes[0].length // 2]
    file.fetch(tail, 1, None)
    with pytest.raises((OSError, pa.ArrowException)):
        arrow.read_stripe(1)


def test_columns_that_the_file_lacks_are_not_fetched() -> None:
    _, tail, _ = opened(Remote(acid_file(3, 100)))
    assert column_ids(tail.types, ["row.a"]) == {0, 6, 7}
    assert column_ids(tail.types, ["rowId", "row.c"]) == {0, 4, 6, 9, 10}
    assert column_ids(tail.types, ["row.missing"]) == ()
    assert [*column_ids(tail.types, None)] == [*range(len(tail.types))]
    assert set(column_ids(tail.types, ["row"])) == {0, *range(6, len(tail.types))}


@given(st.lists(st.tuples(st.integers(0, 1 << 26), st.integers(0, 1 << 25)), max_size=20))
def test_pieces_cover_all_streams_once(given: list[tuple[int, int]]) -> None:
    streams = [(start, start + length) for start, length in given]
    found = pieces(streams)
    assert all(0 < stop - start <= 8 << 20 for start, stop in found)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(found))
    for start, stop in streams:
        at = start
        for first, last in found:
            at = last if first <= at < last else at
        assert at >= stop or start == stop
    wanted = sum(stop - start for start, stop in streams)
    assert sum(stop - start for start, stop in found) <= wanted + (len(streams) << 20)
