"""Compactions without sorting: what is in order is copied in order, and nothing else is.

Every file here counts as large; in the other tests of compactions none is.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyorc
import pytest

from hiveacid.config import setting_definitions
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.orc.tail import read_tail
from hiveacid.spark.read.scan_frames import scan
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.write.sort_and_stage import StagingTarget, events_in_read_order, stage_in_read_order
from hiveacid.spark.write.staged_files import StagedKind, list_staged_files, splice_by_bucket
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.read.footers import read_footers
from support.corpus.acid_files import (
    Event,
    acid_bytes,
    bucket_property,
    deletes,
    flush_lengths,
    inserts,
    orc_bytes,
    put,
)
from support.corpus.sort_merge_reader import read_table

if TYPE_CHECKING:
    from hiveacid import AcidSession

COLUMNS = "id:int,v:string"
CREATE = (
    "CREATE TABLE {} (id INT, v STRING) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true', 'hiveacid.layout.level'='{}')"
)
AS_READ, SORTED = "are written as they are read", "are not in key order, and are sorted"
B0, B1 = bucket_property(0), bucket_property(1)
BUCKET_0 = "bucket_00000"


def rows(start: int, count: int) -> list[tuple[int, str]]:
    return [(n, f"v{n}") for n in range(start, start + count)]


def file(events: list[Event]) -> bytes:
    return acid_bytes(events, COLUMNS)


def delta(low: int, high: int, *statement: int) -> str:
    return f"delta_{low:07d}_{high:07d}" + "".join(f"_{one:04d}" for one in statement)


def deleted(write_id: int, *gone: tuple[int, int, int]) -> dict[str, bytes]:
    return {f"delete_{delta(write_id, write_id, 0)}/{BUCKET_0}": file(deletes(write_id, gone))}


TABLES: dict[str, tuple[dict[str, bytes], str, str | None]] = {
    # files, what is valid, how the rows are written (None: sorted, without an attempt)
    "base_and_deltas": (
        {
            f"base_0000005/{BUCKET_0}": file(inserts(2, rows(0, 40)) + inserts(5, rows(40, 10), statement=1)),
            "base_0000005/bucket_00001": file(inserts(2, rows(50, 10), bucket=1)),
            f"{delta(6, 6, 0)}/{BUCKET_0}": file(inserts(6, rows(60, 5))),
            f"{delta(7, 7, 0)}/{BUCKET_0}": file(inserts(7, rows(65, 5))),
            f"{delta(7, 7, 1)}/{BUCKET_0}": file(inserts(7, rows(70, 5), statement=1)),
        }
        | deleted(8, (2, B0, 3), (2, B1, 3), (7, B0, 0), (7, bucket_property(0, 1), 4)),
        "8:9223372036854775807::",
        AS_READ,
    ),
    "streams_that_interleave": (
        {
            f"{delta(1, 4)}/{BUCKET_0}": file(inserts(1, rows(0, 5)) + inserts(4, rows(5, 5))),
            f"{delta(1, 4)}/{BUCKET_0}_flush_length": b"",  # filled below
            f"{delta(3, 6)}/{BUCKET_0}": file(inserts(3, rows(10, 5)) + inserts(6, rows(15, 5))),
        }
        | deleted(7, (4, B0, 1)),
        "7:9223372036854775807::",
        None,
    ),
    "aborted_rows": (
        {
            f"{delta(1, 3)}/{BUCKET_0}": file(
                inserts(1, rows(0, 5)) + inserts(2, rows(5, 5)) + inserts(3, rows(10, 5))
            ),
            f"{delta(4, 4, 0)}/{BUCKET_0}": file(inserts(4, rows(15, 5))),
        },
        "4:9223372036854775807::2",
        AS_READ,
    ),
    "rows_of_a_file_out_of_order": (
        {
            f"{delta(1, 1, 0)}/{BUCKET_0}": file(inserts(1, rows(5, 5), first=5) + inserts(1, rows(0, 5))),
            f"{delta(2, 2, 0)}/{BUCKET_0}": file(inserts(2, rows(10, 5))),
        }
        | deleted(3, (1, B0, 6)),
        "3:9223372036854775807::",
        SORTED,
    ),
    "several_buckets_in_a_file": (
        {
            f"{delta(1, 1, 0)}/{BUCKET_0}": file(inserts(1, rows(0, 5)) + inserts(1, rows(5, 5), bucket=1)),
            f"{delta(2, 2, 0)}/{BUCKET_0}": file(inserts(2, rows(10, 5))),
        },
        "2:9223372036854775807::",
        None,
    ),
    "copies_of_originals": (
        {
            "000000_0": orc_bytes(rows(0, 5), f"struct<{COLUMNS}>"),
            "000000_0_copy_1": orc_bytes(rows(5, 5), f"struct<{COLUMNS}>"),
            f"{delta(1, 1, 0)}/{BUCKET_0}": file(inserts(1, rows(10, 5))),
        }
        | deleted(2, (0, B0, 6), (1, B0, 1)),
        "2:9223372036854775807::",
        None,
    ),
    "nothing_left": (
        {f"{delta(1, 1, 0)}/{BUCKET_0}": file(inserts(1, rows(0, 2)))} | deleted(2, (1, B0, 0), (1, B0, 1)),
        "2:9223372036854775807::",
        AS_READ,
    ),
}
_STREAM = TABLES["streams_that_interleave"][0]
_STREAM[f"{delta(1, 4)}/{BUCKET_0}_flush_length"] = flush_lengths(len(_STREAM[f"{delta(1, 4)}/{BUCKET_0}"]))


# a minor compaction has nothing to do with one delta
CASES = [(name, "major") for name in TABLES] + [
    (name, "minor") for name in TABLES if name not in ("nothing_left", "copies_of_originals")
]


def require_in_order(acid: AcidSession, root: Path) -> None:
    """Look at every key of every file, in the file's order, and at what the footer says."""
    files = sorted(path for pattern in ("base_*", "delta_*") for path in root.glob(f"{pattern}/bucket_*"))
    assert files
    for path in files:
        with path.open("rb") as opened:
            reader = pyorc.Reader(opened)
            found = [(row[1], row[2], row[3]) for row in reader]
            assert reader.user_metadata["hive.acid.stats"] == f"{len(found)},0,0".encode()
        assert found == sorted(set(found)), path
        assert {f"bucket_{key[1] >> 16 & 0xFFF:05d}" for key in found} <= {path.name}
        tail = read_tail(acid.context.fs, str(path), path.stat().st_size)
        assert sum(stripe.rows for stripe in tail.stripes) == tail.number_of_rows == len(found)


@pytest.mark.sampled(2, "the cases differ in one value each")
@pytest.mark.exhaustive(
    "another case of the same test stays",
    cases=(
        "base_and_deltas-minor",
        "aborted_rows-minor",
        "several_buckets_in_a_file",
        "copies_of_originals",
        "streams_that_interleave-minor",
        "nothing_left",
        "rows_of_a_file_out_of_order-major",
    ),
)
@pytest.mark.parametrize("limit", ["0", "64mb"])  # by a job, in the driver
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_files_are_in_order_whatever_was_read(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, kind: str, limit: str
) -> None:
    files, valid, how = TABLES[name]
    how = how if limit == "0" else None
    caplog.set_level(logging.INFO, "hiveacid.table.compaction.stage_without_shuffle")
    level = "hive3" if kind == "minor" else "hive4"
    root = put(tmp_path / name, files)
    acid.adopt(CREATE.format(name, level), str(root), f"default.{name}:{valid}")
    acid.set(setting_definitions.UNSORTED_FILE_SIZE.name, "1")
    acid.set(setting_definitions.SMALL_CHANGES.name, limit)
    table = acid.table(name)
    before = read_table(root, f"default.{name}:{valid}")
    seen = sorted(table.scan(row_ids=True).to_df().collect())
    (report,) = table.compact(kind)
    said = [
        record.getMessage()
        for record in caplog.records
        if record.name == "hiveacid.table.compaction.stage_without_shuffle"
    ]
    assert [how is not None and how in text for text in said] == [True] * (how is not None), said
    assert sorted(table.scan(row_ids=True).to_df().collect()) == seen
    acid.clean()
    lists = acid.context.store.valid_write_ids(acid.context.store.valid_txns(), [table.name])
    assert read_table(root, lists[table.name].to_string()) == before
    assert report.after.rows is not None
    if report.after.rows:
        require_in_order(acid, root)


@pytest.mark.parametrize("deleted_rows", [False, True])
def test_small_files_are_sorted_beside_a_large_one(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, deleted_rows: bool
) -> None:
    caplog.set_level(logging.INFO, "hiveacid.table.compaction.stage_without_shuffle")
    large, small = file(inserts(1, rows(0, 5000))), file(inserts(2, rows(5000, 5)))
    files = {
        f"{delta(1, 1, 0)}/{BUCKET_0}": large,
        f"{delta(2, 2, 0)}/{BUCKET_0}": small,
        f"{delta(3, 3, 0)}/{BUCKET_0}": file(inserts(3, rows(5005, 5))),
    }
    if deleted_rows:
        files |= deleted(4, (1, B0, 7), (2, B0, 1), (3, B0, 4))
    valid = "4:9223372036854775807::"
    root = put(tmp_path / "large", files)
    acid.adopt(CREATE.format("large", "hive4"), str(root), f"default.large:{valid}")
    acid.set(setting_definitions.UNSORTED_FILE_SIZE.name, str((len(small) + len(large)) // 2))
    acid.set(setting_definitions.SMALL_CHANGES.name, "0")
    before = read_table(root, f"default.large:{valid}")
    acid.table("large").compact("major")
    assert "the rows of 1 files are written as they are read" in caplog.text
    acid.clean()
    lists = acid.context.store.valid_write_ids(acid.context.store.valid_txns(), [acid.table("large").name])
    assert read_table(root, lists[acid.table("large").name].to_string()) == before
    require_in_order(acid, root)


def scanned(acid: AcidSession, name: str, part: int | None) -> tuple[StagingTarget, Any]:
    """Return what is written of a table without sorting, in a session that gives each file its own task."""
    context = acid.context
    env = context.env.session_with_task_per_file(part)
    assert env is not None
    table = context.require(acid.table(name).name)
    txn = context.transactions.begin(context.settings)
    write_ids = txn.valid_write_ids(table.name)
    (location,) = list_locations(context.fs, table, None, write_ids, txn.snapshot())
    found = read_footers(context, table, [location], txn)
    assert isinstance(location.state, AcidState)
    source = ScanSource(env, context.fs, table, write_ids, found.plans)
    frame = scan(source, [location], found.bounds, current=True)
    txn.commit()
    return StagingTarget(env, table, write_ids.high_watermark, {}, {"compression": "zlib"}), frame


def test_rows_in_order_are_neither_shuffled_nor_sorted(acid: AcidSession, tmp_path: Path) -> None:
    """One task a file, deletes broadcast; a large file may be cut, and its parts come together again in order."""
    data = acid_bytes(inserts(1, rows(0, 60_000)), COLUMNS, stripe_size=1 << 16)
    files = {
        f"{delta(1, 1, 0)}/{BUCKET_0}": data,
        f"{delta(2, 2, 0)}/{BUCKET_0}": file(inserts(2, rows(0, 9))),
    }
    root = put(tmp_path / "t", files | deleted(3, (1, B0, 7), (2, B0, 8)))
    acid.adopt(CREATE.format("t", "hive4"), str(root), "default.t:3:9223372036854775807::")
    before = acid.context.env.spark.conf.get("spark.sql.files.maxPartitionBytes")
    target, frame = scanned(acid, "t", None)
    wanted = events_in_read_order(target, frame)
    plan = wanted._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastExchange" in plan
    for word in ("Exchange hashpartitioning", "Exchange rangepartitioning", "Sort ", "Window"):
        assert word not in plan
    assert wanted.rdd.getNumPartitions() == 2
    directory = str(tmp_path / "staged")
    target, frame = scanned(acid, "t", len(data) // 4)
    reported = stage_in_read_order(target, frame, directory)
    staged = list_staged_files(acid.context.fs, directory, StagedKind.INSERTED, reported)
    assert len(staged) >= 3
    (done,) = splice_by_bucket(acid.context.fs, staged) or []
    with Path(done.path).open("rb") as opened:
        found = [(row[1], row[3]) for row in pyorc.Reader(opened)]
    expected = [(1, n) for n in range(60_000) if n != 7] + [(2, n) for n in range(8)]
    assert found == expected
    assert acid.context.env.spark.conf.get("spark.sql.files.maxPartitionBytes") == before
