"""The wire format: what is written is read back, and damage is noticed."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.wire_format import (
    EIGHT_BYTES,
    Compression,
    ProtobufMessage,
    WireError,
    compress,
    decode_varint,
    decode_zigzag,
    decompress,
    encode_field,
    encode_packed,
    encode_varint,
    lz4_block,
    read_fields,
)

NUMBERS = st.integers(0, 2**64 - 1)


@given(NUMBERS, st.binary(max_size=5))
def test_varints_come_back_with_the_offset_behind_them(value: int, behind: bytes) -> None:
    written = encode_varint(value)
    assert decode_varint(written + behind, 0) == (value, len(written))


@pytest.mark.parametrize(
    ("wire", "number"), [(0, 0), (1, -1), (2, 1), (2**64 - 1, -(2**63)), (2**64 - 2, 2**63 - 1)]
)
def test_zigzag_folds_signs_into_the_lowest_bit(wire: int, number: int) -> None:
    assert decode_zigzag(wire) == number


@given(st.lists(st.tuples(st.integers(1, 9000), NUMBERS | st.binary(max_size=300))))
def test_a_message_is_written_as_it_was_read(items: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(encode_field(number, value) for number, value in items)
    fields = read_fields(data)
    assert [(number, value) for number, _, value in fields] == items
    assert b"".join(encode_field(number, value, wire) for number, wire, value in fields) == data


@given(st.lists(NUMBERS))
def test_repeated_numbers_are_read_packed_and_unpacked(values: list[int]) -> None:
    unpacked = b"".join(encode_field(2, value) for value in values)
    assert ProtobufMessage.parse(encode_packed(2, values)).integers(2) == tuple(values)
    assert ProtobufMessage.parse(unpacked).integers(2) == tuple(values)


def test_typed_access_takes_the_last_of_a_field_and_none_where_it_is_missing() -> None:
    message = ProtobufMessage.parse(
        encode_field(1, 3) + encode_field(1, 4) + encode_field(2, "ä".encode()) + encode_field(2, b"z")
        + encode_field(3, struct.pack("<d", -0.5), EIGHT_BYTES) + encode_field(4, encode_field(1, 7))
    )  # fmt: skip
    assert message.integer(1) == 4
    assert message.signed(1) == 2
    assert message.all_text(2) == ("ä", "z")
    assert message.text(2) == "z"
    assert message.double(3) == -0.5
    nested = message.message(4)
    assert nested is not None
    assert nested.integer(1) == 7
    assert (message.integer(9), message.signed(9), message.text(9), message.double(9)) == (None,) * 4
    assert message.message(9) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",  # number without end
        b"\x08" + b"\xff" * 10 + b"\x01",  # longer than 64 bits
        b"\x12\x05abc",  # bytes cut off
        b"\x09abc",  # 8 bytes cut off
        b"\x0b\x01",  # wire type 3: groups, never used by ORC
        b"\x02\x00",  # field number 0
    ],
)
def test_damaged_messages_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read_fields(data)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, (1 << 64) - 1])
def test_numbers_of_any_length_are_read(number: int) -> None:
    assert read_fields(encode_field(1, number) + encode_field(2, 5)) == [(1, 0, number), (2, 0, 5)]


def test_a_key_without_its_number_is_refused() -> None:
    with pytest.raises(WireError):
        read_fields(b"\x08")


def test_texts_must_be_utf8() -> None:
    with pytest.raises(WireError, match="UTF-8"):
        ProtobufMessage.parse(encode_field(1, b"\xff")).text(1)


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
