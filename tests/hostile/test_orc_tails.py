"""Malformed ORC tails: typed errors, little memory, little time (issue 20, point 13)."""

from __future__ import annotations

import io
import os
import random
import time
import zlib
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from hiveacid.core.format.acid_columns import AcidColumn, parse_key_index, parse_statistics
from hiveacid.errors import BadFileError, HiveAcidError
from hiveacid.orc.acid_footer import event_facts_of_footer
from hiveacid.orc.footer_summary import summarize
from hiveacid.orc.key_order import key_index
from hiveacid.orc.tail import OrcKind, parse_tail, read_tail
from hiveacid.orc.wire_format import (
    EIGHT_BYTES,
    MAX_BLOCK,
    Compression,
    WireError,
    encode_field,
    encode_packed,
    encode_varint,
    lz4_block,
)
from hiveacid.storage.local_file_system import LocalFileSystem
from support.cost import SECONDS, assert_quick, assert_small

MUTATIONS, SEEDS = 100_000 if os.environ.get("CI") else 20_000, 4
DATA = Path(__file__).parents[1] / "unit" / "orc" / "data"


def refused(data: bytes, match: str) -> None:
    """Require that a file is refused by a typed error that names it, quickly and in little memory."""

    def read() -> None:
        with pytest.raises(BadFileError, match=match) as caught:
            look(data)
        assert caught.value.path == "f.orc"

    assert_quick(read)
    assert_small(read)


def look(data: bytes) -> None:
    """Ask a tail for everything that readers, the compactor and the checker ask for."""
    tail = parse_tail(data, len(data), "f.orc")
    summarize(tail)
    for statistics in (tail.column_statistics, *(stripe.statistics for stripe in tail.stripes[:3])):
        list(statistics[:50])
        for column in range(min(len(statistics), 50)):
            assert statistics[column] is not None
    if tail.is_acid and len(tail.column_statistics):
        event_facts_of_footer(tail)
        key_index(tail)


def file_of(footer: bytes, *, metadata: bytes = b"", codec: int = 0, block: int | None = None) -> bytes:
    postscript = encode_field(1, len(footer)) + encode_field(2, codec)
    postscript += b"" if block is None else encode_field(3, block)
    postscript += encode_field(5, len(metadata)) + encode_field(8000, b"ORC")
    return b"ORC" + metadata + footer + postscript + bytes([len(postscript)])


def types(*messages: bytes) -> bytes:
    return b"".join(encode_field(4, message) for message in messages)


STRUCT = encode_field(1, OrcKind.STRUCT)
INT = encode_field(1, OrcKind.INT)


def test_a_decompression_bomb_is_refused() -> None:
    coder = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    chunk = coder.compress(bytes(MAX_BLOCK)) + coder.flush()
    bomb = ((len(chunk) << 1).to_bytes(3, "little") + chunk) * 128  # 1 GiB
    assert len(bomb) < 1 << 21
    refused(file_of(bomb, codec=Compression.ZLIB, block=MAX_BLOCK), "more than .* bytes")


def test_a_block_larger_than_chunks_can_be_is_refused() -> None:
    refused(file_of(types(STRUCT), codec=Compression.ZLIB, block=1 << 31), "is above")


def test_a_huge_number_of_stripes_is_refused() -> None:
    refused(file_of(types(STRUCT) + encode_field(3, b"") * 2_000_000), "more than .* fields")
    refused(file_of(types(STRUCT), metadata=encode_field(1, b"") * 2_000_000), "more than .* fields")


@pytest.mark.parametrize("kind", [OrcKind.LIST, OrcKind.STRUCT, OrcKind.UNION])
def test_deeply_nested_types_are_refused(kind: OrcKind) -> None:
    name = encode_field(3, b"f") if kind is OrcKind.STRUCT else b""
    chain = [encode_field(1, kind) + encode_packed(2, [at]) + name for at in range(1, 5000)]
    refused(file_of(types(*chain, INT)), "nested more than")


def test_types_that_are_no_tree_are_refused() -> None:
    for footer in (
        types(encode_field(1, OrcKind.LIST)),
        types(encode_field(1, OrcKind.MAP) + encode_packed(2, [1]), INT),
        types(INT + encode_packed(2, [1]), INT),
        types(encode_field(1, OrcKind.UNION)),
        types(STRUCT + encode_packed(2, [1, 1]) + encode_field(3, b"a") * 2, INT),
        types(STRUCT + encode_packed(2, [2, 1]) + encode_field(3, b"a") * 2, INT, INT),
        types(STRUCT + encode_packed(2, [7]) + encode_field(3, b"a")),
        types(STRUCT + encode_packed(2, [0]) + encode_field(3, b"a")),
        types(STRUCT, INT),
    ):
        refused(file_of(footer), "no tree|parts")


def test_many_children_and_many_fields_of_a_type_are_refused() -> None:
    refused(file_of(types(STRUCT + encode_field(2, b"\1" * 5_000_000))), "more than .* numbers")
    refused(file_of(types(*[INT + encode_field(3, b"") * 100] * 50_000)), "more than .* fields")


def test_numbers_that_cannot_be_are_refused() -> None:
    decimal = encode_field(1, OrcKind.DECIMAL)
    for footer in (
        types(STRUCT) + encode_field(6, 1 << 63) + encode_field(3, encode_field(5, 1 << 63)),
        types(STRUCT) + encode_field(8, 1 << 40),
        types(decimal + encode_field(5, 1 << 40)),
        types(encode_field(1, OrcKind.VARCHAR) + encode_field(4, 1 << 60)),
    ):
        refused(file_of(footer), "is above|cannot be")
    refused(file_of(b"\x30" + b"\xff" * 9 + b"\x7f"), "more than 64 bits")
    refused(file_of(types(STRUCT))[3:-1] + b"\xff", "not an ORC file")
    refused(b"", "not an ORC file")


@pytest.mark.parametrize("text", ["1E999999999", "NaN", "-Infinity", "9" * 1_000_000, "x"])
def test_decimals_of_statistics_that_no_column_holds_are_refused(text: str) -> None:
    bounds = encode_field(6, encode_field(1, text.encode()) + encode_field(2, str(Decimal(1)).encode()))
    root = encode_field(1, 0)
    footer = types(STRUCT + encode_packed(2, [1]) + encode_field(3, b"a"), encode_field(1, OrcKind.DECIMAL))
    refused(file_of(footer + encode_field(7, root) + encode_field(7, bounds)), "decimal")


def test_ids_in_the_footer_that_no_store_gives_are_refused() -> None:
    children = encode_packed(2, range(1, 7)) + b"".join(encode_field(3, name.encode()) for name in AcidColumn)
    footer = types(STRUCT + children, INT, encode_field(1, OrcKind.LONG), INT, INT, INT, STRUCT)
    top = encode_field(2, encode_field(1, 2) + encode_field(2, (1 << 64) - 2))  # Long.MAX_VALUE, zigzag
    statistics = [encode_field(1, 0), b"", top, b"", b"", b"", b""]
    footer += b"".join(encode_field(7, one) for one in statistics) + encode_field(8, 10_000)
    refused(file_of(footer), "write id")


def test_endless_numbers_in_footer_texts_are_refused() -> None:
    endless = "9" * 5000
    with pytest.raises(BadFileError):
        parse_key_index(f"{endless},1,1;")
    with pytest.raises(BadFileError):
        parse_statistics(f"1,{endless},1")


def test_lz4_repeats_are_copied_at_once() -> None:
    chunk = b"\x1fx\1\0" + b"\xff" * 32_000 + b"\0"

    def read() -> None:
        assert lz4_block(chunk, MAX_BLOCK) == b"x" * (1 + 15 + 255 * 32_000 + 4)

    assert_quick(read)
    with pytest.raises(WireError):
        lz4_block(chunk, 1 << 20)


def test_a_sparse_file_with_a_long_tail_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    tail = encode_field(1, 1 << 31) + encode_field(8000, b"ORC")
    with path.open("wb") as file:
        file.seek(1 << 32)
        file.write(tail + bytes([len(tail)]))

    def read() -> None:
        with pytest.raises(BadFileError, match="more than"):
            read_tail(LocalFileSystem(), str(path), path.stat().st_size)

    assert_quick(read)
    assert_small(read)


def tails() -> list[bytes]:
    """Return the ends of real files: every type, with and without compression, events, several stripes."""
    table = pa.table(
        {
            "n": pa.array(range(2000), pa.int64()),
            "d": pa.array([1.5] * 2000),
            "s": [f"text {at}" for at in range(2000)],
            "m": pa.array([Decimal("1.25")] * 2000, pa.decimal128(10, 2)),
            "l": [[1, 2]] * 2000,
        }
    )
    made = []
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        out = io.BytesIO()
        orc.write_table(table.slice(0, 100), out, compression=codec)
        made.append(out.getvalue())
    out = io.BytesIO()
    acid = pa.table(
        {name: pa.array([0] * 100, pa.int64()) for name in [*AcidColumn][:5]}
        | {"row": pa.array([{"a": 1}] * 100, pa.struct([("a", pa.int32())]))}
    )
    orc.write_table(acid, out, compression="uncompressed")
    made += [out.getvalue()] * 3  # damage to a compressed tail seldom gets past the codec
    made += [made[0]] * 3
    return [*made, (DATA / "delete.orc").read_bytes()]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Change some bytes near the end, or cut some out, or put some in."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = max(0, len(out) - 1 - int(chance.random() ** 2 * min(len(out), 700)))
        match chance.randrange(5):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                out[at] ^= 1 << chance.randrange(8)
            case 2:
                del out[at : at + chance.randrange(1, 9)]
            case 3:
                out[at:at] = encode_varint(chance.getrandbits(chance.choice((7, 31, 63, 64))))
            case _:
                out[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        if not out:
            break
    return bytes(out)


@pytest.mark.sampled(8, "the cases differ in one value each")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_damaged_tails_are_read_or_refused_by_typed_errors(seed: int) -> None:
    chance, files = random.Random(seed), tails()
    refusals, unnamed, longest = 0, 0, 0.0
    for nth in range(MUTATIONS // SEEDS):
        data = damaged(files[nth % len(files)], chance)
        start = time.thread_time()
        try:
            look(data)
        except HiveAcidError as error:
            refusals += 1
            unnamed += "f.orc" not in str(error)
        except Exception as error:
            error.add_note(f"seed {seed}, mutation {nth}: {data[-900:].hex()}")
            raise
        longest = max(longest, time.thread_time() - start)
    assert longest < SECONDS
    assert unnamed == 0
    assert 0 < refusals < MUTATIONS // SEEDS


def test_damaged_tails_take_little_memory() -> None:
    chance, files = random.Random(7), tails()

    def read() -> None:
        for nth in range(1_000):
            with suppress(HiveAcidError):
                look(damaged(files[nth % len(files)], chance))

    assert_small(read)


def test_fields_of_eight_bytes_are_numbers_only_where_they_are_eight_bytes() -> None:
    wrong = encode_field(3, encode_field(1, b"123"))
    footer = types(STRUCT + encode_packed(2, [1]) + encode_field(3, b"a"), encode_field(1, OrcKind.DOUBLE))
    right = encode_field(3, encode_field(1, b"\0" * 8, EIGHT_BYTES))
    for one in (wrong, right):
        look(file_of(footer + encode_field(7, encode_field(1, 0)) + encode_field(7, one)))
