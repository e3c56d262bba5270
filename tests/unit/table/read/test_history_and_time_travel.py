"""History and snapshots as rows, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, WriteId
from hiveacid.core.transactions.commit_records import (
    CommitRecord,
    OperationSummary,
    TableOperation,
    last_committed,
    merge_summaries,
    write_ids_before,
)
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.transactions import Operation
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.read.history_and_time_travel import (
    HISTORY,
    Instant,
    format_times,
    history_rows,
    snapshot_rows,
)
from hiveacid.table.read.inventory import StandaloneAccess
from support.clock import ManualClock
from support.memory_store.store import MemoryStore
from support.samples import CLIENT, ORC, ORDERS, database, wrote

if TYPE_CHECKING:
    from pathlib import Path

START = 1_700_000_000_000


class Metastore(MemoryStore):
    """A store that keeps no commits, as a Hive Metastore."""

    def commits(self, table: object, after: int | None = None) -> NoReturn:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        raise UnsupportedFeatureError(f"{table} {after}")


def shelf_of(store: MemoryStore, directory: Path) -> tuple[StandaloneAccess, TableDefinition]:
    """Return a table of three commits of which the second was the last, with files of write ids 1 to 3."""
    table = TableDefinition(ORDERS, (), ORC, str(directory), properties=(("transactional", "true"),))
    store.create_database(database())
    store.create_table(table)
    txns = store.open_txns(CLIENT, 4)
    store.allocate_write_ids(txns, ORDERS)
    for place, number in enumerate((0, 2, 1)):
        operations = [TableOperation(ORDERS, OperationSummary("INSERT", f"statement {number}", 10 + number))]
        store._clock.advance(1)  # type: ignore[attr-defined]
        store.commit_txn(txns[number], written=[wrote(ORDERS, Operation.INSERT)], operations=operations)
        (directory / f"delta_{place + 1:07d}_{place + 1:07d}_0000").mkdir()
        (directory / f"delta_{place + 1:07d}_{place + 1:07d}_0000" / "bucket_00000").write_bytes(b"xyz")
    store.abort_txns([txns[3]], "no")
    return StandaloneAccess(LocalFileSystem(), store, store), table


def test_history_and_snapshots_are_told_newest_first(tmp_path: Path) -> None:
    """In the order of commits, not of write ids."""
    shelf, table = shelf_of(MemoryStore(clock=ManualClock(START)), tmp_path)
    names = [column.split()[0] for column in HISTORY.split(", ")]
    rows = [dict(zip(names, row, strict=True)) for row in history_rows(shelf, table, None)]
    assert [(row["write_id"], row["operation"], row["inserted"]) for row in rows] == [
        (2, "INSERT", 11), (3, "INSERT", 12), (1, "INSERT", 10), (0, "CREATE TABLE", None),
    ]  # fmt: skip
    assert rows[0]["committed_at"] == datetime.fromtimestamp(START / 1000 + 3, UTC)
    assert format_times(history_rows(shelf, table, None)[0])[1] == "2023-11-14 22:13:23.000+00:00"
    points = snapshot_rows(shelf, table)
    assert [(point[0], point[4]) for point in points] == [(3, True), (3, True), (1, True), (0, True)]
    assert str(points[1][3]).endswith(":4:2:2:4")
    kept = table.with_properties({"hiveacid.history.from": "3"})
    assert [point[4] for point in snapshot_rows(shelf, kept)] == [True, False, False, False]


def test_where_no_commits_are_kept_directories_tell(tmp_path: Path) -> None:
    """As on a metastore: write ids, files and bytes; the rest is NULL."""
    shelf, table = shelf_of(Metastore(clock=ManualClock(START)), tmp_path)
    rows = history_rows(shelf, table, None)
    assert [(row[0], row[11], row[12]) for row in rows] == [(3, 1, 3), (2, 1, 3), (1, 1, 3)]
    assert {one for row in rows for one in (*row[1:11], row[13])} == {None}


def test_where_no_commits_are_kept_compactions_and_overwrites_are_told(tmp_path: Path) -> None:
    """INSERT OVERWRITE has a directory of its own; the bases of compactions, of Hive 3 and 4, are no commits."""
    store = Metastore(clock=ManualClock(START))
    shelf, table = shelf_of(store, tmp_path)
    for name, marker in (("base_0000003", ""), ("base_0000002", "compacted"), ("base_0000003_v0000009", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"12345")
        if marker:
            (tmp_path / name / "_metadata_acid").write_text(
                f'{{"thisFileVersion": "0", "dataFormat": "{marker}"}}', encoding="utf-8"
            )
    request = CompactionRequest(ORDERS, None, "major")
    jobs = [
        Compaction(1, request, "succeeded", "w", ended=START, high_watermark=WriteId(2)),  # as of Hive 3
        Compaction(2, request, "ready for cleaning", commit_time=START + 5, high_watermark=WriteId(3)),
        Compaction(3, request, "failed", ended=START, high_watermark=WriteId(3)),
    ]
    store.show_compactions = lambda: tuple(jobs)  # type: ignore[method-assign]
    rows = history_rows(shelf, table, None)
    assert [(row[0], row[2], row[11], row[12]) for row in rows] == [
        (None, "COMPACT MAJOR", None, None), (3, None, 2, 8), (None, "COMPACT MAJOR", None, None),
        (2, None, 1, 3), (1, None, 1, 3),
    ]  # fmt: skip
    assert [row[1] for row in rows if row[0] is None] == [
        datetime.fromtimestamp(START / 1000 + 0.005, UTC),
        datetime.fromtimestamp(START / 1000, UTC),
    ]


def test_commits_of_one_millisecond_are_one_point(tmp_path: Path) -> None:
    """A moment has both of them or neither."""
    store = MemoryStore(clock=ManualClock(START))
    shelf, table = shelf_of(store, tmp_path)
    txns = store.open_txns(CLIENT, 2)
    store.allocate_write_ids(txns, ORDERS)
    for txn_id in txns:
        store.commit_txn(txn_id, written=[wrote(ORDERS, Operation.INSERT)])
    # the last two came in the millisecond of the third, which committed write id 2
    assert [point[0] for point in snapshot_rows(shelf, table)] == [6, 3, 1, 0]
    assert len(history_rows(shelf, table, None)) == 6


def test_a_moment_has_aborted_and_open_ids_of_its_own() -> None:
    """What is open at the top lies above the high watermark; aborted ids stay."""
    present = ValidWriteIdList(ORDERS, WriteId(7), (WriteId(6),), (WriteId(2), WriteId(5)))
    found = write_ids_before(present, [])
    assert (found.high_watermark, found.open, found.aborted) == (7, (6,), (2, 5))
    found = write_ids_before(
        present, [CommitRecord(WriteId(7), 1), CommitRecord(WriteId(3), 2), CommitRecord(WriteId(9), 3)]
    )
    assert (found.high_watermark, found.open, found.aborted) == (5, (3,), (2, 5))
    assert [found.is_valid(one) for one in range(1, 8)] == [True, False, False, True, False, False, False]
    assert (last_committed(found), last_committed(write_ids_before(present, []))) == (4, 7)
    assert last_committed(ValidWriteIdList(ORDERS, WriteId(1), (), (WriteId(1),))) == 0


def test_statements_of_one_transaction_are_one_deed() -> None:
    """Numbers add up where both are known."""
    one, other = (
        OperationSummary("INSERT", "a", 1, 0, 0, 2, 10),
        OperationSummary("DELETE", None, 0, 0, 3, 1, 5),
    )
    assert merge_summaries(one, other) == OperationSummary("INSERT, DELETE", "a", 1, 0, 3, 3, 15)
    assert merge_summaries(merge_summaries(one, one), other).operation == "INSERT, DELETE"
    assert merge_summaries(one, OperationSummary("STREAM")) == OperationSummary("INSERT, STREAM", "a")
    assert OperationSummary.of_text(one.to_text()) == one
    assert OperationSummary.of_text('{"operation": "X", "later": 1}') == OperationSummary("X")
    assert OperationSummary.of_text(None) == OperationSummary()


def test_a_moment_beyond_pythons_years_has_a_text() -> None:
    assert str(Instant(0)) == "1970-01-01 00:00:00.000+00:00"
    assert str(Instant(-2_537_839_000_000_000)) == "-2537839000000.0 seconds since 1970"
