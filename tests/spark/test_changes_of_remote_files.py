"""UPDATE, DELETE and MERGE of files in S3 and HDFS: driver, executors and jobs change the same rows, and no text has a secret."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.storage.arrow_file_system import ArrowFileSystem
from hiveacid.storage.file_system_routing import OpenedBefore, bucket_and_key
from hiveacid.table.arrow_read import row_tasks
from hiveacid.table.arrow_read.record_batches import PartitionReader
from hiveacid.table.arrow_read.row_tasks import Refusal
from hiveacid.table.write import driver_reads, update_delete
from support.random_changes import random_statements
from support.servers.absent import skip_without
from support.servers.hdfs import WHY_NOT as NO_HDFS
from support.servers.hdfs import hdfs_server
from support.servers.object_store import S3Server, reached_by, s3_server, why_no_s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
BUCKETED = f"CLUSTERED BY (k) INTO 3 BUCKETS {ACID}"
STATEMENTS = (
    "UPDATE {t} SET v = concat(v, '!') WHERE k % 10 = 3",
    "DELETE FROM {t} WHERE k BETWEEN 40 AND 59",
    "DELETE FROM {t} WHERE v LIKE '%3!' AND k > 90",  # Spark judges what was selected
    "UPDATE {t} SET v = 'set' WHERE v = 'v7' AND p = 1",
    (
        "MERGE INTO {t} t USING (SELECT CAST(id AS INT) k FROM range(70, 130)) s ON t.k = s.k "
        "WHEN MATCHED AND t.k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new', 5)"
    ),
)
SECRET = "not-a-secret"  # noqa: S105 - of the tests' server


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[S3Server]:
    skip_without(why_no_s3a())
    with s3_server() as server, reached_by(spark, server):
        yield server


@pytest.fixture
def lake(spark: SparkSession, s3: S3Server, tmp_path: Path) -> Iterator[AcidSession]:
    """Return a connection to a warehouse in a bucket of its own."""
    bucket = s3.make_bucket(f"lake-{abs(hash(tmp_path))}")
    connection = hiveacid.connect(spark, warehouse=f"{bucket}/wh", store=f"sqlite:///{tmp_path}/store.db")
    yield connection
    connection.context.env.executor_python.without_access.clear()
    connection.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return a list that gets the tasks and results of each statement whose rows executors were asked for."""
    found: list[tuple[Any, Any]] = []
    run = driver_reads.run_in_workers

    def run_in_workers(env: Any, tasks: Sequence[Any]) -> Any:
        found.append((tasks, run(env, tasks)))
        return found[-1][1]

    monkeypatch.setattr(driver_reads, "run_in_workers", run_in_workers)
    monkeypatch.setattr(row_tasks, "_MIN_PART", 1)
    return found


def make(
    acid: AcidSession, name: str, layout: str = f"PARTITIONED BY (p INT) {ACID}", partitions: int = 3
) -> None:
    columns = "(k INT, v STRING)" if "PARTITIONED" in layout else "(k INT, v STRING, p INT)"
    acid.sql(f"CREATE TABLE {name} {columns} {layout}")
    for first in (0, 50):
        acid.sql(
            f"INSERT INTO {name} SELECT CAST(id AS INT), concat('v', id % 10), CAST(id % {partitions} AS INT) "
            f"FROM range({first}, {first + 50}, 1, 2)"
        )


def results(acid: AcidSession, by: str, layout: str = f"PARTITIONED BY (p INT) {ACID}") -> list[Any]:
    """Run the statements in one way on a table of its own; return their counts and the rows that they left."""
    name = f"by_{by}"
    make(acid, name, layout)
    acid.sql(f"SET hiveacid.changes.by = {by}")
    counts = [tuple(acid.sql(text.replace("{t}", name)).collect()[0]) for text in STATEMENTS]
    left = sorted(tuple(row) for row in acid.sql(f"SELECT k, v, p FROM {name}").collect())
    assert not [*acid.table(name).inspect.check()]
    acid.sql(f"DROP TABLE {name}")
    return [counts, left]


def test_driver_executors_and_jobs_change_the_same_rows_in_s3(
    lake: AcidSession, sent: list[tuple[Any, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    by_job = results(lake, "job")
    assert sent == []
    assert results(lake, "driver") == by_job
    assert sent == []
    assert results(lake, "executors") == by_job
    assert len(sent) == 4  # MERGE has no tasks
    for tasks, found in sent:
        assert len(tasks) == len(found) > 1
        assert all(isinstance(one, list) for one in found)
        assert SECRET not in f"{tasks!r} {found!r} {lake.context.fs!r}"
        assert SECRET.encode() in pickle.dumps(tasks[0])  # with which the worker opens the bucket
    assert SECRET not in caplog.text
    make(lake, "explained")
    lake.sql("SET hiveacid.changes.by = executors")
    assert SECRET not in str(lake.sql("EXPLAIN EXTENDED DELETE FROM explained WHERE k = 1").collect())


@pytest.mark.exhaustive("spark/test_changes_on_executors.py has buckets on local disks")
@pytest.mark.parametrize("by", ["driver", "executors"])
def test_bucketed_tables_in_s3(lake: AcidSession, sent: list[tuple[Any, Any]], by: str) -> None:
    assert results(lake, by, BUCKETED) == results(lake, "job", BUCKETED)
    assert [isinstance(found[0], list) for _, found in sent] == [True] * (2 if by == "executors" else 0)


def test_the_driver_reads_many_partitions_at_the_same_time(
    lake: AcidSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.counted()
    make(lake, "many", partitions=6)
    paths = {path for _, path, _ in s3.requests if "/delta_" in path and "/bucket_" in path}
    assert len(paths) == 12
    monkeypatch.setattr(update_delete, "ChangesByJob", lambda *_, **__: pytest.fail("a job would run"))
    both, order, met = Barrier(2, timeout=60), count(), set[str]()
    read = PartitionReader.batches_of_stripes

    def meeting(reader: PartitionReader) -> Any:
        met.add(str(reader.files.values))
        if next(order) < 2:
            both.wait()
        return read(reader)

    monkeypatch.setattr(PartitionReader, "batches_of_stripes", meeting)
    s3.counted()
    assert lake.table("many").update({"v": "'set'"}, where="k % 20 = 3").updated == 5
    assert len(met) == 6
    assert s3.counted(ours=True)["GET"] < 100
    assert lake.table("many").delete("v = 'set' OR k < 10").deleted == 14
    left = sorted(row[0] for row in lake.sql("SELECT k FROM many").collect())
    assert left == [k for k in range(10, 100) if k % 20 != 3]
    # rows beyond the budget, which all threads share
    monkeypatch.setattr(driver_reads, "_MAX_ROWS", 20)
    with pytest.raises(pytest.fail.Exception, match="a job would run"):
        lake.table("many").delete("k < 60")
    assert len(lake.sql("SELECT k FROM many").collect()) == len(left)


@pytest.mark.exhaustive("the statements above stay")
@pytest.mark.parametrize("by", ["driver", "executors"])
def test_random_statements_change_the_same_rows_as_jobs(
    lake: AcidSession, sent: list[tuple[Any, Any]], by: str
) -> None:
    random_statements(lake, "hive4", by, partitioned=True)
    assert (len(sent) > 0) is (by == "executors")


def test_executors_without_access_are_asked_once_and_jobs_change_the_rows(
    lake: AcidSession,
    sent: list[tuple[Any, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from pyarrow import fs  # noqa: PLC0415

    make(lake, "t")
    of = OpenedBefore.of

    def without(given: Any, paths: Any) -> OpenedBefore | None:
        found = of(given, paths)
        refused: Mapping[Any, Any] = {
            place: ArrowFileSystem(
                fs.S3FileSystem(
                    access_key="access",
                    secret_key=SECRET,
                    endpoint_override="127.0.0.1:1",
                    scheme="http",
                    region="us-east-1",
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
                ),
                bucket_and_key,
            )
            for place in (found.opened if found else ())
        }
        return OpenedBefore(refused)

    monkeypatch.setattr(OpenedBefore, "of", without)
    lake.sql("SET hiveacid.changes.by = executors")
    caplog.set_level(logging.DEBUG)
    for k in (1, 2):
        assert lake.table("t").delete(f"k = {k}").deleted == 1
    ((tasks, found),) = sent
    assert all(isinstance(one, Refusal) and one.no_access for one in found)
    assert "Python on executors gets no access" in caplog.text
    assert SECRET not in f"{tasks!r} {found!r} {caplog.text}"
    assert lake.table("t").count() == 98


def test_files_in_hdfs_are_read_by_the_driver_or_by_jobs(
    spark: SparkSession, sent: list[tuple[Any, Any]], tmp_path: Path
) -> None:
    skip_without(NO_HDFS)
    with hdfs_server(tmp_path / "hdfs") as hdfs:
        acid = hiveacid.connect(spark, warehouse=f"{hdfs.uri}/wh", store=f"sqlite:///{tmp_path}/store.db")
        by_job = results(acid, "job")
        assert results(acid, "driver") == by_job
        assert results(acid, "executors") == by_job
        assert sent == []
        acid.close()
