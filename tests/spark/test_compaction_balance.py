"""Compactions that lose rows or delete events on the way: nothing is published (issue 20, point 1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import StorageError
from hiveacid.spark.write import write_tasks
from hiveacid.spark.write.staged_files import TaskReport
from hiveacid.table.compaction import write_compacted_files as compaction_write
from support.corpus.altered_files import Altered

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid import AcidSession
    from hiveacid.storage.snapshot_locations import Location
    from hiveacid.table.compaction.write_compacted_files import CompactionJob


@pytest.fixture
def table(acid: AcidSession) -> AcidSession:
    """Make a table of two buckets, with delete events for both in two directories, which jobs compact."""
    acid.sql(
        "CREATE TABLE t (id INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO t SELECT CAST(id AS INT) FROM range(10)")
    acid.sql("INSERT INTO t SELECT CAST(id AS INT) FROM range(10, 20)")
    acid.sql("DELETE FROM t WHERE id < 4")
    acid.sql("DELETE FROM t WHERE id IN (7, 8)")
    acid.sql("SET hiveacid.small.changes.max.bytes = 0")
    return acid


def without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark's tasks report nothing."""
    monkeypatch.setattr(
        write_tasks, "_report_of_plan", lambda directory, _: TaskReport((directory,), None, None)
    )


def losing(events: bool) -> Callable[[list[Path]], object]:  # noqa: FBT001 - a parameter of the tests
    """Return what removes one of the staged files of rows, or of delete events."""

    def change(files: list[Path]) -> None:
        some = [file for file in files if ("delete_delta_" in str(file)) == events]
        if len(some) > 1:
            some[0].unlink()

    return change


def require_nothing_published(acid: AcidSession, kind: str, message: str) -> None:
    """Compact; require the error, and the table as it was."""
    root = Path(acid.table("t").definition.location)
    before = sorted(root.rglob("*"))
    with pytest.raises(StorageError, match=message):
        acid.table("t").compact(kind)
    assert sorted(root.rglob("*")) == before
    assert [job.state for job in acid.context.store.show_compactions()] == ["failed"]
    assert acid.sql("SELECT * FROM t").count() == 14


@pytest.mark.exhaustive("another case of the same test stays", cases=("False",))
@pytest.mark.parametrize(
    ("kind", "events", "message"),
    [
        ("major", False, "20 rows and 6 delete events to apply were read, .* written, and a query finds 14"),
        ("minor", False, "20 rows and 0 delete events to apply were read, .* written, and a query finds 20"),
        ("minor", True, "6 delete events were read, [1-5] were written, and a query finds 6"),
    ],
)
@pytest.mark.parametrize("reports", [True, False])
def test_staged_files_that_are_lost_fail_the_compaction(
    table: AcidSession,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    events: bool,  # noqa: FBT001 - a parameter of the test
    message: str,
    reports: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if not reports:
        without_reports(monkeypatch)
    fs = table.context.fs
    table.context = replace(table.context, fs=Altered(fs, losing(events)))  # type: ignore[assignment]
    found = "the tasks wrote 2 files into .*, but the driver finds 1" if reports else message
    require_nothing_published(table, kind, found)
    table.context = replace(table.context, fs=fs)
    (report,) = table.table("t").compact(kind)
    assert (report.after.rows, report.after.deletes) == ((14, 0) if kind == "major" else (20, 6))
    assert table.sql("SELECT * FROM t").count() == 14


@pytest.mark.exhaustive("another case of the same test stays", cases=("1]",))
@pytest.mark.parametrize("applied", [0, 1])
def test_delete_events_that_are_not_applied_fail_the_compaction(
    table: AcidSession, monkeypatch: pytest.MonkeyPatch, applied: int
) -> None:
    """All that was read is written and reported, but of two directories of events one or none was read."""
    real = compaction_write._stage_by_shuffle

    def partly(job: CompactionJob, location: Location, directory: str) -> Any:
        state = replace(location.state, delete_deltas=location.state.delete_deltas[:applied])
        return real(job, replace(location, state=state), directory)

    monkeypatch.setattr(compaction_write, "_stage_by_shuffle", partly)
    message = f"20 rows and 6 delete events to apply were read, {20 - 4 * applied} rows .* a query finds 14"
    require_nothing_published(table, "major", message)


def test_a_row_that_was_deleted_twice_is_no_loss(table: AcidSession) -> None:
    """Two writers that do not see each other's changes (Trino's UPDATE of partitions) may delete the same row."""
    root = Path(table.table("t").definition.location)
    (first, _) = sorted(root.glob("delete_delta_*"))
    table.sql("INSERT INTO t VALUES (99)")
    (delta,) = root.glob("delta_0000005_*")
    for file in [*delta.iterdir()]:
        file.unlink()
    for file in first.iterdir():
        (root / delta.name.replace("delta_", "delete_delta_", 1)).mkdir(exist_ok=True)
        (root / delta.name.replace("delta_", "delete_delta_", 1) / file.name).write_bytes(file.read_bytes())
    delta.rmdir()
    (report,) = table.table("t").compact("major")
    assert (report.before.deletes, report.after.rows) == (10, 14)
