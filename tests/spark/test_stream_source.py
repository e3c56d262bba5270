"""``readStream.format("hiveacid")``: every committed change once, over restarts, compactions and overwrites."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from hiveacid.datasource import can_register
from hiveacid.streaming import Connection
from support.exhaustive import ALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

rarely = pytest.mark.exhaustive(
    "random histories replay the change feed; queries that are stopped and started again stay"
)


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true'"
SHOWN = ("id", "v", "c", "ts", "d", "n", "a", "p")
_TYPES = "id INT, v VARCHAR(9), c CHAR(4), ts TIMESTAMP, d DATE, n DECIMAL(9,2), a ARRAY<INT>"


@pytest.fixture(autouse=True)
def sources(spark: SparkSession) -> None:
    if not can_register(spark):
        pytest.skip(f"Spark {spark.version} has no Python data sources")


def limits(spark: SparkSession) -> bool:
    return tuple(map(int, spark.version.split(".")[:2])) >= (4, 2)


def run_to_end(writer: Any, tries: int = 3) -> None:
    """Run a query; again if its Python process did not start within ten seconds, which Spark allows it on a busy machine."""
    try:
        writer.start().awaitTermination()
    except StreamingQueryException as error:
        if tries == 1 or "Python worker failed to connect back" not in str(error):
            raise
        run_to_end(writer, tries - 1)


class Query:
    """A query that is stopped and started again; what it was given so far."""

    def __init__(self, acid: AcidSession, place: Path, **options: str) -> None:
        self.spark = acid.context.env.spark
        self.options = {"table": "t", "warehouse": acid.context.warehouse, **options}
        self.place = place
        self.got: list[Any] = []
        self.batches = 0

    def run(self) -> list[Any]:
        """Go on to the present; return what is new."""
        before = len(self.got)

        def keep(frame: DataFrame, _: int) -> None:
            self.got += frame.collect()
            self.batches += 1

        feed = self.spark.readStream.format("hiveacid").options(**self.options).load()
        writer = feed.writeStream.foreachBatch(keep).trigger(availableNow=True)
        run_to_end(writer.option("checkpointLocation", str(self.place)))
        return self.got[before:]


def ids(rows: list[Any]) -> list[int]:
    return sorted(row["id"] for row in rows)


def replayed(changes: list[Any]) -> Counter[tuple[str, ...]]:
    state: Counter[tuple[str, ...]] = Counter()
    for row in changes:
        state[tuple(str(row[name]) for name in SHOWN)] += 1 if row["_change_type"] == "insert" else -1
    assert set(state.values()) <= {0, 1}
    return +state


def held(acid: AcidSession) -> Counter[tuple[str, ...]]:
    return Counter(tuple(str(row[name]) for name in SHOWN) for row in acid.table("t").to_df().collect())


def value(n: int, p: int) -> str:
    return (
        f"({n}, 'v{n}', 'c', TIMESTAMP '2026-01-0{n % 9 + 1} 01:02:03.5', DATE '19{n % 90 + 10}-02-03', {n}.25, "
        f"ARRAY({n}, NULL), {p})"
    )


@rarely
def test_changes_replay_to_the_table_over_restarts_and_compactions(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE t ({_TYPES}) PARTITIONED BY (p INT) {ACID}, 'hiveacid.history.retention'='1h')")
    acid.sql(f"INSERT INTO t VALUES {', '.join(value(n, n % 2) for n in range(6))}")
    query = Query(acid, tmp_path / "check", changes="true", starting="earliest")
    steps = (
        ("UPDATE t SET v = 'new', n = n + 1 WHERE id IN (1, 2)", "DELETE FROM t WHERE id = 3"),
        (f"INSERT INTO t VALUES {value(10, 0)}, {value(11, 2)}", "ALTER TABLE t PARTITION (p=0) COMPACT 'minor' AND WAIT"),
        ("INSERT OVERWRITE TABLE t PARTITION (p = 1) SELECT 77, v, c, ts, d, n, a FROM t WHERE id = 1",
         "ALTER TABLE t PARTITION (p=0) COMPACT 'major' AND WAIT", "UPDATE t SET v = NULL WHERE id = 77"),
        ("ALTER TABLE t ADD COLUMNS (x INT)", "DELETE FROM t WHERE id < 5", "TRUNCATE TABLE t PARTITION (p = 2)"),
    )  # fmt: skip
    query.run()
    assert replayed(query.got) == held(acid)
    with acid.transaction() as txn:
        txn.sql(f"INSERT INTO t VALUES {value(50, 0)}")
        for statement in steps[0]:
            acid.sql(statement)
        query.run()
        assert replayed(query.got) == held(acid)
    assert ids(query.run()) == [50], "it committed late"
    for statements in steps[1:] if ALL else steps[1:2]:
        for statement in statements:
            acid.sql(statement)
        query.run()
        assert replayed(query.got) == held(acid)
    assert query.run() == []


@rarely
def test_inserts_only_and_what_happens_when_rows_go(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID})")
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    strict = Query(acid, tmp_path / "strict", starting_write_id="1")
    late, whole = Query(acid, tmp_path / "late"), Query(acid, tmp_path / "whole", starting="snapshot")
    assert ids(strict.run()) == [1, 2]
    assert late.run() == []
    acid.sql("DELETE FROM t WHERE id = 2")
    assert ids(whole.run()) == [1]
    with pytest.raises(Exception, match="ignore_changes"):
        strict.run()
    strict.options["ignore_changes"] = late.options["ignore_changes"] = "true"
    acid.sql("UPDATE t SET v = 'A' WHERE id = 1")
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (5, 'never'), (6, 'seen')")
        txn.sql("DELETE FROM t WHERE id = 5")
    assert [(row["id"], row["v"]) for row in strict.run()] == [(1, "A"), (6, "seen")]
    assert ids(late.run()) == [1, 6]
    # the history is compacted away: an error that says where to go on, or all of the table
    acid.sql("INSERT INTO t VALUES (7, 'x')")
    acid.table("t").compact("major")
    for _ in range(5):  # the JVM says when nobody holds the old files any more
        acid.clean()
        if {row.state for row in acid.table("t").inspect.deltas().collect()} == {"used"}:
            break
    with pytest.raises(Exception, match="after write id 5"):
        late.run()
    late.options["on_history_gone"] = "snapshot"
    assert ids(late.run()) == [1, 6, 7]
    assert late.run() == []
    if limits(acid.context.env.spark):
        slow = Query(acid, tmp_path / "slow", starting="earliest", max_write_ids_per_trigger="1")
        for n in (20, 21, 22):
            acid.sql(f"INSERT INTO t VALUES ({n}, 'y')")
        assert ids(slow.run()) == [20, 21, 22]
        assert slow.batches == 3
        small = Query(acid, tmp_path / "small", starting="earliest", max_bytes_per_trigger="1")
        assert ids(small.run()) == [20, 21, 22]
        assert small.batches == 3
    assert acid.context.store.show_locks() == ()


def test_a_file_that_is_still_written_to_is_read_as_far_as_it_is_committed(
    acid: AcidSession, tmp_path: Path
) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) {ACID})")
    query = Query(acid, tmp_path / "check", starting="earliest")
    with Connection("t", warehouse=acid.context.warehouse) as stream:
        with stream.transaction():
            stream.write([{"id": 1, "v": "a"}])
        for _ in "23":
            stream.begin_transaction()
            stream.abort()
        # as Hive's streaming leaves it: one directory for the batch, a side file, and an unfinished rest
        made = Path(acid.context.warehouse, "t/delta_0000001_0000001_0000")
        made = made.rename(made.with_name("delta_0000001_0000003"))
        length = (made / "bucket_00000").stat().st_size
        (made / "bucket_00000_flush_length").write_bytes(length.to_bytes(8, "big"))
        with (made / "bucket_00000").open("ab") as file:
            file.write(b"unfinished")
        assert ids(query.run()) == [1]
    acid.sql("INSERT INTO t VALUES (2, 'a')")
    assert ids(query.run()) == [2]
    acid.sql("INSERT INTO t VALUES (3, 'b')")
    acid.sql("ALTER TABLE t COMPACT 'minor' AND WAIT")
    assert ids(query.run()) == [3]


@rarely
def test_insert_only_tables_and_what_is_refused(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(
        f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p STRING) {ACID}, 'transactional_properties'='insert_only', 'hiveacid.history.retention'='1h')"
    )
    acid.sql("INSERT INTO t VALUES (1, 'a', 'x=1'), (2, 'b', NULL)")
    query = Query(acid, tmp_path / "check", changes="true", starting="earliest")
    query.run()
    acid.sql("INSERT INTO t VALUES (3, 'c', 'x=1')")
    acid.sql("ALTER TABLE t PARTITION (p = 'x=1') COMPACT 'minor' AND WAIT")
    acid.sql("INSERT OVERWRITE TABLE t PARTITION (p = 'x=1') VALUES (4, 'd')")
    query.run()
    told = sorted((row["_write_id"], row["_change_type"], row["id"], row["p"]) for row in query.got)
    assert told == [
        (1, "insert", 1, "x=1"), (1, "insert", 2, None), (2, "insert", 3, "x=1"), (3, "delete", 1, "x=1"),
        (3, "delete", 3, "x=1"), (3, "insert", 4, "x=1"),
    ]  # fmt: skip
    # values that Arrow's own reader returns differently
    acid.sql(f"CREATE TABLE old (id INT, d DATE, ts TIMESTAMP) {ACID})")
    acid.sql(
        "INSERT INTO old VALUES (1, DATE '1500-01-01', NULL), (2, NULL, TIMESTAMP '1969-12-31 23:59:57.25')"
    )
    values = Query(acid, tmp_path / "values", table="old", starting="earliest").run()
    assert sorted(map(str, values)) == sorted(map(str, acid.sql("SELECT * FROM old").collect()))
    acid.sql(f"CREATE TABLE deep (id INT, s STRUCT<t: TIMESTAMP>) {ACID})")
    for options, said in (
        ({"table": "deep"}, "column s"),
        ({"starting": "soon"}, "soon"),
        ({"changes": "true", "ignore_changes": "true"}, "contradict"),
        ({"max_bytes_per_trigger": "0"}, "from 1 on"),
        ({"table": "none"}, "does not exist"),
    ):
        with pytest.raises(Exception, match=said):
            Query(acid, tmp_path / "refused", **options).run()


def test_a_restore_is_an_overwrite_to_streams(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}, 'hiveacid.history.retention'='1h')")
    acid.sql("INSERT INTO t VALUES (1, 0), (2, 0)")
    changes = Query(acid, tmp_path / "changes", changes="true", starting="earliest")
    inserts = Query(acid, tmp_path / "inserts", starting="earliest")
    assert ids(changes.run()) == ids(inserts.run()) == [1, 2]
    acid.sql("INSERT INTO t VALUES (3, 1)")
    assert ids(inserts.run()) == [3]
    acid.sql("RESTORE TABLE t TO VERSION AS OF 1")
    told = Counter((row["id"], row["p"], row["_change_type"]) for row in changes.run())
    kept = [(number, 0, kind) for number in (1, 2) for kind in ("delete", "insert")]
    assert told == Counter([(3, 1, "insert"), (3, 1, "delete"), *kept])
    with pytest.raises(StreamingQueryException):
        inserts.run()
    assert acid.table("t").count() == 2
