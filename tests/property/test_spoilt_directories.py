"""Random directories as real files, most of them spoilt: an error that names the place, or the right rows.

Listing, selection and the survey of footers are hiveacid's; what they choose is read here by pyorc, event by event.
No Spark: hundreds of directories take seconds. HIVEACID_TEST_COUNT=20 makes twenty times as many (``make stress``).
"""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.config.setting_definitions import Settings
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import FormatError, NotEnoughHistoryError
from hiveacid.orc.footer_summary import SummaryCache
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import Location, list_locations
from hiveacid.table.context import Context, SessionState
from hiveacid.table.read.footers import Footers, read_footers
from hiveacid.transactions.transaction import Transaction
from support.corpus.acid_files import acid_bytes, flush_lengths, inserts, orc_bytes
from support.directories.files import COLUMNS, write_location
from support.directories.maker import make_location
from support.directories.model import Ids, make_ids
from support.directories.shelves import definition
from support.exhaustive import COUNT, examples

EXAMPLES = examples(150) * (COUNT or 1)
CREATE = "CREATE TABLE t (v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


class _Bare(Context):
    """As much of a connection as the survey asks for."""

    def __init__(self, warehouse: Path) -> None:
        parts = {
            "fs": LocalFileSystem(durable=False),
            "session": SessionState(Settings()),
            "summaries": SummaryCache(),
            "clock": SystemClock(),
            "warehouse": str(warehouse),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)


def surveyed(root: Path, warehouse: Path, ids: Ids) -> tuple[Location, Footers]:
    context, table = _Bare(warehouse), definition(CREATE, str(root))
    properties = tuple((key, value) for key, value in table.properties if key != ADOPTED_TXN.name)
    table = replace(table, properties=properties)  # the transactions of compactions are judged by `ids`
    (at,) = list_locations(context.fs, table, None, ids.write_ids, ids.txns)
    txn = cast("Transaction", SimpleNamespace(txn_id=1))
    return at, read_footers(context, table, [at], txn)


def live_rows(at: Location, found: Footers, ids: Ids) -> Counter[tuple[Any, ...]]:
    """Read what was chosen, as the scan does."""

    def events(files: Iterable[ScanFile]) -> Iterator[tuple[Any, ...]]:
        for file in files:
            if file.rows:
                for event in reader(file.copy or file.path):
                    if ids.write_ids.is_valid(event[4]):
                        yield event

    plan = found.plans[at.partition]
    rows = Counter(((e[1], e[2], e[3]), e[5][0]) for e in events(file for file in plan.rows if file.acid))
    for file in plan.rows:
        if (one := file.original) is not None:
            for n, (value,) in enumerate(reader(file.path)):
                rows[(int(one.write_id), one.bucket_property, one.first_row_id + n), value] += 1
    gone = {(e[1], e[2], e[3]) for e in events(plan.events)}
    return Counter({row: count for row, count in rows.items() if row[0] not in gone})


def reader(path: str) -> pyorc.Reader:
    return pyorc.Reader(io.BytesIO(Path(path).read_bytes()))


# what may happen to a directory ---------------------------------------------------------------------


def cut(path: Path, random: Random) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(1, len(data))])
    return path


def scrambled(path: Path, random: Random) -> Path:
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 30)):  # anywhere in the tail: nothing here reads what lies before it
        data[-random.randint(1, len(data) // 3)] = random.randrange(256)
    path.write_bytes(bytes(data))
    return path


def foreign(path: Path, random: Random) -> Path:
    path.write_bytes(
        random.choice((b"1,a\n2,b\n", b"PAR1" + random.randbytes(50) + b"PAR1", b"ORC", b"\0" * 99))
    )
    return path


def other_kind(path: Path, random: Random) -> Path:
    """Put events under a name for plain rows, or the other way round."""
    is_bucket = path.name.startswith("bucket_")
    plain, events = orc_bytes([("x",)], f"struct<{COLUMNS}>"), acid_bytes(inserts(1, [("x",)]), COLUMNS)
    path.write_bytes(plain if is_bucket else events)
    del random
    return path


def flushed_beyond(path: Path, random: Random) -> Path:
    """Say that more was flushed than is there."""
    side = path.with_name(f"{path.name}_flush_length")
    side.write_bytes(flush_lengths(path.stat().st_size + random.randint(1, 10**9)))
    return path


def bad_side_file(path: Path, random: Random) -> Path:
    side = path.with_name("_metadata_acid")
    side.write_bytes(random.choice((b"", b"{", b"[]", b"\xff\xfe", b'{"thisFileVersion":"7"}')))
    return side


def bad_directory(path: Path, random: Random) -> Path:
    root = next(parent for parent in path.parents if parent.name == "t")
    made = root / random.choice(
        ("delta_x", "base_", "delete_delta_1", "delta_5_3", "base_1_v", "delta_1_2_3_4")
    )
    made.mkdir(exist_ok=True)
    (made / "bucket_00000").write_bytes(path.read_bytes())
    return made


def bucket_too_high(path: Path, random: Random) -> Path:
    made = path.with_name(f"{random.randint(4096, 999_999):06d}_0")
    made.write_bytes(orc_bytes([("x",)], f"struct<{COLUMNS}>"))
    return made


SPOILERS: tuple[Callable[[Path, Random], Path], ...] = (
    cut, scrambled, scrambled, foreign, other_kind, flushed_beyond, bad_side_file, bad_directory, bucket_too_high,
)  # fmt: skip


@pytest.mark.parametrize("part", range(2))
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**48))
def test_a_spoilt_directory_is_refused_by_its_place_or_read_right(part: int, seed: int) -> None:
    random = Random(seed * 2 + part)
    ids = make_ids(random)
    location = make_location(random, ids)
    with tempfile.TemporaryDirectory(prefix="spoilt-") as folder:
        scratch = Path(folder)
        root = write_location(scratch / "t", location, random)
        root.mkdir(exist_ok=True)
        data = [
            path
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.stat().st_size > 100 and "_flush_length" not in path.name
        ]
        spoilt = (
            random.choice(SPOILERS)(random.choice(data), random) if data and random.random() < 0.9 else None
        )
        try:
            at, found = surveyed(root, scratch, ids)
        except FormatError as error:
            refused = error
        else:
            require_right(at, found, ids, Counter(location.rows.items()), spoilt)
            return
    if isinstance(refused, NotEnoughHistoryError):
        assert location.too_new or (spoilt is not None and spoilt.name == "_metadata_acid")
        return
    assert spoilt is not None, "nothing was spoilt"
    assert (refused.path or "").startswith(str(spoilt)), f"{refused} for {spoilt}"


def require_right(
    at: Location, found: Footers, ids: Ids, right: Counter[tuple[Any, ...]], spoilt: Path | None
) -> None:
    """Compare rows; a file whose tail can be read and whose rows cannot is refused by who reads it."""
    try:
        rows = live_rows(at, found, ids)
    except (pyorc.ORCError, pyorc.errors.ParseError, UnicodeDecodeError):
        assert spoilt is not None
        return
    assert rows == right, spoilt
