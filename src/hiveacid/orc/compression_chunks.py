"""Compressed sections of an ORC file: chunks of at most one block, each with a header of three bytes.

The header holds the chunk's length times two, plus one if the chunk is not compressed
(``org.apache.orc.impl.InStream``, ORC specification 'Compression').
"""

from __future__ import annotations

import zlib
from enum import IntEnum

import pyarrow as pa

from hiveacid.orc.protobuf import WireError, decode_varint

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


def decompress(data: bytes, kind: Compression, block_size: int, most: int = MAX_SECTION) -> bytes:
    """Join and decompress the chunks of a section.

    Raises WireError for chunks that are damaged or of unknown kind, or that have more than ``most`` bytes in total.
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
        if total > most:
            raise WireError(f"a section of the tail has more than {most} bytes")
    return b"".join(out)


def compress(data: bytes, kind: Compression, block_size: int) -> bytes:
    """Cut a section into chunks. Only zlib compresses them here: every codec allows chunks that are not compressed."""
    if kind is Compression.NONE:
        return data
    out = []
    for position in range(0, len(data), block_size):
        block = data[position : position + block_size]
        small = _deflate(block) if kind is Compression.ZLIB else block
        stored = len(small) >= len(block)
        chunk = block if stored else small
        out.append((len(chunk) << 1 | stored).to_bytes(_HEADER, "little") + chunk)
    return b"".join(out)


def _deflate(block: bytes) -> bytes:
    coder = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return coder.compress(block) + coder.flush()


def _inflate(chunk: bytes, kind: Compression, block_size: int) -> bytes:
    try:
        if kind is Compression.ZLIB:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, block_size)
        if kind is Compression.SNAPPY:
            return _snappy(chunk, block_size)
        if kind is Compression.LZ4:
            return lz4_block(chunk, block_size)
        if kind is Compression.ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
                data: bytes = stream.read(block_size)
            return data
    except (zlib.error, OSError, pa.ArrowException, IndexError) as error:
        raise WireError(f"a {kind.name} chunk is damaged: {error}") from error
    raise WireError(f"compression {kind.name} is not supported")


def _snappy(chunk: bytes, block_size: int) -> bytes:
    length, _ = decode_varint(chunk, 0)
    if length > block_size:
        raise WireError("a SNAPPY chunk is longer than its block")
    data: bytes = pa.Codec("snappy").decompress(chunk, decompressed_size=length, asbytes=True)
    return data


def lz4_block(chunk: bytes, most: int) -> bytes:
    """Decompress a raw LZ4 block whose length is not known (Arrow's codec wants to know it).

    ``most``: largest result allowed, in bytes. Raises WireError or IndexError where the block is damaged.
    """
    out = bytearray()
    position = 0
    while position < len(chunk):
        token = chunk[position]
        literals, position = _lz4_length(chunk, position + 1, token >> 4)
        if position + literals > len(chunk) or len(out) + literals > most:
            raise WireError("a LZ4 chunk is cut off or longer than its block")
        out += chunk[position : position + literals]
        position += literals
        if position == len(chunk):
            break
        distance = chunk[position] | chunk[position + 1] << 8
        length, position = _lz4_length(chunk, position + 2, token & 15)
        start = len(out) - distance
        if not distance or start < 0 or len(out) + length + _MIN_MATCH > most:
            raise WireError("a LZ4 chunk refers to bytes that are not there")
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
