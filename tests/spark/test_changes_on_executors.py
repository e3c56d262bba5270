"""UPDATE and DELETE whose rows tasks in Python on executors read: the same rows as by jobs, or jobs where they cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import InsertOnlyError
from hiveacid.spark.session import environment, python_workers
from hiveacid.table.arrow_read import row_tasks
from hiveacid.table.write import driver_reads, update_delete
from support.random_changes import random_statements

if TYPE_CHECKING:
    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of tasks of each statement whose rows executors have read."""
    numbers: list[int] = []
    run = driver_reads.run_in_workers

    def run_in_workers(env: Any, tasks: Sequence[Callable[[], object]]) -> list[object] | None:
        results = run(env, tasks)
        if results is not None and all(isinstance(result, list) for result in results):
            numbers.append(len(results))
        return results

    monkeypatch.setattr(driver_reads, "run_in_workers", run_in_workers)
    monkeypatch.setattr(row_tasks, "_MIN_PART", 1)
    return numbers


@pytest.fixture
def table(acid: AcidSession) -> AcidSession:
    """Return a connection whose statements are read by executors, with a table of a hundred rows."""
    acid.sql("SET hiveacid.changes.by = executors")
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), concat('v', id % 10) FROM range(0, 100, 1, 4)")
    return acid


def keys(acid: AcidSession) -> list[int]:
    return sorted(row[0] for row in acid.sql("SELECT k FROM t").collect())


@pytest.mark.sampled(4, "the cases differ in one value each")
@pytest.mark.parametrize(("level", "partitioned"), [("hive3", True), ("hive4", False)])
def test_random_statements_change_the_same_rows_as_jobs(
    acid: AcidSession, read: list[int], level: str, *, partitioned: bool
) -> None:
    random_statements(acid, level, "executors", partitioned=partitioned)
    assert max(read) > 1


def test_tasks_read_what_the_driver_would_change(table: AcidSession, read: list[int]) -> None:
    assert table.table("t").delete("k < 30 AND v <> 'v3'").deleted == 27
    assert table.table("t").update({"v": "concat(v, '!')"}, where="v = 'v3'").updated == 10
    assert (
        table.table("t").delete("v LIKE '%!' AND k < 50").deleted == 5
    )  # Spark judges what tasks have selected
    assert keys(table) == [k for k in range(30, 100) if k >= 50 or k % 10 != 3]
    assert len(read) == 3
    assert not [*table.table("t").inspect.check()]


def test_tasks_read_the_deleted_rows_of_buckets_and_jobs_update_them(
    table: AcidSession, read: list[int]
) -> None:
    """The driver cannot compute the bucket of an updated row, but a deleted one keeps its file's."""
    table.sql(f"CREATE TABLE b (k INT, v STRING) CLUSTERED BY (k) INTO 3 BUCKETS {ACID}")
    table.sql("INSERT INTO b SELECT k, v FROM t WHERE k < 60")
    table.sql("INSERT INTO b SELECT k, v FROM t WHERE k >= 60")
    assert table.table("b").delete("k % 4 = 1 OR v = 'v6'").deleted == 35
    (tasks,) = read
    assert tasks > 1
    kept = [k for k in range(100) if k % 4 != 1 and k % 10 != 6]
    assert table.table("b").update({"v": "'set'"}, where="k > 50 AND k < 70").updated == sum(
        50 < k < 70 for k in kept
    )
    assert table.table("b").delete("v = 'set' AND k <> 60").deleted == sum(50 < k < 70 for k in kept) - 1
    left = [k for k in kept if not 50 < k < 70 or k == 60]
    assert sorted(row[0] for row in table.sql("SELECT k FROM b").collect()) == left
    assert len(read) == 2  # no task read for the UPDATE
    table.table("b").compact("major")
    assert sorted(row[0] for row in table.sql("SELECT k FROM b").collect()) == left
    assert not [*table.table("b").inspect.check()]


def test_a_column_that_files_lack_originals_and_streamed_rows(table: AcidSession, read: list[int]) -> None:
    table.sql("CREATE TABLE flat (k INT, v STRING) STORED AS ORC")
    table.sql("INSERT INTO flat SELECT CAST(id AS INT), 'old' FROM range(200, 220, 1, 2)")
    table.sql("ALTER TABLE flat SET TBLPROPERTIES ('transactional'='true')")
    for name, column in (("flat", "a"), ("t", "a")):
        table.sql(f"ALTER TABLE {name} ADD COLUMNS ({column} DECIMAL(9,2))")
        table.sql(f"INSERT INTO {name} VALUES (300, 'new', 1.5)")
        changed = table.table(name).update({"v": "'set'"}, where="a IS NULL AND k IN (5, 205, 219, 300)")
        assert changed.updated == (1 if name == "t" else 2)
        assert table.table(name).delete("a = 1.5 OR v = 'set'").deleted == (2 if name == "t" else 3)
        assert not [*table.table(name).inspect.check()]
    assert len(read) == 4


@pytest.mark.parametrize("found", [[(None, None)], [("1.0", "0.0")]], ids=["no pyarrow", "another version"])
def test_executors_without_pyarrow_are_asked_once_and_jobs_change_the_rows(
    table: AcidSession,
    read: list[int],
    monkeypatch: pytest.MonkeyPatch,
    found: list[tuple[str | None, str | None]],
) -> None:
    asked: list[object] = []

    def ask(context: object) -> list[tuple[str | None, str | None]]:
        asked.append(context)
        return found

    monkeypatch.setattr(python_workers, "_ask", ask)
    for k in (1, 2):
        assert table.table("t").delete(f"k = {k}").deleted == 1
    assert (len(asked), read) == (1, [])


def test_a_job_does_what_tasks_refuse_or_fail_to_do(
    table: AcidSession, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = driver_reads.RowTask.of

    def failing(*given: Any) -> Any:
        return replace(made(*given), selection=None)  # which no reader takes

    def refusing(*given: Any) -> Any:
        task = made(*given)
        parts = tuple(replace(part, file=part.file._replace(path="/nowhere")) for part in task.parts)
        (files,) = task.snapshot.partitions
        rows = tuple(file._replace(path="/nowhere") for file in files.rows)
        return replace(
            task, parts=parts, snapshot=replace(task.snapshot, partitions=(replace(files, rows=rows),))
        )

    for k, of in ((1, failing), (2, refusing)):
        monkeypatch.setattr(driver_reads.RowTask, "of", of)
        assert table.table("t").delete(f"k = {k}").deleted == 1
        assert read == []
    assert keys(table) == [0, *range(3, 100)]


def test_no_job_repeats_what_a_user_has_cancelled(
    table: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = table.context.env.spark.sparkContext
    begun = Event()

    def run_in_workers(*_: object) -> None:
        begun.set()
        try:
            context.parallelize([1], 1).map(sleep_long).collect()
        finally:
            begun.clear()  # so that the next job, if there is any, would succeed
            user.join()

    def sleep_long(_: int) -> None:
        from time import sleep  # noqa: PLC0415 - the worker's

        sleep(60)

    def cancel() -> None:
        begun.wait(60)
        while begun.is_set():
            context.cancelAllJobs()
            sleep(0.1)

    monkeypatch.setattr(driver_reads, "run_in_workers", run_in_workers)
    user = Thread(target=cancel)
    user.start()
    with pytest.raises(Exception, match="cancelled"):
        table.table("t").delete("k = 1")
    assert keys(table) == [*range(100)]


def test_too_many_rows_are_a_job(
    table: AcidSession, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reads, "max_bytes_in_driver", lambda _: 4000)
    assert table.table("t").update({"v": "'many'"}, where="k < 60").updated == 60
    assert table.table("t").update({"v": "'all'"}).updated == 100
    assert len(read) == 1  # each task's rows were few enough, but not their sum; the second has no condition
    jobs: list[object] = []
    by_job = update_delete.ChangesByJob

    def noted(*given: Any, **more: Any) -> Any:
        jobs.append(given)
        return by_job(*given, **more)

    monkeypatch.setattr(update_delete, "ChangesByJob", noted)
    assert table.table("t").update({"v": "'few'"}, where="k < 6").updated == 6
    assert jobs == []
    assert table.table("t").update({"v": "'many'"}, where="k < 61").updated == 61
    assert len(jobs) == 1


def test_a_table_beyond_the_limit_of_the_driver_is_read_by_the_executors_of_a_cluster(
    table: AcidSession, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.sql("SET hiveacid.changes.by = auto")
    table.sql("SET hiveacid.small.changes.max.bytes = 1")
    assert table.table("t").delete("k = 1").deleted == 1  # the driver of a local master has all cores
    assert read == []
    monkeypatch.setattr(environment, "is_local_master", lambda _: False)
    vars(table.context.env).pop("local", None)
    assert table.table("t").delete("k = 2").deleted == 1
    assert len(read) == 1
    table.sql("SET hiveacid.small.changes.max.bytes = 0")
    assert table.table("t").delete("k = 3").deleted == 1
    assert len(read) == 1
    vars(table.context.env).pop("local", None)


def test_insert_only_tables_are_refused(table: AcidSession) -> None:
    table.sql(
        "CREATE TABLE i (k INT) STORED AS PARQUET TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    with pytest.raises(InsertOnlyError):
        table.sql("DELETE FROM i WHERE k = 1")
