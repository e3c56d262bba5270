"""Several partitions compacted at once by one statement: order, errors, Ctrl-C, whose transactions they are."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from hiveacid.cli.shell import StatementRunner
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import CommitStateUnknownError, CompactionError, StatementCancelledError
from hiveacid.spark.session import running_jobs_and_plans as beside
from hiveacid.spark.session.running_jobs_and_plans import run_in_parallel
from hiveacid.table.compaction import request_compaction
from hiveacid.transactions.heartbeats import owner_thread
from hiveacid.transactions.transaction import this_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid import AcidSession
    from hiveacid.core.compaction.queue_records import Compaction
    from hiveacid.core.model import TxnId
    from hiveacid.table.compaction.run_compaction import CompactionReport

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
PATIENCE = 120.0


def never_asked() -> None:
    pytest.fail("nobody asked for an end")


def press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def days(acid: AcidSession, count: int = 6) -> None:
    acid.sql(f"CREATE TABLE days (id INT, v STRING) PARTITIONED BY (day INT) {ACID}")
    for value in ("a", "b"):
        acid.sql(
            f"INSERT INTO days PARTITION (day) SELECT CAST(id AS INT), '{value}', CAST(id % {count} AS INT) FROM range(60)"
        )
    acid.sql("DELETE FROM days WHERE id IN (0, 7, 59)")


def rows(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in acid.sql("SELECT id, v, day, ROW__ID FROM days").collect())


@pytest.mark.exhaustive("another case of the same test stays", cases=("1]",))
@pytest.mark.parametrize("threads", [1, 3])
def test_all_partitions_are_compacted_and_reported_in_order(acid: AcidSession, threads: int) -> None:
    acid.set("hiveacid.compactor.threads", str(threads))
    days(acid)
    before = rows(acid)
    reports = acid.table("days").compact("major")
    assert [report.partition for report in reports] == [f"day={day}" for day in range(6)]
    assert {report.state for report in reports} == {"ready for cleaning"}
    assert all(report.written for report in reports)
    assert rows(acid) == before
    assert {one.state for one in acid.context.store.show_compactions()} == {"succeeded"}
    assert [report.state for report in acid.table("days").compact("major")] == ["refused"] * 6


@pytest.mark.exhaustive("speed only; the rows are compared by other tests")
def test_some_are_at_work_at_the_same_time(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two compactions wait for each other: one after the other they would wait in vain."""
    days(acid, 4)
    meeting = threading.Barrier(2, timeout=PATIENCE)
    run_job: Callable[..., CompactionReport] = request_compaction.run_job

    def met(*given: object) -> CompactionReport:
        meeting.wait()
        return run_job(*given)

    monkeypatch.setattr(request_compaction, "run_job", met)
    acid.set("hiveacid.compactor.threads", "2")
    assert len(acid.table("days").compact("major")) == 4


def test_one_that_fails_ends_it_and_is_raised(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    days(acid)
    run_job: Callable[..., CompactionReport] = request_compaction.run_job

    def failing(context: object, job: Compaction, *rest: object) -> CompactionReport:
        if job.request.partition == "day=1":
            raise CompactionError("this one does not work")
        return run_job(context, job, *rest)

    monkeypatch.setattr(request_compaction, "run_job", failing)
    acid.set("hiveacid.compactor.threads", "2")
    before = rows(acid)
    with pytest.raises(CompactionError, match="this one does not work"):
        acid.table("days").compact("major")
    assert rows(acid) == before
    done = {one.request.partition for one in acid.context.store.show_compactions() if one.state != "working"}
    assert "day=0" in done
    assert "day=5" not in done  # nothing more was begun


def test_threads_have_the_properties_of_the_one_that_waits(acid: AcidSession) -> None:
    context = acid.context.env.spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "compactions")
    try:
        meeting = threading.Barrier(2, timeout=PATIENCE)

        def look() -> tuple[str | None, int, int]:
            meeting.wait()
            return context.getLocalProperty("spark.scheduler.pool"), owner_thread(), threading.get_ident()

        found = run_in_parallel(acid.context.env, [look, look], 4, never_asked)
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    me = threading.get_ident()
    assert [(pool, who) for pool, who, _ in found] == [("compactions", me)] * 2
    assert len({me, *(own for _, _, own in found)}) == 3
    assert owner_thread() == me


def test_an_interrupted_statement_waits_for_its_threads_and_stops_them(acid: AcidSession) -> None:
    ended: list[int] = []
    stopping = threading.Event()
    meeting = threading.Barrier(2, timeout=PATIENCE)

    def work() -> None:
        if meeting.wait() == 0:
            press_ctrl_c()
        assert stopping.wait(PATIENCE)
        ended.append(threading.get_ident())

    with pytest.raises(KeyboardInterrupt):
        run_in_parallel(acid.context.env, [work] * 5, 2, stopping.set)
    assert len(ended) == 2  # those under way; the others were never begun


def test_interrupted_jobs_go_back_into_the_queue(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    days(acid)
    before = rows(acid)
    run_job: Callable[..., CompactionReport] = request_compaction.run_job

    def interrupting(
        context: object, job: Compaction, worker: str, interrupted: Callable[[], bool], *rest: object
    ) -> CompactionReport:
        if job.request.partition == "day=0":
            press_ctrl_c()
        until = time.monotonic() + PATIENCE
        while not interrupted():
            assert time.monotonic() < until
            time.sleep(0.01)
        acid.context.env.spark.sparkContext.setJobGroup("nothing", "is stopped by a name of its own")
        return run_job(context, job, worker, interrupted, *rest)

    monkeypatch.setattr(request_compaction, "run_job", interrupting)
    acid.set("hiveacid.compactor.threads", "2")
    with pytest.raises(KeyboardInterrupt):
        acid.table("days").compact("major")
    monkeypatch.undo()
    left = {one.request.partition: one.state for one in acid.context.store.show_compactions()}
    assert set(left) <= {"day=0", "day=1"}
    assert "working" not in left.values()
    store = acid.context.store
    assert not [
        one for one in store.show_compactions() if one.txn_id and store.txn_state(one.txn_id) == "open"
    ]
    assert rows(acid) == before
    acid.table("days").compact("major")
    assert rows(acid) == before
    now = acid.context.store.show_compactions()
    assert {one.state for one in now} <= {"succeeded", "refused"}
    ended = {partition for partition, state in left.items() if state != "initiated"}  # faster than Ctrl-C
    assert {one.request.partition for one in now if one.state == "refused"} <= ended


@pytest.mark.exhaustive("an interrupted statement and interrupted jobs stay")
def test_ctrl_c_in_the_shell_reaches_all_of_them(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transactions of a statement's threads are its own, and a thread that sleeps is woken."""
    days(acid, 4)
    before = rows(acid)
    begun = threading.Barrier(3, timeout=PATIENCE)
    own: list[TxnId] = []
    runner = StatementRunner(acid)

    def sleeping(context: object, job: Compaction, *rest: object) -> CompactionReport:
        del job, rest
        with acid.context.transactions.scope(acid.context.settings) as txn:
            own.append(txn.txn_id)
            begun.wait()
            acid.context.clock.sleep(PATIENCE)
        raise AssertionError(context)

    monkeypatch.setattr(request_compaction, "run_job", sleeping)
    acid.set("hiveacid.compactor.threads", "2")

    def press() -> None:
        begun.wait()
        press_ctrl_c()

    presser = threading.Thread(target=press)
    presser.start()
    started = time.monotonic()
    try:
        with pytest.raises(StatementCancelledError):
            runner.run(lambda: acid.table("days").compact("major"), lambda: None)
    finally:
        presser.join()
        runner.close()
    assert time.monotonic() - started < PATIENCE
    assert [acid.context.store.txn_state(txn_id) for txn_id in own] == ["aborted"] * 2
    assert rows(acid) == before


@pytest.mark.exhaustive("insert-only tables in Parquet stay in tests/sql")
def test_parquet_is_written_as_hive_reads_it_by_all_of_them(acid: AcidSession) -> None:
    """What makes Spark write decimals as Hive 3.1 reads them are settings of a session; the user's stays as it is."""
    acid.sql(
        "CREATE TABLE money (amount DECIMAL(9,2), tags ARRAY<STRING>) PARTITIONED BY (day INT) STORED AS PARQUET "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    for _ in range(2):
        acid.sql(
            "INSERT INTO money PARTITION (day) SELECT CAST(id AS DECIMAL(9,2)), array('a'), CAST(id % 8 AS INT) "
            "FROM range(64)"
        )
    reports = acid.table("money").compact("major")
    files = [file for report in reports for path in report.written for file in Path(path).glob("[0-9]*")]
    assert len(files) >= 8
    for file in files:
        shown = str(parquet.ParquetFile(file).schema)
        assert "fixed_len_byte_array" in shown
        assert "int32" not in shown
        assert "bag" in shown  # how the older lists are laid out
    assert acid.context.env.spark.conf.get("spark.sql.parquet.writeLegacyFormat") == "false"


def test_threads_that_cannot_begin_leave_their_work_to_the_one_that_waits(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stillborn(run: object, name: str) -> threading.Thread:
        del run
        return threading.Thread(target=lambda: None, name=name)

    monkeypatch.setattr(beside, "thread_with_job_properties", stillborn)
    assert run_in_parallel(acid.context.env, [lambda: 1, lambda: 2], 2, never_asked) == [1, 2]


def test_what_waits_for_a_lock_ends_with_the_statement(acid: AcidSession) -> None:
    """Ctrl-C comes to the main thread, while others wait for a lock that somebody else keeps."""
    days(acid, 3)
    store = acid.context.store
    (other,) = store.open_txns(this_client())
    store.lock(other, [LockComponent(LockType.EXCLUSIVE, "default", "days")])
    presser = threading.Timer(2.0, press_ctrl_c)
    presser.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        acid.table("days").compact("major")
    assert time.monotonic() - started < PATIENCE / 4  # a wait is as long as half a minute
    store.abort_txns([other], "enough")
    assert {one.state for one in store.show_compactions()} <= {"initiated"}
    assert len(acid.table("days").compact("major")) == 3


def test_a_cancelled_statement_is_not_called_gone_where_the_commit_is_unknown(acid: AcidSession) -> None:
    runner = StatementRunner(acid)

    def commit() -> None:
        press_ctrl_c()
        try:
            acid.context.clock.sleep(PATIENCE)
        except StatementCancelledError as error:
            raise CommitStateUnknownError("the answer was lost") from error

    try:
        with pytest.raises(CommitStateUnknownError):
            runner.run(commit, lambda: None)
    finally:
        runner.close()
