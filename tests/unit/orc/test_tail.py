"""What a tail says equals what other ORC readers see; a damaged file is named, never misread."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orc_files import DATA, FLAT, tail_of

from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.orc.footer_summary import read_summary, summarize
from hiveacid.orc.tail import OrcKind, OrcTail, read_tail
from hiveacid.orc.wire_format import Compression, encode_field
from hiveacid.storage.local_file_system import LocalFileSystem

ACID = FLAT.replace("row:boolean", "row:struct<n:int,s:string>").join(("struct<", ">"))
INSERT = (DATA / "insert.orc").read_bytes()


def read(path: Path, size: int) -> OrcTail:
    return read_tail(LocalFileSystem(), str(path), size)


def test_spark_file_rows_types_and_statistics() -> None:
    tail = tail_of(DATA / "insert.orc")
    assert tail.number_of_rows == 1200
    assert tail.compression is Compression.ZLIB
    assert tail.row_index_stride == 10000
    assert tail.user_metadata["org.apache.spark.version"].startswith(b"4.")
    assert tail.types[0].kind is OrcKind.STRUCT
    assert tail.types[0].names[:6] == (
        "operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row",
    )  # fmt: skip
    assert tail.types[AcidColumn.ROW.orc_id].kind is OrcKind.BOOLEAN
    assert not tail.is_acid
    keys = [
        tail.column_statistics[column.orc_id]
        for column in (AcidColumn.OPERATION, AcidColumn.BUCKET, AcidColumn.ROW_ID)
    ]
    assert [(k.minimum, k.maximum, k.count, k.has_null) for k in keys] == [
        (0, 0, 1200, False), (536936448, 536936448, 1200, False), (0, 1199, 1200, False),
    ]  # fmt: skip
    assert keys[2].total == sum(range(1200))


def test_statistics_by_type() -> None:
    tail = tail_of(DATA / "plain.orc")

    def bounds(name: str) -> tuple[object, object]:
        column = tail.types[0].children[tail.types[0].names.index(name)]
        found = tail.column_statistics[column]
        assert found.has_null
        assert found.count == 1028  # every seventh row, from 0 on, has nulls
        return found.minimum, found.maximum

    start = 1577836800000  # 2020-01-01 in ms
    assert bounds("c3") == (1, 1199)
    assert bounds("c6") == (1 / 7, 1199 / 7)
    assert bounds("c7") == (Decimal("0.01"), Decimal("11.99"))
    assert bounds("c9") == ("s1", "s999")
    assert bounds("c10") == (None, None)
    assert bounds("c11") == (start + 1000, start + 1199 * 1000 + 1)
    epoch = dt.date(1970, 1, 1)
    assert bounds("c12") == tuple((dt.date(2020, 1, 1) - epoch).days + n for n in (1, 1199))


def test_stripes_equal_what_pyorc_sees() -> None:
    tail = tail_of(DATA / "insert.orc")
    with (DATA / "insert.orc").open("rb") as file:
        stripes = list(pyorc.Reader(file).iter_stripes())
        assert [s.rows for s in tail.stripes] == [len(stripe) for stripe in stripes]
        assert [s.offset for s in tail.stripes] == [stripe.bytes_offset for stripe in stripes]
        assert [s.length for s in tail.stripes] == [stripe.bytes_length for stripe in stripes]
    assert len(tail.stripes) == 6
    starts = [stripe.statistics[AcidColumn.ROW_ID.orc_id].minimum for stripe in tail.stripes]
    assert starts == [sum(s.rows for s in tail.stripes[:n]) for n in range(6)]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_codec_of_another_writer(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "x.orc"
    table = pa.table({"a": pa.array(range(5000)), "s": pa.array(["x" * 40, None] * 2500)})
    pyarrow.orc.write_table(table, str(path), compression=codec, stripe_size=4096)
    tail = tail_of(path)
    expected = {"uncompressed": "NONE"}.get(codec, codec.upper())
    assert tail.compression.name == expected
    assert (tail.number_of_rows, tail.column_statistics[1].maximum) == (5000, 4999)
    assert tail.writer == 1  # C++
    assert len(tail.stripes) == pyarrow.orc.ORCFile(str(path)).nstripes


def test_a_tail_longer_than_the_first_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.orc"
    columns = {f"column_{n}": pa.array([str(n) * 50]) for n in range(400)}
    pyarrow.orc.write_table(pa.table(columns), str(path), compression="uncompressed")
    tail = tail_of(path)
    assert path.stat().st_size > 3 * 16 * 1024
    assert tail.column_statistics[400].minimum == "399" * 50


def test_long_texts_have_bounds(tmp_path: Path) -> None:
    path = tmp_path / "long.orc"
    pyarrow.orc.write_table(pa.table({"s": ["b" * 5000, "a" * 5000]}), str(path))
    found = tail_of(path).column_statistics[1]
    assert isinstance(found.minimum, str)
    assert isinstance(found.maximum, str)
    assert found.minimum <= "a" * 5000 <= "b" * 5000 <= found.maximum


def test_a_file_of_no_bytes_is_empty_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    path.touch()
    tail = tail_of(path)
    assert (tail.number_of_rows, tail.types, len(tail.column_statistics), tail.stripes) == (0, (), 0, ())


def test_only_a_part_of_a_file_may_be_read(flat_file: Callable[..., Path]) -> None:
    """Streaming writers say how much of a growing file is valid: it ends with a footer of its own."""
    path = flat_file([[(1, 536870912, 0)], [(1, 536870912, 1)], [(2, 536870912, 0)]])
    data = path.read_bytes()
    ends = [at + 4 for at in range(len(data)) if data[at : at + 3] == b"ORC" and at > 100]
    assert [read(path, end).number_of_rows for end in ends] == [1, 2, 3]


def test_statistics_of_a_writer_that_made_none_are_not_believed(tmp_path: Path) -> None:
    """Java's writer without row index (3.1's minor compaction) says 0 values everywhere."""
    tail = tail_of(DATA / "insert.orc")
    assert tail.source is not None
    lying = encode_field(1, 0) + encode_field(10, 0)
    footer = b"".join(
        encode_field(number, lying if number == 7 else value, wire)
        for number, wire, value in tail.source.footer.fields
    )
    path = tmp_path / "x.orc"
    path.write_bytes(INSERT[: tail.source.footer_start] + whole_tail(footer, tail))
    assert tail_of(path).number_of_rows == 1200
    assert len(tail_of(path).column_statistics) == 0
    assert len(tail_of(path).stripes[0].statistics) == len(tail.types)


def whole_tail(footer: bytes, tail: OrcTail, compression: int = 0) -> bytes:
    """Return an uncompressed footer (its metadata section left out) and its postscript."""
    assert tail.source is not None
    if not compression:
        footer = (len(footer) << 1 | 1).to_bytes(3, "little") + footer
    changed = {1: len(footer), **({2: compression} if compression else {})}
    postscript = b"".join(
        encode_field(number, changed.get(number, value), wire)
        for number, wire, value in tail.source.postscript.fields
    )
    return footer + postscript + bytes([len(postscript)])


def test_codecs_that_are_not_supported_are_named(tmp_path: Path) -> None:
    tail = tail_of(DATA / "insert.orc")
    assert tail.source is not None
    path = tmp_path / "x.orc"
    path.write_bytes(INSERT[: tail.source.footer_start] + whole_tail(b"", tail, compression=3))
    with pytest.raises(UnsupportedFeatureError, match=r"LZO.*x\.orc"):
        tail_of(path)


def test_a_file_shorter_than_its_listing_said(tmp_path: Path) -> None:
    path = tmp_path / "short.orc"
    path.write_bytes(INSERT[:1000])
    with pytest.raises(BadFileError, match=r"shorter than 2000 bytes: .*short\.orc"):
        read(path, 2000)


@pytest.mark.parametrize(
    "data",
    [b"x", b"ORC", b"\x00", b"\xff" * 40, b"PAR1" * 100, INSERT + b"\n", INSERT[:-1], INSERT[-300:]],
    ids=["x", "magic", "zero", "ff", "parquet", "longer", "shorter", "end only"],
)
def test_files_that_are_not_orc_or_cut_off_are_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bucket_00001"
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="bucket_00001"):
        tail_of(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2500), st.integers(1, 255))
def test_a_flipped_byte_in_the_tail_is_noticed_or_harmless(tmp_path: Path, back: int, flip: int) -> None:
    data = bytearray(INSERT)
    data[-1 - back] ^= flip
    path = tmp_path / "flipped.orc"
    path.write_bytes(data)
    with suppress(BadFileError, UnsupportedFeatureError):  # anything else fails the test
        tail = tail_of(path)
        for statistics in (tail.column_statistics, *(stripe.statistics for stripe in tail.stripes)):
            assert len(statistics) in (0, len(list(statistics)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2500), st.integers(0, 255))
def test_a_summary_without_the_whole_tail_says_what_the_whole_tail_says(
    tmp_path: Path, back: int, flip: int
) -> None:
    path = tmp_path / "acid.orc"
    with path.open("wb") as file, pyorc.Writer(file, ACID) as writer:
        writer.writerows([(0, 3, 1 << 29, number, 3, (number, "x")) for number in range(50)])
    data = bytearray(path.read_bytes())
    if back < len(data):
        data[-1 - back] ^= flip
    path.write_bytes(data)
    with suppress(BadFileError, UnsupportedFeatureError):
        quick = read_summary(LocalFileSystem(), str(path), len(data))
        with suppress(BadFileError, UnsupportedFeatureError):  # damage in a part that no plan needs
            assert quick == summarize(tail_of(path))


def test_unusual_files_are_summarized_by_their_whole_tail(tmp_path: Path) -> None:
    for name in ("insert.orc", "delete.orc", "plain.orc"):
        path = DATA / name
        assert read_summary(LocalFileSystem(), str(path), path.stat().st_size) == summarize(tail_of(path))
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert read_summary(LocalFileSystem(), str(empty), 0) == summarize(tail_of(empty))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, len(INSERT) - 1))
def test_a_cut_file_is_named(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.orc"
    path.write_bytes(INSERT[:length])
    with pytest.raises(BadFileError, match=r"cut\.orc"):
        tail_of(path)
