"""A warehouse on ``s3a://``, a store that renames nothing: statements, their requests, deaths and races; and on HDFS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.orc
import pytest

from hiveacid.errors import CompactionRefusedError, ConfigError, UnsupportedFeatureError, WriteConflictError
from hiveacid.spark.session.file_systems import PartCopier
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.corpus.acid_files import orc_bytes
from support.crash.faults import Faults, Moment, Point, SimulatedCrash, crash, faulty
from support.crash.late_sessions import heartbeats_end_nothing
from support.exhaustive import COUNT, STRESS, sample
from support.samples import INCOMPRESSIBLE
from support.servers.absent import skip_without
from support.servers.hdfs import WHY_NOT as NO_HDFS
from support.servers.hdfs import hdfs_server
from support.servers.object_store import S3Server, reached_by, s3_server, why_no_s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

FULL = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
CHANGING = (
    "write_pieces",
    "write_bytes",
    "replace_tail",
    "make_directory",
    "move_file",
    "copy_file",
    "finish_file",
)
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[S3Server]:
    skip_without(why_no_s3a())
    with s3_server() as server, reached_by(spark, server):
        yield server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('object_store')}/store.db"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, s3: S3Server, store: str) -> Iterator[AcidSession]:
    """Return a connection to a warehouse in a bucket of its own."""
    import hiveacid  # noqa: PLC0415

    bucket = s3.make_bucket(f"lake-{s3.endpoint.rpartition(':')[2]}")
    connection = hiveacid.connect(spark, warehouse=f"{bucket}/wh", store=store)
    yield connection
    connection.close()


def rows(acid: AcidSession, name: str) -> Rows:
    return sorted(tuple(row) for row in acid.sql(f"SELECT * FROM {name}").collect())


def files(acid: AcidSession, name: str) -> list[str]:
    location = acid.table(name).definition.location
    return [entry.path for entry in acid.context.fs.list_tree(location) if not entry.is_dir]


def test_every_statement_works_and_asks_a_bounded_number_of_times(lake: AcidSession, s3: S3Server) -> None:
    def run(text: str, most: int) -> None:
        s3.counted()
        lake.sql(text).collect()
        made = s3.counted()
        assert made.total() <= most, (text, made)

    lake.sql(f"CREATE TABLE t (a INT, b STRING) {FULL}")
    run("INSERT INTO t VALUES (1, 'x'), (2, 'y')", 100)
    run("INSERT INTO t VALUES (3, 'z')", 100)
    run("UPDATE t SET b = 'q' WHERE a = 2", 180)
    run("DELETE FROM t WHERE a = 1", 180)
    assert rows(lake, "t") == [(2, "q"), (3, "z")]
    run("SELECT * FROM t", 80)
    names = [path for path in files(lake, "t") if not path.startswith(("delta", "delete_delta"))]
    assert names == []
    for kind, most in (("minor", 340), ("major", 180)):
        run(f"ALTER TABLE t COMPACT '{kind}' AND WAIT", most)
        assert rows(lake, "t") == [(2, "q"), (3, "z")]
    lake.clean()
    assert [path.split("_v")[0] for path in files(lake, "t")] == ["base_0000004"] * 2
    run("INSERT OVERWRITE TABLE t SELECT 7, 'seven'", 110)
    lake.sql("MERGE INTO t USING (SELECT 7 AS k UNION ALL SELECT 8) s ON t.a = s.k "
             "WHEN MATCHED THEN UPDATE SET b = 'old' WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new')")  # fmt: skip
    assert rows(lake, "t") == [(7, "old"), (8, "new")]
    lake.sql("DROP TABLE t")
    assert lake.context.fs.list_tree(f"{lake.context.warehouse}") == ()


@pytest.mark.exhaustive("speed only; every statement on S3 stays")
def test_a_plan_asks_the_object_store_for_nothing(
    lake: AcidSession, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without records of commits, for one listing of each partition, and once for each footer."""
    lake.sql(f"CREATE TABLE p (a BIGINT) PARTITIONED BY (d STRING) {INSERT_ONLY}")
    for _ in range(2):
        lake.sql("INSERT INTO p PARTITION (d) SELECT id, concat('d ', id % 3) FROM range(9)")
    expected = sorted([(n, f"d {n % 3}") for n in range(9)] * 2)
    s3.counted()
    lake.table("p").scan().to_df()
    assert s3.counted(ours=True).total() == 0
    with monkeypatch.context() as later:
        lake.set("hiveacid.read.file.records", "false")
        # times of whole seconds identify a file once nobody can replace it within the same second
        clock = ManualClock(lake.context.clock.now() + 10_000)
        later.setattr(lake, "context", replace(lake.context, clock=clock))
        assert rows(lake, "p") == expected
        s3.counted()
        lake.table("p").scan().to_df()
        again = s3.counted(ours=True)
    assert again["GET"] <= 3, again  # one listing a partition; what the files' tails say is remembered
    assert again["HEAD"] == 0, again
    lake.set("hiveacid.read.file.records", "true")
    lake.table("p").compact("major", {"d": "d 1"})
    lake.clean()
    assert rows(lake, "p") == expected
    inside = {path.split("/")[1].split("_")[0] for path in files(lake, "p") if path.startswith("d=d 1")}
    assert inside == {"base"}
    lake.sql("DROP TABLE p")


def test_a_large_file_gets_its_footer_inside_the_store(lake: AcidSession, s3: S3Server) -> None:
    lake.sql(f"CREATE TABLE big (a BIGINT, b STRING) {FULL}")
    wide = lake.context.env.spark.range(0, 200_000, 1, 1).selectExpr("id AS a", f"{INCOMPRESSIBLE} AS b")
    s3.uploads.clear()
    lake.table("big").insert(wide)
    (written,) = [path for path in files(lake, "big") if path.endswith("bucket_00000")]
    sent = [(length, by_spark) for path, length, by_spark in s3.uploads if path.endswith(written)]
    assert all(length < 100_000 for length, _ in sent), sent  # the tail, and the list of parts
    ours = sum(length for _, length, by_spark in s3.uploads if not by_spark)
    assert ours < 10_000
    assert sum(length for _, length, _ in s3.uploads) > 12_000_000  # Spark's task wrote the rows
    found = lake.sql("SELECT count(*), count(DISTINCT ROW__ID), sum(a), max(b) FROM big").collect()
    expected = wide.selectExpr("count(*)", "count(*)", "sum(a)", "max(b)").collect()
    assert [tuple(row) for row in found] == [tuple(row) for row in expected]
    lake.sql("DROP TABLE big")


def test_a_copy_of_parts_that_fails_leaves_no_upload(
    lake: AcidSession, s3: S3Server, spark: SparkSession
) -> None:
    jvm, session = spark._jvm, spark._jsparkSession
    copier = PartCopier(jvm, session.sessionState().newHadoopConf())
    s3.counted()
    assert not copier(f"{lake.context.warehouse}/none", f"{lake.context.warehouse}/new", 6 << 20, b"end")
    assert not lake.context.fs.exists(f"{lake.context.warehouse}/new")
    assert s3.counted()["DELETE"] == 1


@pytest.mark.exhaustive("the same files in a local warehouse stay")
def test_files_come_from_elsewhere_and_stay_originals(lake: AcidSession, tmp_path: Path) -> None:
    fs, incoming = lake.context.fs, lake.context.warehouse.rpartition("/")[0] + "/incoming"
    (tmp_path / "f").write_bytes(orc_bytes([(1, "here")], "struct<a:int,b:string>"))
    fs.write_bytes(f"{incoming}/g", orc_bytes([(2, "there")], "struct<a:int,b:string>"))
    lake.sql(f"CREATE TABLE l (a INT, b STRING) {FULL}")
    lake.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/f' INTO TABLE l")
    lake.sql(f"LOAD DATA INPATH '{incoming}/g' INTO TABLE l")
    assert (tmp_path / "f").exists()
    assert not fs.exists(f"{incoming}/g")
    lake.sql("UPDATE l SET b = 'changed' WHERE a = 2")
    assert rows(lake, "l") == [(1, "here"), (2, "changed")]
    root = f"{lake.context.warehouse}/c"
    lake.sql("CREATE TABLE c (a INT, b STRING) STORED AS ORC")
    fs.write_bytes(f"{root}/000000_0", orc_bytes([(1, "original")], "struct<a:int,b:string>"))
    lake.sql("ALTER TABLE c SET TBLPROPERTIES ('transactional'='true')")
    lake.sql("DELETE FROM c WHERE a = 0")
    lake.sql("INSERT INTO c VALUES (2, 'new')")
    assert rows(lake, "c") == [(1, "original"), (2, "new")]
    for name in ("l", "c"):
        lake.table(name).compact("major")
        lake.sql(f"DROP TABLE {name}")


def test_what_a_store_without_renaming_cannot_do_is_refused(spark: SparkSession, lake: AcidSession) -> None:
    import hiveacid  # noqa: PLC0415

    with pytest.raises(ConfigError, match="needs store="):
        hiveacid.connect(spark, warehouse=lake.context.warehouse)
    lake.sql(f"CREATE TABLE r (a INT) {FULL[:-1]}, 'hiveacid.layout.level'='hive3')")
    for value in (1, 2):
        lake.sql(f"INSERT INTO r VALUES ({value})")
    with pytest.raises(UnsupportedFeatureError, match="renames directories in one step"):
        lake.table("r").compact("major")
    assert rows(lake, "r") == [(1,), (2,)]
    lake.sql("DROP TABLE r")


def released(acid: AcidSession) -> None:
    """Let go of the snapshots that earlier frames held: else a compaction leaves its cleaning to another one."""
    until = time.monotonic() + 60
    while acid.context.read_leases.sweep():  # the JVM collects its garbage when it likes
        assert time.monotonic() < until, "a snapshot is held that nobody uses"
        release_unused_plans(acid.context.env, acid.context.read_leases.sweep)


def compacted(kind: str, acid: AcidSession, name: str) -> None:
    """Compact and clean, as often as it takes: a frame of the job itself may keep the first turn from cleaning."""
    acid.sql(f"ALTER TABLE {name} COMPACT '{kind}' AND WAIT")
    released(acid)
    acid.clean()


def stated(text: str, acid: AcidSession, name: str) -> None:
    acid.sql(text.format(name, name))


DYING: dict[str, tuple[Callable[[AcidSession, str], None], Callable[[Rows], Rows]]] = {
    "insert": (
        partial(stated, "INSERT INTO {} VALUES (10, 'new'), (11, 'new')"),
        lambda old: [*old, (10, "new"), (11, "new")],
    ),
    "update": (
        partial(stated, "UPDATE {} SET b = concat(b, '+')"),
        lambda old: [(a, f"{b}+") for a, b in old],
    ),
    "overwrite": (
        partial(stated, "INSERT OVERWRITE TABLE {} SELECT a, upper(b) FROM {}"),
        lambda old: [(a, str(b).upper()) for a, b in old],
    ),
    "minor": (partial(compacted, "minor"), lambda old: old),
    "major": (partial(compacted, "major"), lambda old: old),
}


@pytest.mark.exhaustive("another case of the same test stays", cases=("minor",))
@pytest.mark.exhaustive(
    "deaths in INSERT stay; crash/test_crash.py lets other statements and compactions die",
    cases=("major", "overwrite", "update"),
)
@pytest.mark.parametrize("statement", DYING)
def test_a_driver_that_dies_at_any_step_leaves_no_partial_row(
    lake: AcidSession, store: str, statement: str
) -> None:
    """It dies before each call that changes the store, and before and after the commit.

    A statement that is no compaction dies before every second one; in ``make stress`` before each of them.
    In `make test` a statement dies before three of these calls, drawn by the seed, and at the commits.
    """
    late = SqlStore(store, clock=ManualClock(lake.context.clock.now() - 3_600_000))
    name = f"d_{statement}"
    lake.sql(f"CREATE TABLE {name} (a INT, b STRING) {FULL}")
    for value in (1, 2):
        lake.sql(f"INSERT INTO {name} VALUES ({value}, 'x{value}')")
    with heartbeats_end_nothing():
        _die_at_every_step(lake, late, name, statement)
    late.close()
    lake.sql(f"DROP TABLE {name}")


def _die_at_every_step(lake: AcidSession, late: SqlStore, name: str, statement: str) -> None:
    carry_out, result = DYING[statement]
    compacts = statement in ("minor", "major")
    expected: Rows = [(1, "x1"), (2, "x2")]
    alive = Faults()
    released(lake)
    carry_out(faulty(lake, alive, late), name)
    expected = result(expected)
    assert rows(lake, name) == expected
    calls = [
        call
        for call in alive.calls
        if call.partition(".")[2] in (*CHANGING, "delete_tree", "delete_listed", "commit_txn")
    ]
    points = [Point(call, calls[:n].count(call) + 1, Moment.BEFORE) for n, call in enumerate(calls)]
    commits = [point for point in points if point.verb == "store.commit_txn"]
    if not compacts and not STRESS:
        # Not of a compaction: each death leaves directories to the cleaning in which later ones happen.
        second = points[list(DYING).index(statement) % 2 :: 2]
        points = sorted({*sample(second, 3), *commits}, key=points.index)
    points.append(Point("store.commit_txn", calls.count("store.commit_txn"), Moment.AFTER))
    new = iter(range(3, 100))
    faults = alive
    for point in points:
        released(lake)
        if compacts and "store.commit_txn" in faults.calls:
            # the last one was done and died later, in its cleaning; one that died before leaves its deltas to the next
            for value in (next(new), next(new)):
                lake.sql(f"INSERT INTO {name} VALUES ({value}, 'x{value}')")
                expected.append((value, f"x{value}"))
        faults = Faults()
        faults.at(point.verb, point.nth, point.moment, crash)
        with pytest.raises(SimulatedCrash):
            carry_out(faulty(lake, faults, late), name)
        if point.moment is Moment.AFTER:
            expected = sorted(result(expected))
        assert rows(lake, name) == sorted(expected), point
        lake.context.store.abort_timed_out()  # a job that the dead one had taken is queued again
    lake.context.store.abort_timed_out()
    lake.clean()
    assert rows(lake, name) == sorted(expected)
    left = [path for path in files(lake, name) if path.startswith(".hiveacid")]
    assert left == []


@pytest.mark.exhaustive("spark/test_server_stores.py lets two sessions write at once")
def test_in_a_race_of_writers_and_a_compactor_nobody_loses_or_doubles_a_row(lake: AcidSession) -> None:
    """HIVEACID_TEST_COUNT: how often each of both writers inserts and updates (2); more in ``make stress``."""
    lake.sql(f"CREATE TABLE race (a INT, b STRING) {FULL}")
    lake.sql("INSERT INTO race VALUES (0, 'first')")
    turns = COUNT or 2
    done: list[int] = []
    wrong: list[object] = []
    over = threading.Event()

    def write(first: int) -> None:
        for value in range(first, first + turns):
            lake.sql(f"INSERT INTO race VALUES ({value}, 'n'), ({value + 100}, 'n')")
            done.append(value)
            with suppress(WriteConflictError):  # the insert is there, the update is not
                lake.sql(f"UPDATE race SET b = 'u' WHERE a = {value}")

    def read() -> None:
        while not over.wait(0.5):
            seen = {row[0] for row in rows(lake, "race")}
            wrong.extend(one for one in seen if 0 < int(str(one)) < 100 and int(str(one)) + 100 not in seen)

    with ThreadPoolExecutor(3) as pool:
        reader = pool.submit(read)
        writers = [pool.submit(write, first) for first in (1, 51)]
        try:
            while not all(writer.done() for writer in writers):
                with suppress(CompactionRefusedError):  # nothing to do yet
                    lake.table("race").compact("minor")
                wait(writers, timeout=1)
        finally:
            over.set()
    for thread in (reader, *writers):
        thread.result()
    lake.table("race").compact("major")
    lake.clean()
    assert wrong == []
    assert [row[0] for row in rows(lake, "race")] == sorted([0, *done, *(one + 100 for one in done)])
    assert len(done) == 2 * turns
    lake.sql("DROP TABLE race")


@pytest.mark.exhaustive("contract/test_file_systems.py uses the same HDFS")
def test_a_warehouse_may_lie_on_hdfs(spark: SparkSession, tmp_path: Path) -> None:
    """There renaming is one step, and a file can only grow."""
    import hiveacid  # noqa: PLC0415

    skip_without(NO_HDFS)
    with hdfs_server(tmp_path / "hdfs") as hdfs:
        acid = hiveacid.connect(spark, warehouse=f"{hdfs.uri}/wh", store=f"sqlite:///{tmp_path}/store.db")
        acid.sql(f"CREATE TABLE h (a INT) {FULL[:-1]}, 'hiveacid.layout.level'='hive3')")
        acid.sql("INSERT INTO h VALUES (1), (2)")
        acid.sql("UPDATE h SET a = 4 WHERE a = 2")
        acid.table("h").compact("major")
        assert rows(acid, "h") == [(1,), (4,)]
        (base,) = [path for path in files(acid, "h") if "bucket" in path and path.startswith("base")]
        where = f"{acid.table('h').definition.location}/{base}"
        (tmp_path / "copy").write_bytes(acid.context.fs.read_bytes(where))
        appended = pyarrow.orc.ORCFile(f"{tmp_path}/copy")  # another reader than Spark's
        assert appended.nrows == 2
        assert appended.schema.names[-1] == "row"
        assert {path.partition("/")[0] for path in files(acid, "h") if path.startswith("b")} == {
            "base_0000002"
        }
        acid.close()
