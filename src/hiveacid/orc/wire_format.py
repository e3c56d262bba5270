"""Wire format of an ORC file's sections: Protocol Buffers, and the chunks that compressed sections consist of.

A message is read into its fields in their order, unknown ones included, so that it can be written again with one field
changed and nothing lost. A chunk is at most one block, with a header of three bytes: the chunk's length times two, plus one
if the chunk is not compressed (``org.apache.orc.impl.InStream``, ORC specification 'Compression').
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import pyarrow as pa

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""Wire types."""

_MAX_SHIFT = 63  # a varint holds 64 bits: at most ten bytes, the last of them one bit
MAX_FIELDS = 1 << 17
"""Maximum of fields in a message and of numbers in a list; damaged or hostile files could hold any number."""
_ONE_BYTE = 0x80  # numbers below it are one byte
_FIRST_KEY = 1 << 3  # field numbers begin at 1
_FIXED_LENGTH = {EIGHT_BYTES: 8, FOUR_BYTES: 4}


class WireError(ValueError):
    """The bytes are not a message."""


WireField: TypeAlias = tuple[int, int, int | bytes]
"""One field of a message: number, wire type, and an int for a varint, else the bytes. Not a class: footers have many."""


def encode_varint(value: int) -> bytes:
    """Write an unsigned number, seven bits a byte, lowest first."""
    out = bytearray()
    while True:
        low = value & 0x7F
        value >>= 7
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned number at an offset; return it and the offset after it. Raises WireError."""
    result = shift = 0
    while True:
        if at >= len(data) or shift > _MAX_SHIFT:
            raise WireError("a number is cut off or too long")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE:
            if shift == _MAX_SHIFT and byte > 1:
                raise WireError("a number has more than 64 bits")
            return result, at
        shift += 7


def decode_zigzag(value: int) -> int:
    """Turn the wire form of a signed number (0, -1, 1, -2 …) into the number."""
    return (value >> 1) ^ -(value & 1)


def encode_field(number: int, value: int | bytes, wire: int | None = None) -> bytes:
    """Write one field; the wire type follows from the value unless given (8- and 4-byte values)."""
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    kind = BYTES if wire is None else wire
    key = encode_varint(number << 3 | kind)
    return key + encode_varint(len(value)) + value if kind == BYTES else key + value


def encode_packed(number: int, values: Iterable[int]) -> bytes:
    """Write a packed list of unsigned numbers."""
    return encode_field(number, b"".join(map(encode_varint, values)))


def read_fields(data: bytes, max_fields: int = MAX_FIELDS) -> list[WireField]:
    """Split a message into its fields, ``max_fields`` of them at most. Raises WireError."""
    fields: list[WireField] = []
    append = fields.append
    position, end = 0, len(data)
    for _ in range(max_fields):
        if position >= end:
            return fields
        key = data[position]
        position += 1
        if key >= _ONE_BYTE:
            key, position = decode_varint(data, position - 1)
        wire = key & 7
        if wire == VARINT:
            if position < end and data[position] < _ONE_BYTE:  # without a call: most numbers of a footer
                number = data[position]
                position += 1
            else:
                number, position = decode_varint(data, position)
            append((key >> 3, wire, number))
            continue
        if wire != BYTES:
            length = _FIXED_LENGTH.get(wire, end)  # unknown wire type: fails below
        elif position < end and data[position] < _ONE_BYTE:
            length = data[position]
            position += 1
        else:
            length, position = decode_varint(data, position)
        start = position
        position += length
        if position > end or key < _FIRST_KEY:
            raise WireError("a field is cut off or of no known kind")
        append((key >> 3, wire, data[start:position]))
    if position < end:
        raise WireError(f"a message has more than {max_fields} fields")
    return fields


@dataclass(frozen=True)
class ProtobufMessage:
    """A message's fields in the order of the file, with typed access by number."""

    fields: tuple[WireField, ...]

    @classmethod
    def parse(cls, data: bytes, max_fields: int = MAX_FIELDS) -> ProtobufMessage:
        """Read a message of ``max_fields`` fields at most. Raises WireError."""
        return cls(tuple(read_fields(data, max_fields)))

    def integer(self, number: int) -> int | None:
        """Return the last unsigned number of a field, which overrides earlier ones; None if the field is absent."""
        return next((v for n, _, v in reversed(self.fields) if n == number and isinstance(v, int)), None)

    def signed(self, number: int) -> int | None:
        """Return a signed number in zigzag coding."""
        value = self.integer(number)
        return None if value is None else decode_zigzag(value)

    def data(self, number: int) -> bytes | None:
        """Return the last bytes of a field."""
        return next((v for n, _, v in reversed(self.fields) if n == number and isinstance(v, bytes)), None)

    def all_data(self, number: int) -> tuple[bytes, ...]:
        """Return the bytes of every occurrence of a field."""
        return tuple(v for n, _, v in self.fields if n == number and isinstance(v, bytes))

    def message(self, number: int) -> ProtobufMessage | None:
        """Return a field as a nested message."""
        data = self.data(number)
        return None if data is None else ProtobufMessage.parse(data)

    def text(self, number: int) -> str | None:
        """Return a field as UTF-8 text."""
        data = self.data(number)
        return None if data is None else _text(data)

    def all_text(self, number: int) -> tuple[str, ...]:
        """Return every occurrence of a field as UTF-8 text."""
        return tuple(map(_text, self.all_data(number)))

    def integers(self, number: int) -> tuple[int, ...]:
        """Return a repeated unsigned number, packed or not."""
        numbers: list[int] = []
        for field_number, _, value in self.fields:
            if field_number != number:
                continue
            if isinstance(value, int):
                numbers.append(value)
                continue
            position = 0
            while position < len(value):
                if len(numbers) >= MAX_FIELDS:
                    raise WireError(f"a list has more than {MAX_FIELDS} numbers")
                item, position = decode_varint(value, position)
                numbers.append(item)
        return tuple(numbers)

    def double(self, number: int) -> float | None:
        """Return an IEEE double."""
        data = next((v for n, w, v in reversed(self.fields) if n == number and w == EIGHT_BYTES), None)
        return struct.unpack("<d", data)[0] if isinstance(data, bytes) else None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError("a text is not UTF-8") from error


DEFAULT_BLOCK_SIZE = 256 * 1024
MAX_BLOCK = 1 << 23
"""The largest block in bytes: the length in a chunk's header has 23 bits."""
MAX_SECTION = 64 << 20
"""Maximum size of a decompressed section in bytes: a small file could expand to gigabytes."""
_HEADER = 3
_MIN_MATCH = 4  # LZ4's shortest match


class Compression(IntEnum):
    """Codec of the streams and the tail of a file (``CompressionKind`` of orc_proto)."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


def decompress(data: bytes, kind: Compression, block_size: int, max_size: int = MAX_SECTION) -> bytes:
    """Join and decompress the chunks of a section.

    Raises WireError for chunks that are damaged or of unknown kind, or that have more than ``max_size`` bytes in total.
    """
    if kind is Compression.NONE:
        return data
    out = []
    position = total = 0
    while position < len(data):
        header = int.from_bytes(data[position : position + _HEADER], "little")
        position += _HEADER
        chunk = data[position : position + (header >> 1)]
        if position + (header >> 1) > len(data):
            raise WireError("a compressed chunk is cut off")
        position += len(chunk)
        out.append(chunk if header & 1 else _inflate(chunk, kind, block_size))
        total += len(out[-1])
        if total > max_size:
            raise WireError(f"a section of the tail has more than {max_size} bytes")
    return b"".join(out)


def compress(data: bytes, kind: Compression, block_size: int) -> bytes:
    """Cut a section into chunks. Only zlib compresses them here: every codec allows chunks that are not compressed."""
    if kind is Compression.NONE:
        return data
    out = []
    for position in range(0, len(data), block_size):
        block = data[position : position + block_size]
        small = block
        if kind is Compression.ZLIB:
            coder = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
            small = coder.compress(block) + coder.flush()
        stored = len(small) >= len(block)
        chunk = block if stored else small
        out.append((len(chunk) << 1 | stored).to_bytes(_HEADER, "little") + chunk)
    return b"".join(out)


def _inflate(chunk: bytes, kind: Compression, block_size: int) -> bytes:
    try:
        if kind is Compression.ZLIB:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, block_size)
        if kind is Compression.SNAPPY:
            length, _ = decode_varint(chunk, 0)
            if length > block_size:
                raise WireError("a SNAPPY chunk is longer than its block")
            data: bytes = pa.Codec("snappy").decompress(chunk, decompressed_size=length, asbytes=True)
            return data
        if kind is Compression.LZ4:
            return lz4_block(chunk, block_size)
        if kind is Compression.ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
                block: bytes = stream.read(block_size)
            return block
    except (zlib.error, OSError, pa.ArrowException, IndexError) as error:
        raise WireError(f"a {kind.name} chunk is damaged: {error}") from error
    raise WireError(f"compression {kind.name} is not supported")


def lz4_block(chunk: bytes, max_size: int) -> bytes:
    """Decompress a raw LZ4 block whose length is not known (Arrow's codec wants to know it).

    ``max_size``: largest result allowed, in bytes. Raises WireError or IndexError where the block is damaged.
    """
    out = bytearray()
    position = 0
    while position < len(chunk):
        token = chunk[position]
        literals, position = _lz4_length(chunk, position + 1, token >> 4)
        if position + literals > len(chunk) or len(out) + literals > max_size:
            raise WireError("an LZ4 chunk is cut off or longer than its block")
        out += chunk[position : position + literals]
        position += literals
        if position == len(chunk):
            break
        distance = chunk[position] | chunk[position + 1] << 8
        length, position = _lz4_length(chunk, position + 2, token & 15)
        start = len(out) - distance
        if not distance or start < 0 or len(out) + length + _MIN_MATCH > max_size:
            raise WireError("an LZ4 chunk refers to bytes that are not there")
        # A match may overlap its own result: then it repeats.
        match = out[start : start + length + _MIN_MATCH]
        times, rest = divmod(length + _MIN_MATCH, len(match))
        out += match * times + match[:rest]
    return bytes(out)


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:  # noqa: PLR2004 - the four bits are full: more bytes follow
        while True:
            length += chunk[at]
            at += 1
            if chunk[at - 1] != 255:  # noqa: PLR2004
                break
    return length, at
