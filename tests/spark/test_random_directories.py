"""Random legal locations as real files: Spark's scan and the independent reader find the committed rows.

Each table's partitions are random locations under one list of write ids, so that one scan reads a dozen of them.
Spoilt ones are refused by an error that names the file; no row is ever wrong. HIVEACID_TEST_SEED says where to
begin (on CI 1, elsewhere another one each time).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import Partition, TableDefinition
from hiveacid.errors import FormatError
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.read.table_snapshot import scan_locations
from support import exhaustive
from support.corpus.sort_merge_reader import read_location
from support.directories.files import write_location
from support.directories.maker import make_location
from support.directories.model import Ids, Key, Location, make_ids

if TYPE_CHECKING:
    from hiveacid import AcidSession

TABLES, PARTITIONS = 4, 15
CREATE = (
    "CREATE TABLE t (v STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)
Row = tuple[int, Key, str]


@pytest.fixture(scope="module")
def seed() -> int:
    start = exhaustive.seed()
    print(f"HIVEACID_TEST_SEED={start}")  # noqa: T201 - shown where a test fails
    return start


def random_locations(random: Random, ids: Ids) -> Iterator[Location]:
    """Yield locations that every reader of these write ids can read."""
    while True:
        location = make_location(random, ids)
        if not location.too_new:
            yield location


def partitions(root: Path, random: Random, ids: Ids) -> tuple[list[Partition], set[Row]]:
    made, rows = [], set()
    for number, location in zip(range(PARTITIONS), random_locations(random, ids), strict=False):
        where = write_location(root / f"p={number}", location, random)
        made.append(Partition((str(number),), str(where)))
        rows |= {(number, key, value) for key, value in location.rows.items()}
    return made, rows


def scanned(acid: AcidSession, table: TableDefinition, found: list[Partition], ids: Ids) -> list[Row]:
    """Read as a statement does, with write ids and transactions of our own."""
    context = acid.context
    with context.read_leases.acquire(context.settings) as txn, translate_errors():
        locations = list_locations(context.fs, table, found, ids.write_ids, ids.txns)
        frame = scan_locations(context, table, locations, ids.write_ids, txn)
        rows = frame.select("p", "ROW__ID.*", "v").collect()
    return [(row[0], (row[1], row[2], row[3]), row[4]) for row in rows]


@pytest.mark.sampled(4, "the directories are random")
@pytest.mark.parametrize("number", range(TABLES))
def test_both_readers_find_what_was_committed(acid: AcidSession, seed: int, number: int) -> None:
    random = Random(seed + number)
    ids = make_ids(random)
    acid.sql(CREATE)
    table = acid.table("t").definition
    root = Path(table.location)
    made, rows = partitions(root, random, ids)
    read = scanned(acid, table, made, ids)
    assert sorted(read) == sorted(rows)
    text = f"db.t:{ids.write_ids.to_string().partition(':')[2]}"
    independent = {
        (int(one.values[0] or 0), row[:3], row[3][0])
        for one in made
        for row in read_location(Path(one.location), text)
    }
    assert independent == rows


def spoil(data: bytes, random: Random) -> bytes:
    """Return a file that no ORC reader can read."""
    match random.randrange(4):
        case 0:
            return data[: random.randrange(1, len(data))]
        case 1:
            return data + random.randbytes(random.randint(1, 9)) + b"\0"
        case 2:
            return b"1,a\n2,b\n"
    return data[:3] + bytes(255 - byte for byte in data[3:-20]) + data[-20:]


def test_a_spoilt_file_is_refused_by_its_name(acid: AcidSession, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    acid.sql(CREATE)
    table = acid.table("t").definition
    done = 0
    for number in range(40):
        ids = make_ids(random)
        location = next(random_locations(random, ids))
        root = write_location(tmp_path / f"t{number}", location, random)
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        used = [path for path in files if is_read(path, root, location, ids)]
        if not used or done == 12:
            continue
        chosen = random.choice(used)
        chosen.write_bytes(spoil(chosen.read_bytes(), random))
        try:
            found = scanned(acid, table, [Partition(("1",), str(root))], ids)
        except FormatError as error:
            assert str(chosen) in (error.path or "")  # noqa: PT017 - rows are as good
        else:  # behind the valid length of a streamed file anything may stand
            right = sorted((1, key, value) for key, value in location.rows.items())
            assert sorted(found) == right, f"{chosen} was spoilt"
        done += 1
    assert done == 12


def is_read(path: Path, root: Path, location: Location, ids: Ids) -> bool:
    """Tell whether a reader opens a file of a random location: without it rows are missing, or come back."""
    text = f"db.t:{ids.write_ids.to_string().partition(':')[2]}"
    data = path.read_bytes()
    name = path.relative_to(root).as_posix()
    if not data or name not in location.files or path.name.endswith("_flush_length"):
        return False
    path.unlink()
    try:
        found = {row[:3]: row[3][0] for row in read_location(root, text)}
    finally:
        path.write_bytes(data)
    return found != location.rows
