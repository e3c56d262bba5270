"""Sections of chunks: every codec that ORC writers use."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.compression_chunks import Compression, compress, decompress, lz4_block
from hiveacid.orc.protobuf import WireError

BLOCK = 64
CODECS = {Compression.SNAPPY: "snappy", Compression.LZ4: "lz4_raw", Compression.ZSTD: "zstd"}
TEXTS = st.binary(max_size=3 * BLOCK) | st.text("ab", max_size=3 * BLOCK).map(str.encode)


def chunks(data: bytes, kind: Compression) -> bytes:
    """Cut a section into compressed chunks as ORC writers do."""
    out = b""
    for at in range(0, len(data), BLOCK):
        block = data[at : at + BLOCK]
        packed = pa.Codec(CODECS[kind]).compress(block, asbytes=True)
        out += (len(packed) << 1).to_bytes(3, "little") + packed
    return out


@given(TEXTS, st.sampled_from([Compression.NONE, Compression.ZLIB, *CODECS]))
def test_what_is_compressed_comes_back(data: bytes, kind: Compression) -> None:
    assert decompress(compress(data, kind, BLOCK), kind, BLOCK) == data


@given(TEXTS, st.sampled_from([*CODECS]))
def test_compressed_chunks_of_other_writers_are_read(data: bytes, kind: Compression) -> None:
    assert decompress(chunks(data, kind), kind, BLOCK) == data


@given(st.binary(max_size=2000) | st.text("ab", max_size=2000).map(str.encode))
def test_lz4_blocks_of_unknown_length_are_read(data: bytes) -> None:
    assert lz4_block(pa.Codec("lz4_raw").compress(data, asbytes=True), 2000) == data


def test_no_chunk_is_longer_than_the_block() -> None:
    section = compress(bytes(range(256)) * 3, Compression.ZLIB, BLOCK)
    at, count = 0, 0
    while at < len(section):
        header = int.from_bytes(section[at : at + 3], "little")
        chunk = section[at + 3 : at + 3 + (header >> 1)]
        assert len(chunk if header & 1 else zlib.decompress(chunk, -15)) <= BLOCK
        at, count = at + 3 + (header >> 1), count + 1
    assert count == 768 // BLOCK


@given(st.binary(min_size=1, max_size=100), st.sampled_from([Compression.ZLIB, *CODECS]))
def test_garbage_is_refused_or_read_but_nothing_else(data: bytes, kind: Compression) -> None:
    section = (len(data) << 1).to_bytes(3, "little") + data
    with suppress(WireError):
        assert len(decompress(section, kind, BLOCK)) <= 2 * BLOCK


@pytest.mark.parametrize("kind", [Compression.ZLIB, *CODECS])
def test_a_chunk_that_is_cut_off_is_refused(kind: Compression) -> None:
    with pytest.raises(WireError, match="cut off"):
        decompress(compress(b"abc" * 20, kind, BLOCK)[:-1], kind, BLOCK)


def test_lzo_is_named() -> None:
    with pytest.raises(WireError, match="LZO is not supported"):
        decompress(b"\x02\x00\x00a", Compression.LZO, BLOCK)
