"""Stripes of files written apart, put into one file, are read as one file by pyorc and Arrow, footers after footers."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.model import Column
from hiveacid.errors import BadFileError
from hiveacid.orc.acid_footer import acid_metadata, nest_row_columns
from hiveacid.orc.column_statistics import decode_statistics, shorten_texts
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.tail import parse_tail
from hiveacid.orc.wire_format import encode_field
from hiveacid.orc.writing import (
    HEADER,
    PlacedStripes,
    RecordKeys,
    encode_rows,
    merged_tail,
    place_stripes,
    read_stripes,
)
from support.exhaustive import examples

COLUMNS = (
    Column("n", "bigint"),
    Column("operation", "string"),
    Column("f", "double"),
    Column("money", "decimal(12,2)"),
    Column("flag", "boolean"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("list", "array<int>"),
    Column("m", "map<string,smallint>"),
    Column("s", "struct<a:tinyint,b:char(3)>"),
)
BUCKET = 536870912
NESTED = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:struct"


def random_row(random: Random) -> dict[str, Any]:
    row = {
        "n": random.randint(-(1 << 63), (1 << 63) - 1),
        "operation": "".join(random.choices("aé𝄞 z", k=random.randint(0, 6))),
        "f": random.choice((random.random(), -0.0, float("inf"), -3e300)),
        "money": Decimal(random.randint(-(10**11), 10**11)).scaleb(-2),
        "flag": random.random() < 0.5,
        "day": date(1583, 1, 1) + timedelta(random.randint(0, 300_000)),
        "at": datetime(1971, 1, 1) + timedelta(microseconds=random.randint(0, 8 * 10**15)),  # noqa: DTZ001 - no zone
        "list": [random.choice((None, 1, 2**31 - 1)) for _ in range(random.randint(0, 3))],
        "m": [(str(key), random.randint(-9, 9)) for key in range(random.randint(0, 3))],
        "s": {"a": random.randint(-128, 127), "b": random.choice(("x  ", None, "abc"))},
    }
    return {key: None if random.random() < 0.1 else value for key, value in row.items()}


def spliced(batches: list[Any], codec: str, torn: bytes = b"") -> tuple[bytes, list[int]]:
    """Return the file after all batches, each with a footer of its own, and its lengths after each."""
    data = bytearray(HEADER)
    pieces: list[PlacedStripes] = []
    lengths = []
    for number, batch in enumerate(batches):
        piece = encode_rows(batch, COLUMNS, RecordKeys(number + 1, BUCKET, 0), codec)
        pieces.append(place_stripes(piece, len(data)))
        data += piece.body
        tail, flat = merged_tail(pieces, len(data), "x")
        start, rest = nest_row_columns(tail, COLUMNS, acid_metadata(tail, deletes=False))
        data += flat[: start - len(data)] + rest
        lengths.append(len(data))
        data += torn
    return bytes(data), lengths


def events(data: bytes) -> list[tuple[Any, ...]]:
    """Read an ACID file by pyorc."""
    reader = pyorc.Reader(io.BytesIO(data))
    assert str(reader.schema).startswith(NESTED)
    return list(reader)


def arrow_rows(data: bytes) -> list[dict[str, Any]]:
    table = pyarrow.orc.ORCFile(pa.BufferReader(data)).read()
    return [dict(row["row"], key=(row["originalTransaction"], row["rowId"])) for row in table.to_pylist()]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(),
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from(("none", "zlib", "snappy", "lz4", "zstd")),
    st.binary(),
)
def test_every_length_that_was_written_is_a_whole_file(
    seed: int, sizes: list[int], codec: str, torn: bytes
) -> None:
    random = Random(seed)
    schema = arrow_schema(COLUMNS)
    batches = [
        pa.RecordBatch.from_pylist([random_row(random) for _ in range(size)], schema) for size in sizes
    ]
    data, lengths = spliced(batches, codec, torn)
    wanted = [
        dict(row, key=(number + 1, at))
        for number, batch in enumerate(batches)
        for at, row in enumerate(batch.to_pylist())
    ]
    done = 0
    for count, length in zip(sizes, lengths, strict=True):
        done += count
        part = data[:length]
        assert arrow_rows(part) == wanted[:done]
        rows = events(part)
        assert [row[:5] for row in rows] == [
            (0, write_id, BUCKET, at, write_id) for write_id, at in (one["key"] for one in wanted[:done])
        ]
        assert [row[5][1] for row in rows] == [one["operation"] for one in wanted[:done]]
        tail = parse_tail(part, length, "x")
        assert tail.user_metadata["hive.acid.stats"] == f"{done},0,0".encode()
        ends = [f"{n + 1},{BUCKET},{size - 1};" for n, size in enumerate(sizes)][: len(tail.stripes)]
        assert tail.user_metadata["hive.acid.key.index"].decode() == "".join(ends)
        check_statistics(tail.column_statistics, wanted[:done])


def check_statistics(statistics: Any, rows: list[dict[str, Any]]) -> None:
    for at, name, key in (
        (7, "n", int),
        (8, "operation", str.encode),
        (9, "f", float),
        (10, "money", Decimal),
    ):
        values = [row[name] for row in rows if row[name] is not None]
        found = statistics[at]
        assert found.count == len(values)
        assert found.has_null or len(values) == len(rows)
        if values and found.minimum is not None and found.maximum is not None:
            assert key(found.minimum) <= min(map(key, values))
            assert key(found.maximum) >= max(map(key, values))
    numbers = [row["n"] for row in rows if row["n"] is not None]
    if numbers:
        assert (statistics[7].minimum, statistics[7].maximum) == (min(numbers), max(numbers))


def test_large_pieces_with_several_stripes_go_together() -> None:
    columns = (Column("n", "bigint"), Column("s", "string"))
    batch = pa.RecordBatch.from_pydict(
        {"n": range(50_000), "s": [str(n * 7) for n in range(50_000)]}, arrow_schema(columns)
    )
    pieces, data = [], bytearray(HEADER)
    for number in (4, 5):
        piece = encode_rows(batch, columns, RecordKeys(number, BUCKET, 0))
        pieces.append(place_stripes(piece, len(data)))
        data += piece.body + b"what a failed transaction left"
    tail, flat = merged_tail(pieces, len(data), "x")
    start, rest = nest_row_columns(tail, columns, acid_metadata(tail, deletes=False))
    data += flat[: start - len(data)] + rest
    table = pyarrow.orc.ORCFile(pa.BufferReader(bytes(data))).read()
    assert table.num_rows == 100_000
    assert table["rowId"].to_pylist() == [*range(50_000), *range(50_000)]
    assert pa.compute.struct_field(table["row"], "n").to_pylist() == [*range(50_000), *range(50_000)]


@given(
    st.text("a\x7f\u07ff\ud7ff\ue000\uffff\U00010000\U0010ffff", max_size=4),
    st.integers(0, 2000),
    st.text(max_size=9),
)
@settings(max_examples=examples(200), deadline=None)
def test_long_texts_become_bounds_in_each_order(start: str, repeats: int, end: str) -> None:
    text = start * repeats + end
    exact = encode_field(1, 1) + encode_field(
        4, encode_field(1, text.encode()) + encode_field(2, text.encode())
    )
    found = decode_statistics(shorten_texts(exact))
    low, high = found.minimum, found.maximum
    assert isinstance(low, str)
    assert isinstance(high, str)
    assert low.encode() <= text.encode() <= high.encode()
    assert low.encode("utf-16-be") <= text.encode("utf-16-be") <= high.encode("utf-16-be")
    assert found.count == 1
    if len(text.encode()) <= 1024:
        assert low == high == text
    else:
        assert len(low.encode()) <= 1024
        assert len(high.encode()) <= 1024 + 1 or high == text  # its last character may have a byte more


def test_texts_larger_than_any_tail_may_be() -> None:
    columns = (Column("s", "string"),)
    batch = pa.RecordBatch.from_pydict({"s": ["x" * 17_000_000]}, arrow_schema(columns))
    pieces = [place_stripes(encode_rows(batch, columns, None), 3)] * 9
    tail, flat = merged_tail(pieces, 1 << 30, "x")
    assert len(flat) < 100_000
    assert tail.column_statistics[1].minimum == "x" * 1024
    assert tail.column_statistics[1].maximum == "x" * 1023 + "y"


def test_stripes_of_different_codecs_are_refused() -> None:
    columns = (Column("n", "int"),)
    batch = pa.RecordBatch.from_pydict({"n": [1]}, arrow_schema(columns))
    pieces = [place_stripes(encode_rows(batch, columns, None, codec), 3) for codec in ("zlib", "none")]
    with pytest.raises(BadFileError, match="schemas or codecs"):
        merged_tail(pieces, 99, "x")
    with pytest.raises(BadFileError, match="without any stripe"):
        merged_tail([], 3, "x")
    with pytest.raises(BadFileError):
        read_stripes(b"no ORC file, no, no")


def test_values_that_arrow_would_store_wrongly() -> None:
    columns = (
        Column("t", "timestamp"),
        Column("l", "array<struct<t:timestamp,d:date>>"),
        Column("m", "map<char(2),timestamp>"),
        Column("c", "char(4)"),
        Column("v", "varchar(2)"),
        Column("d", "decimal(20,3)"),
    )
    early = datetime(1960, 5, 5, 1, 2, 3, 500_000)  # noqa: DTZ001
    rows = [
        {"t": early, "l": [{"t": early, "d": date(1500, 1, 1)}, None], "m": [("a", early)], "c": "é", "v": "𝄞bc", "d": Decimal("-1.125")},
        dict.fromkeys("tlmcvd"),
        {"t": datetime(2024, 1, 1), "l": [], "m": [], "c": "abcdef ", "v": "", "d": Decimal(7)},  # noqa: DTZ001
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(columns))
    plain = encode_rows(batch.slice(1), columns, RecordKeys(1, BUCKET, 0))
    odd = encode_rows(batch, columns, RecordKeys(2, BUCKET, 0))
    data = bytearray(HEADER)
    pieces = [place_stripes(plain, 3), place_stripes(odd, 3 + len(plain.body))]
    data += plain.body + odd.body
    tail, flat = merged_tail(pieces, len(data), "x")
    start, rest = nest_row_columns(tail, columns, acid_metadata(tail, deletes=False))
    data += flat[: start - len(data)] + rest
    assert tail.source is not None
    assert tail.source.footer.integer(11) == 2  # days are counted by the proleptic calendar
    found = [row[5] for row in pyorc.Reader(io.BytesIO(bytes(data)))]
    assert len(found) == 5
    first = found[2]
    assert first[0].replace(tzinfo=None) == early
    assert first[1][0][0].replace(tzinfo=None) == early
    assert first[1][0][1] == date(1500, 1, 1)
    assert first[1][1] is None
    assert first[3:] == ("é   ", "𝄞b", Decimal("-1.125"))
    assert found[1][3:] == found[4][3:] == ("abcd", "", Decimal("7.000"))
    assert found[3] == (None,) * 6
