"""Compaction, scenario by scenario (C1 to C20; those that need no Spark are in tests/unit and the contract).

C6, C8, C9, C10, C11, C13, C17 and C19 go on in tests/unit/services and tests/unit/core, C12 and C16 in the stores'
contract, C4 in `test_load_and_convert.py` and on tables that Hive wrote in `tests/interop/test_every_state.py`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.core.compaction.plan import NOT_ENOUGH
from hiveacid.core.compaction.queue_records import Service
from hiveacid.core.format.names import PAIR_FILE
from hiveacid.errors import CompactionRefusedError, ConfigError, NoSuchColumnError
from hiveacid.orc.tail import read_tail
from hiveacid.ports.transactions import TxnKind
from hiveacid.services import Services
from hiveacid.spark.session.running_jobs_and_plans import collect_garbage
from hiveacid.table.compaction.run_compaction import BUCKETED
from support.corpus.golden_tables import find, scenarios, unpack
from support.corpus.sort_merge_reader import read_table
from support.crash.faults import Faults, Moment, SimulatedCrash, crash, faulty
from support.samples import CLIENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

rarely = pytest.mark.exhaustive("compactions that keep rows, ids and open transactions stay")


LEVEL_3 = ", 'hiveacid.layout.level'='hive3'"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true'{})"


@pytest.fixture(scope="module")
def acid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("compaction")))
    yield connection
    connection.close()


def rows(acid: AcidSession, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Return row ids and rows."""
    ids = "ROW__ID.writeid, ROW__ID.bucketid, ROW__ID.rowid"
    return sorted(tuple(row) for row in acid.sql(f"SELECT {ids}, {columns} FROM {name}").collect())


def directories(acid: AcidSession, name: str, partition: str = "") -> list[str]:
    root = Path(acid.table(name).definition.location) / partition
    return sorted(path.name for path in root.iterdir())


def location(acid: AcidSession, name: str) -> Path:
    return Path(acid.table(name).definition.location)


def hold(acid: AcidSession) -> int:
    """Keep the cleaner away, as a reader elsewhere does."""
    return int(acid.context.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0])


def let_go(acid: AcidSession, txn_id: int) -> None:
    acid.context.store.commit_txn(txn_id)  # type: ignore[arg-type]


def independent(acid: AcidSession, name: str) -> list[Any]:
    """Read a table with the reader that shares nothing with ours."""
    table = acid.table(name)
    lists = acid.context.store.valid_write_ids(acid.context.store.valid_txns(), [table.name])
    return sorted(read_table(location(acid, name), lists[table.name].to_string())[""])


def cleaned(acid: AcidSession, name: str) -> list[str]:
    """Clean, once the JVM has let go of what nobody reads any more; return what is left."""
    for _ in range(10):
        acid.clean()
        if all(job.state != "ready for cleaning" for job in acid.context.store.show_compactions()):
            break
    return directories(acid, name)


def test_minor_keeps_rows_and_ids_and_drops_what_was_aborted(acid: AcidSession) -> None:
    """C1, and what the report and the queue say."""
    acid.sql(f"CREATE TABLE c1 (id INT, v STRING) {ACID.format('')}")
    acid.sql("INSERT INTO c1 VALUES (1, 'a'), (2, 'b')")
    acid.sql("INSERT INTO c1 VALUES (3, 'c')")
    gone = acid.__class__(acid.context)
    gone.sql("START TRANSACTION")
    gone.sql("INSERT INTO c1 VALUES (9, 'never')")
    gone.sql("ROLLBACK")
    acid.sql("UPDATE c1 SET v = 'B' WHERE id = 2")
    acid.sql("DELETE FROM c1 WHERE id = 1")
    before, seen = rows(acid, "c1"), independent(acid, "c1")
    (report,) = acid.table("c1").compact("minor")
    assert re.fullmatch(r"delta_0000001_0000005_v\d{7}", Path(report.written[0]).name)
    assert re.fullmatch(r"delete_delta_0000001_0000005_v\d{7}", Path(report.written[1]).name)
    assert cleaned(acid, "c1") == sorted(Path(path).name for path in report.written)
    assert rows(acid, "c1") == before
    assert independent(acid, "c1") == seen
    assert (report.before.directories, report.before.files, report.before.rows, report.before.deletes) == (
        5,
        5,
        4,
        2,
    )
    assert (report.after.directories, report.after.files, report.after.rows, report.after.deletes) == (
        2,
        2,
        4,
        2,
    )
    assert (report.deletes_applied, report.seconds > 0) == (0, True)
    (job,) = [one for one in acid.context.store.show_compactions() if one.request.table.name == "c1"]
    assert (job.state, int(job.high_watermark or 0)) == ("succeeded", 5)
    details = json.loads(job.details or "")
    assert (details["phase"], details["before"]["rows"], details["after"]["files"]) == ("done", 4, 2)


def test_minor_keeps_no_rows_that_their_own_transaction_deleted(acid: AcidSession) -> None:
    """Rows of earlier transactions are deleted by events, as ever."""
    acid.sql(f"CREATE TABLE own_rows (id INT) {ACID.format('')}")
    acid.sql("INSERT INTO own_rows VALUES (1)")
    acid.sql("INSERT INTO own_rows VALUES (2)")
    acid.table("own_rows").compact("major")
    cleaned(acid, "own_rows")
    with acid.transaction() as txn:
        txn.sql("INSERT INTO own_rows VALUES (3), (4)")
        txn.sql("INSERT INTO own_rows VALUES (5)")
        txn.sql("DELETE FROM own_rows WHERE id IN (1, 3)")
    before, seen = rows(acid, "own_rows", "id"), independent(acid, "own_rows")
    (report,) = acid.table("own_rows").compact("minor")
    assert (report.before.rows, report.after.rows, report.after.deletes) == (3, 2, 2), report
    assert rows(acid, "own_rows", "id") == before
    assert independent(acid, "own_rows") == seen
    assert [row[3:] for row in before] == [(2,), (4,), (5,)]


def test_major_applies_deletes_and_keeps_ids(acid: AcidSession) -> None:
    """C2, C18: one base, its footer tells what is in it; C11: then there is nothing to do."""
    acid.sql(f"CREATE TABLE c2 (id INT, v STRING) CLUSTERED BY (id) INTO 2 BUCKETS {ACID.format('')}")
    acid.sql("INSERT INTO c2 VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    acid.sql("UPDATE c2 SET v = upper(v) WHERE id > 2")
    acid.sql("DELETE FROM c2 WHERE id = 1")
    before, seen = rows(acid, "c2"), independent(acid, "c2")
    (report,) = acid.table("c2").compact("major")
    (base,) = cleaned(acid, "c2")
    assert re.fullmatch(r"base_0000003_v\d{7}", base)
    assert rows(acid, "c2") == before
    assert independent(acid, "c2") == seen
    assert (report.after.rows, report.deletes_applied) == (3, 3)
    tails = [
        read_tail(acid.context.fs, str(path), path.stat().st_size)
        for path in (location(acid, "c2") / base).glob("bucket_*")
    ]
    assert sum(tail.number_of_rows for tail in tails) == 3
    row_columns = [tail.types[tail.types[0].children[-1]] for tail in tails]
    assert all(tuple(row.names) == ("id", "v") for row in row_columns)
    ids = [tail.column_statistics[row.children[0]] for tail, row in zip(tails, row_columns, strict=True)]
    assert (min(one.minimum for one in ids), max(one.maximum for one in ids)) == (2, 4)  # type: ignore[type-var]
    for kind in ("minor", "major"):
        with pytest.raises(CompactionRefusedError, match=NOT_ENOUGH):
            acid.table("c2").compact(kind)
    acid.sql("UPDATE c2 SET v = 'x' WHERE id = 2")
    with pytest.raises(CompactionRefusedError, match=NOT_ENOUGH):  # a lone delta and its delete delta
        acid.table("c2").compact("minor")
    states = [job.state for job in acid.context.store.show_compactions() if job.request.table.name == "c2"]
    assert states == ["succeeded", "refused", "refused", "refused"]


def test_what_is_open_and_what_comes_meanwhile_survives(acid: AcidSession) -> None:
    """C3 and C5: strictly below the lowest open write id; writes above it stay."""
    acid.sql(f"CREATE TABLE c3 (id INT, v STRING) {ACID.format('')}")
    for number in (1, 2):
        acid.sql(f"INSERT INTO c3 VALUES ({number}, 'a')")
    other = acid.__class__(acid.context)
    other.sql("START TRANSACTION")
    other.sql("INSERT INTO c3 VALUES (3, 'open')")
    acid.sql("INSERT INTO c3 VALUES (4, 'b')")
    faults = Faults()
    faults.at(
        "fs.move_directory",
        1,
        Moment.BEFORE,
        lambda _: acid.sql("UPDATE c3 SET v = 'c' WHERE id = 1") and None,
    )
    (report,) = faulty(acid, faults).table("c3").compact("minor")
    assert faults.struck
    assert [Path(path).name[:23] for path in report.written] == ["delta_0000001_0000002_v"]
    other.sql("COMMIT")
    assert [row[3:] for row in sorted(rows(acid, "c3"), key=lambda row: row[3])] == [
        (1, "c"), (2, "a"), (3, "open"), (4, "b"),
    ]  # fmt: skip
    before = rows(acid, "c3")
    acid.table("c3").compact("major")
    assert rows(acid, "c3") == before


def test_readers_keep_their_files(acid: AcidSession) -> None:
    """C7: a DataFrame made before runs as often as it likes; when it is gone the cleaner comes."""
    acid.sql(f"CREATE TABLE c7 (id INT) {ACID.format('')}")
    for number in (1, 2, 3):
        acid.sql(f"INSERT INTO c7 VALUES ({number})")
    frame = acid.table("c7").to_df()
    assert frame.count() == 3
    (report,) = acid.table("c7").compact("major")
    assert report.removed == ()
    acid.sql("DELETE FROM c7 WHERE id = 2")
    assert frame.count() == 3
    assert len(directories(acid, "c7")) == 5
    del frame
    assert [name[:12] for name in cleaned(acid, "c7")] == ["base_0000003", "delete_delta"]
    assert [row[3] for row in rows(acid, "c7")] == [1, 3]


def test_the_same_again_is_refused_until_it_is_clean(acid: AcidSession) -> None:
    """C12, as Hive 4.0.1 does, but for the kinds: what a minor compaction leaves to do, a major one may."""
    acid.sql(f"CREATE TABLE c12 (id INT) {ACID.format('')}")
    for number in (1, 2, 3):
        acid.sql(f"INSERT INTO c12 VALUES ({number})")
    reader = hold(acid)
    (report,) = acid.table("c12").compact("minor")
    with pytest.raises(
        CompactionRefusedError,
        match=rf"Compaction is already scheduled with state='ready for cleaning' and id={report.id}",
    ):
        acid.table("c12").compact("minor")
    let_go(acid, reader)
    with pytest.raises(
        CompactionRefusedError, match=NOT_ENOUGH
    ):  # cleans first; then one delta is not enough
        acid.table("c12").compact("minor")
    reader = hold(acid)
    acid.sql("INSERT INTO c12 VALUES (4)")
    acid.table("c12").compact("minor")
    (report,) = acid.table("c12").compact("major")
    assert report.state == "ready for cleaning"
    let_go(acid, reader)


@pytest.mark.exhaustive("another case of the same test stays", cases=("PARQUET]",))
@pytest.mark.parametrize("format_", ["ORC", "PARQUET"])
def test_insert_only_tables(acid: AcidSession, format_: str) -> None:
    """C14."""
    name = f"c14_{format_}".lower()
    acid.sql(
        f"CREATE TABLE {name} (id INT, v STRING) STORED AS {format_} "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    for number in (1, 2, 3):
        acid.sql(f"INSERT INTO {name} VALUES ({number}, 'a')")
    acid.table(name).compact("minor")
    (delta,) = cleaned(acid, name)
    assert re.fullmatch(r"delta_0000001_0000003_v\d{7}", delta)
    acid.sql(f"INSERT INTO {name} VALUES (4, 'b')")
    acid.table(name).compact("rebalance")  # rows without ids: as major
    (base,) = cleaned(acid, name)
    assert re.fullmatch(r"base_0000004_v\d{7}", base)
    assert sorted(row[0] for row in acid.sql(f"SELECT id FROM {name}").collect()) == [1, 2, 3, 4]


@rarely
def test_rebalance_spreads_rows_evenly(acid: AcidSession) -> None:
    """C15: rows numbered through, n buckets of the same size; conflicting writers are told; bucketed refused."""
    acid.sql(f"CREATE TABLE c15 (id INT, v STRING, p INT) {ACID.format('')}")
    acid.table("c15").insert(
        acid.context.env.spark.range(7, numPartitions=1).selectExpr("int(id) id", "'a' v", "1 p")
    )
    acid.sql("DELETE FROM c15 WHERE id = 3")
    acid.sql("INSERT INTO c15 VALUES (10, 'b', 2), (11, 'b', 2)")
    values = [row[3:] for row in sorted(rows(acid, "c15"))]
    (report,) = acid.table("c15").compact("rebalance", buckets=3)
    assert sorted(path.name for path in Path(report.written[0]).glob("bucket_*")) == [
        "bucket_00000", "bucket_00001", "bucket_00002",
    ]  # fmt: skip
    new = rows(acid, "c15")
    assert [row[3:] for row in sorted(new, key=lambda row: row[2])] == values
    assert [(row[0], (row[1] >> 16) & 0xFFF, row[2]) for row in sorted(new, key=lambda row: row[2])] == [
        (1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 1, 3), (1, 1, 4), (1, 1, 5), (3, 2, 6), (3, 2, 7),
    ]  # fmt: skip
    assert len(independent(acid, "c15")) == 8
    acid.sql("UPDATE c15 SET v = 'c' WHERE id = 10")
    found = acid.sql(
        "ALTER TABLE c15 COMPACT 'rebalance' CLUSTERED INTO 2 BUCKETS ORDER BY v DESC, id AND WAIT"
    ).collect()
    assert [(row["type"], row["state"]) for row in found] == [("REBALANCE", "ready for cleaning")]
    assert [(row[2], row[3]) for row in sorted(rows(acid, "c15"), key=lambda row: row[2])] == list(
        enumerate([10, 11, 0, 1, 2, 4, 5, 6])
    )
    assert {row[0] for row in rows(acid, "c15")} == {4}
    for text, error in (
        ("'rebalance' ORDER BY nope", NoSuchColumnError),
        ("'rebalance' CLUSTERED INTO 5000 BUCKETS", ConfigError),
        ("'major' CLUSTERED INTO 2 BUCKETS", ConfigError),
    ):
        with pytest.raises(error):
            acid.sql(f"ALTER TABLE c15 COMPACT {text}")
    with pytest.raises(CompactionRefusedError, match=re.escape(BUCKETED)):
        acid.table("c2").compact("rebalance")


def test_a_rebalance_never_loses_a_delete(acid: AcidSession) -> None:
    """Its row ids are new: an update meanwhile waits for them, a delete above an open id holds it off."""
    acid.sql(f"CREATE TABLE c15d (id INT, v INT) {ACID.format('')}")
    acid.sql("INSERT INTO c15d VALUES (1, 0), (2, 0), (3, 0)")
    faults = Faults()
    writer = threading.Thread(
        target=lambda: acid.__class__(acid.context).table("c15d").update({"v": "v + 1"}, "id = 2")
    )
    faults.at("fs.move_directory", 1, Moment.BEFORE, lambda _: writer.start())
    faulty(acid, faults).table("c15d").compact("rebalance", buckets=2)
    writer.join(300)
    assert sorted(row[3:] for row in rows(acid, "c15d")) == [(1, 0), (2, 1), (3, 0)]
    store, name = acid.context.store, acid.table("c15d").name
    (slow,) = store.open_txns(CLIENT)
    store.allocate_write_ids([slow], name)  # without a lock that a rebalance waits for
    acid.sql("DELETE FROM c15d WHERE id = 1")
    with pytest.raises(CompactionRefusedError, match="A delete was committed above a write id that is open"):
        acid.table("c15d").compact("rebalance")
    store.commit_txn(slow)
    acid.table("c15d").compact("rebalance")
    assert sorted(row[3] for row in rows(acid, "c15d")) == [2, 3]


@rarely
def test_services_take_turns(acid: AcidSession) -> None:
    """C10, C16, C17: what the initiator queues a worker of its pool does; a dropped partition is refused."""
    few = (
        ", 'compactorthreshold.hive.compactor.delta.num.threshold'='2', 'hive.compactor.worker.pool'='night'"
    )
    acid.sql(f"CREATE TABLE c10 (id INT) PARTITIONED BY (p INT) {ACID.format(few)}")
    for number in range(3):
        acid.sql(f"INSERT INTO c10 VALUES ({number}, 1), ({number}, 2), ({number}, 3)")
    looking = Services(acid, workers=0, cleaner=False)
    findings = [one for one in looking.step().findings if one.table.name == "c10"]
    assert [one.partition for one in findings if one.job] == ["p=1", "p=2", "p=3"]
    assert [one.decision.reason for one in findings][:1] == [
        "3 deltas, more than 2 (hive.compactor.delta.num.threshold), and no base"
    ]
    others = Services(acid, initiator=False).step().compactions  # of this module's tables in the default pool
    assert [one for one in others if one.partition] == []
    queue = acid.sql(
        "SHOW COMPACTIONS c10 POOL 'night' STATUS 'initiated' ORDER BY partname DESC LIMIT 2"
    ).collect()
    assert [row["partname"] for row in queue] == ["p=3", "p=2"]
    number = int(queue[1]["compactionid"])
    assert [tuple(row) for row in acid.sql(f"ABORT COMPACTIONS {number} 999999").collect()] == [
        (number, "Success", "Successfully aborted compaction"),
        (999999, "Error", "No Such Compaction Id Available"),
    ]
    acid.sql("ALTER TABLE c10 DROP PARTITION (p=3)")
    turn = Services(acid, initiator=False, pool="night").step()
    assert [(one.partition, one.state) for one in turn.compactions] == [
        ("p=1", "ready for cleaning"),
        ("p=3", "refused"),
    ]
    assert "assuming it was dropped and moving on" in (turn.compactions[1].reason or "")
    cleaner = Services(acid, initiator=False, workers=0)
    removed = [one for one in turn.cleaned.removed if "/c10/p=1/" in one]
    for _ in range(20):
        if removed:
            break
        collect_garbage(acid.context.env)  # the frames above, with their snapshots
        removed = [one for one in cleaner.step().cleaned.removed if "/c10/p=1/" in one]
    assert len(removed) == 3
    assert [len(directories(acid, "c10", f"p={p}")) for p in (1, 2)] == [1, 3]
    states = [row["state"] for row in acid.sql("SHOW COMPACTIONS c10").collect()]
    assert states == ["succeeded", "aborted", "refused"]
    assert tuple(acid.sql(f"ABORT COMPACTIONS {number}").collect()[0])[1:] == (
        "Error",
        "Error while aborting compaction as compaction is in state-aborted",
    )


@rarely
def test_a_job_is_left_to_the_service_that_is_there(acid: AcidSession) -> None:
    """Without AND WAIT it is only queued; with it, its end is waited for; without a service it runs here."""
    acid.sql(f"CREATE TABLE left_ (id INT) {ACID.format('')}")
    services = Services(acid, initiator=False, cleaner=False, housekeeper=False)
    worker = services.workers[0]
    acid.context.store.announce_service(Service(worker.name, "worker", "default"))
    for number in (1, 2):
        acid.sql(f"INSERT INTO left_ VALUES ({number})")
    (row,) = acid.sql("ALTER TABLE left_ COMPACT 'major'").collect()
    assert (row["state"], row["message"]) == ("initiated", "left to the worker service")
    (report,) = services.step().compactions
    assert (report.id, report.state) == (row["compactionid"], "ready for cleaning")
    acid.context.store.withdraw_service(worker.name)
    acid.clean()
    acid.sql("INSERT INTO left_ VALUES (3)")
    (row,) = acid.sql("ALTER TABLE left_ COMPACT 'major'").collect()
    assert row["state"] == "ready for cleaning"


@rarely
def test_a_session_compacts_by_itself_if_it_is_told_to(acid: AcidSession) -> None:
    """``hiveacid.auto_compact``: a commit wakes the initiator; what runs ends with the setting."""
    few = ", 'compactorthreshold.hive.compactor.delta.num.threshold'='2'"
    acid.sql(f"CREATE TABLE auto (id INT) {ACID.format(few)}")
    acid.sql("SET hiveacid.auto_compact=true")
    runner = acid.runner
    assert runner is not None
    for number in range(3):
        acid.sql(f"INSERT INTO auto VALUES ({number})")
    for _ in range(600):
        if any(name.startswith("base_") for name in directories(acid, "auto")):
            break
        runner.wait(0.1)
    acid.sql("SET hiveacid.auto_compact=false")
    assert acid.runner is None
    assert runner.wait(0)
    jobs = [job for job in acid.context.store.show_compactions() if job.request.table.name == "auto"]
    assert [job.request.kind for job in jobs] == ["major"]
    assert [row[3] for row in rows(acid, "auto")] == [0, 1, 2]


def _files(root: Path) -> set[str]:
    """Return the files that compactions made; visibility ids, which differ from run to run, as T."""
    found = set()
    for path in root.rglob("*"):
        top = path.relative_to(root).parts[0]
        span = re.fullmatch(r"(?:delete_)?delta_(\d+)_(\d+)(?:_v\d+)?", top)
        if path.is_file() and (top.startswith("base_") or (span is not None and span[1] != span[2])):
            found.add(re.sub(r"_v\d+", "_vT", path.relative_to(root).as_posix()))
    return found - {one for one in found if one.endswith(PAIR_FILE)}


@pytest.mark.exhaustive("another case of the same test stays", cases=("hive-4.0.1",))
@pytest.mark.parametrize(
    ("engine", "scenario"),
    [("hive-3.1.3", "minor_major"), ("hive-4.0.1", "minor_major"), ("hive-4.0.1", "bucketed")],
)
def test_files_have_the_names_that_hive_gives_them(
    acid: AcidSession, engine: str, scenario: str, tmp_path: Path
) -> None:
    """C20: the corpus' own statements, level by level, uncleaned because a reader stays, and then clean.

    Rows and row ids are those that Hive read, too.
    """
    level = "hive3" if engine == "hive-3.1.3" else "hive4"
    name = f"names_{level}_{scenario}"
    reader = hold(acid)
    for line in scenarios(engine=engine, scenario=scenario)[0].script.splitlines():
        if line.startswith("-- @snapshot"):
            golden = find(engine, scenario, line.split()[-1])
            if golden.snapshot == "z_after_clean":
                let_go(acid, reader)
                cleaned(acid, name)
            there = unpack(golden, tmp_path / golden.snapshot)
            found_files, expected = _files(location(acid, name)), _files(there)
            if (engine, golden.snapshot) == ("hive-4.0.1", "z_after_clean"):
                # its queue rows were removed by hand between compactions: it knew of the last one only
                expected = {one for one in expected if one.startswith("base_")} & found_files
            assert found_files == expected, golden
            statement_id = 0 if level == "hive4" else 0xFFF  # 3.1.3 gives an update's rows number 0
            found = sorted((row[0], row[1] & ~statement_id, row[2]) for row in rows(acid, name))
            ids = sorted((one.write_id, one.bucket, one.row_id) for one in golden.row_keys)
            if scenario == "bucketed":  # which row of a statement comes first in its bucket differs
                found, ids = [one[:2] for one in found], [one[:2] for one in ids]  # type: ignore[misc]
            assert found == ids
        elif line.strip() and not line.startswith("--"):
            wanted = f"'transactional'='true', 'hiveacid.layout.level'='{level}'"
            statement = line.rstrip(";").replace(f"c_{scenario}", name)
            acid.sql(statement.replace("'transactional'='true'", wanted))


@rarely
def test_two_levels_of_a_refusal(acid: AcidSession) -> None:
    """The corpus' open_txn: one delta below the open write id is not enough; once it commits, all is compacted."""
    acid.sql(f"CREATE TABLE open_txn (a INT, b STRING) {ACID.format('')}")
    acid.sql("INSERT INTO open_txn VALUES (1, 'a'), (2, 'b')")
    other = acid.__class__(acid.context)
    other.sql("START TRANSACTION")
    other.sql("INSERT INTO open_txn VALUES (50, 'open')")
    acid.sql("INSERT INTO open_txn VALUES (3, 'c')")
    acid.sql("UPDATE open_txn SET b = 'u' WHERE a = 1")
    with pytest.raises(CompactionRefusedError, match=NOT_ENOUGH):
        acid.table("open_txn").compact("minor")
    other.sql("COMMIT")
    acid.table("open_txn").compact("major")
    golden = find("hive-4.0.1", "open_txn", "4_major")
    assert [row[:3] for row in rows(acid, "open_txn")] == sorted(
        (one.write_id, one.bucket, one.row_id) for one in golden.row_keys
    )


def test_half_of_a_compaction_is_not_read(acid: AcidSession) -> None:
    """Layout level hive3: between its two renames, and after a death there; the cleaner takes it away."""
    acid.sql(f"CREATE TABLE half (id INT, v STRING) {ACID.format(LEVEL_3)}")
    for number in (1, 2):
        acid.sql(f"INSERT INTO half VALUES ({number}, 'a')")
    acid.sql("UPDATE half SET v = 'b' WHERE id = 1")
    before = rows(acid, "half")
    seen: list[list[tuple[Any, ...]]] = []
    for nth in (1, 2):
        faults = Faults()
        look = lambda _: seen.append(rows(acid, "half"))  # noqa: E731
        faults.at("fs.move_directory", nth, Moment.AFTER, look)
        if nth == 1:
            faults.at("fs.move_directory", 2, Moment.BEFORE, crash)
            with pytest.raises(SimulatedCrash):
                faulty(acid, faults).table("half").compact("minor")
            assert len([one for one in directories(acid, "half") if one.endswith("_0000001_0000003")]) == 1
            acid.context.store.abort_txns(
                [one.txn_id for one in acid.context.store.show_transactions() if one.state == "OPEN"], "died"
            )
            assert rows(acid, "half") == before
            acid.clean()
            assert not [one for one in directories(acid, "half") if one.endswith("_0000001_0000003")]
            for job in acid.context.store.show_compactions():
                if job.state == "working":
                    acid.context.store.end_compaction(job.id, "failed", "died")
        else:
            faulty(acid, faults).table("half").compact("minor")
    assert seen == [before, before]
    assert rows(acid, "half") == before
