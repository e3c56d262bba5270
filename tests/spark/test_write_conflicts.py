"""What statements that lose to other writers say: an UPDATE that loses again and again, and one of a transaction."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.errors import CatalogError, TransactionAbortedError, WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.staging import staging_txn_id
from hiveacid.table.write.update_delete import replace_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ORC_AT = "STORED AS ORC LOCATION '{}' TBLPROPERTIES ('transactional'='true')"


class Interrupted(LocalFileSystem):
    """A file system that runs ``action`` after each statement has published its files, before its commit."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action = action

    def delete_tree(self, path: str) -> None:
        super().delete_tree(path)
        if staging_txn_id(path.rpartition("/")[2]) is not None:
            self._action()


def test_a_statement_that_always_loses_says_how_often_it_was_tried(
    spark: SparkSession, tmp_path: Path
) -> None:
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    try:
        acid.sql("CREATE TABLE t (id INT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        acid.sql("INSERT INTO t VALUES (1, 0)")
        acid.sql("SET hive.txn.retrysnapshot.max.count=1")
        acid.context = replace(acid.context, fs=Interrupted(lambda: other.sql("UPDATE t SET n = n + 1")))
        with pytest.raises(WriteConflictError) as raised:
            acid.sql("UPDATE t SET n = 100")
        text = str(raised.value)
        assert "UPDATE on default.t was tried 2 times" in text
        assert "hive.txn.retrysnapshot.max.count, now 1" in text
        assert "hive.txn.xlock.write=true" in text
        assert "Aborting [txnid:" in text
        assert [tuple(row) for row in other.sql("SELECT * FROM t").collect()] == [(1, 2)]
    finally:
        acid.close()
        other.close()


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("OVERWRITE", [(1, 0), (2, 7)]),
        ("MERGE", [(1, 0), (2, 0)]),
        ("INSERT OVERWRITE", [(2, 7)]),
    ],
)
def test_an_exclusive_statement_of_a_transaction_misses_no_rows(
    spark: SparkSession, tmp_path: Path, statement: str, after: list[tuple[int, int]]
) -> None:
    """Its lock comes after the snapshot of the transaction: rows that others inserted in between would stay, or come twice."""
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    new = spark.sql("SELECT 2 AS id, 7 AS n")

    def run(txn: AcidSession) -> None:
        t = txn.table("t")
        if statement == "OVERWRITE":
            replace_rows(t.context, t.name, new, "id > 1", t.joined)
        elif statement == "MERGE":
            t.merge(new, "t.id = s.id").when_not_matched_insert().execute()
        else:
            t.overwrite(new)

    def run_after_an_insert(txn: AcidSession) -> None:
        txn.sql("SELECT * FROM t").collect()
        other.sql("INSERT INTO t VALUES (2, 0)")
        run(txn)

    def rows() -> list[tuple[int, int]]:
        return sorted(tuple(row) for row in other.sql("SELECT * FROM t").collect())

    try:
        acid.sql("CREATE TABLE t (id INT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        acid.sql("INSERT INTO t VALUES (1, 0)")
        acid.sql("SET hive.txn.xlock.mergeinsert=true")
        lost = rf"{statement} default\.t: another transaction wrote to the table since this one began"
        with pytest.raises(WriteConflictError, match=lost), acid.transaction() as txn:
            run_after_an_insert(txn)
        assert rows() == [(1, 0), (2, 0)]
        with acid.transaction() as txn:
            run(txn)
        assert rows() == after
    finally:
        acid.close()
        other.close()


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p INT)"])
def test_a_merge_of_rows_that_were_read_from_its_target_is_not_repeated(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    """The rows lack the change of the writer that was first, and a second attempt would undo it. Other rows are merged again."""
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh %")) for _ in range(2))

    def rows() -> list[tuple[int, ...]]:
        return sorted(tuple(row)[:2] for row in other.sql("SELECT * FROM t").collect())

    changes = ["UPDATE t SET n = n + 10"] * 2

    def change_once(number: int) -> None:
        if len(changes) == number:
            other.sql(changes.pop())

    try:
        acid.sql(
            f"CREATE TABLE t (id INT, n INT) {layout} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
        acid.sql(f"INSERT INTO t VALUES (1, 0{', 1' if layout else ''})")
        read = acid.table("t").to_df().selectExpr("id", "n + 1 AS n")
        acid.context = replace(acid.context, fs=Interrupted(lambda: change_once(2)))
        with pytest.raises(WriteConflictError, match="make that anew"):
            acid.table("t").merge(read, "t.id = s.id").when_matched_update().execute()
        changes.append("UPDATE t SET n = n")
        feed, writer = (
            acid.table("t").to_df(),
            acid.table("t").stream_writer("q", merge_on="id", checkpoint="c"),
        )
        with pytest.raises(WriteConflictError, match="make that anew"):
            writer(feed, 0)
        assert rows() == [(1, 10)]
        acid.context = replace(acid.context, fs=Interrupted(lambda: change_once(1)))
        merge = acid.table("t").merge(spark.sql("SELECT 1 AS id, 5 AS n"), "t.id = s.id")
        assert merge.when_matched_update({"n": "t.n + s.n"}).execute().retries == 1
        assert rows() == [(1, 25)]
        acid.sql("CREATE TEMPORARY VIEW seen AS SELECT id, n + 1 AS m FROM t")
        for statement, values in (
            ("MERGE INTO t USING seen ON t.id = seen.id WHEN MATCHED THEN UPDATE SET n = m", {}),
            ("UPDATE t SET n = (SELECT max(m) FROM seen)", {}),
            ("DELETE FROM t WHERE n > (SELECT max(n) FROM {read})", {"read": read}),
        ):
            changes.append("UPDATE t SET n = n + 10")
            with pytest.raises(WriteConflictError, match="make that anew"):
                acid.sql(statement, **values)
        assert rows() == [(1, 55)]
        changes.append("UPDATE t SET n = n + 10")
        acid.sql("UPDATE t SET n = (SELECT max(n) + 1 FROM t)")
        assert rows() == [(1, 66)]
    finally:
        spark.catalog.dropTempView("seen")
        acid.close()
        other.close()


class Waiting(SystemClock):
    """A clock that runs ``action``, once, when a statement waits for a lock."""

    action: Callable[[], object] | None = None

    def sleep(self, seconds: float) -> None:  # noqa: ARG002 - of the clock
        action, self.action = self.action, None
        assert action is not None, "it does not wait"
        action()


@pytest.mark.parametrize(
    "write",
    [
        *(
            "merge",
            "merge of a subquery",
            "replace",
            "overwrite",
            "overwrite by what was not there",
            "overwrite by a count",
        ),
        *("stream", "replace in SQL", "overwrite in SQL", "multi-insert"),
    ],
)
def test_rows_that_were_read_before_a_wait_for_another_writer_are_refused(
    spark: SparkSession, tmp_path: Path, write: str
) -> None:
    """The statement begins after the other's commit, so that the store finds no conflict; its rows lack that change."""
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    clock = Waiting()
    acid.context = replace(acid.context, transactions=replace(acid.context.transactions, clock=clock))
    try:
        acid.sql("CREATE TABLE t (id INT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        acid.sql("INSERT INTO t VALUES (1, 0)")
        acid.sql("CREATE TABLE log (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        acid.sql("CREATE TEMPORARY VIEW seen AS SELECT id, n + 1 AS n FROM t")
        other.sql("SET hive.txn.xlock.write=true")
        t, read = acid.table("t"), acid.table("t").to_df().selectExpr("id", "n + 1 AS n")
        nothing = t.scan(where="id > 1").to_df()  # skips all files
        counted = acid.sql("SELECT count(*) AS n FROM t").selectExpr("1 AS id", "CAST(n AS INT) AS n")
        absent = spark.sql("SELECT 2 AS id, 7 AS n").where(
            f"id NOT IN (SELECT id FROM {name_of(read)})" if write == "merge of a subquery" else "true"
        )
        writes: dict[str, Callable[[], object]] = {
            "merge": lambda: t.merge(read, "t.id = s.id").when_matched_update().execute(),
            "merge of a subquery": lambda: t.merge(absent, "t.id = s.id").when_not_matched_insert().execute(),
            "replace": lambda: replace_rows(acid.context, t.name, read, "id = 1", None),
            "overwrite": lambda: t.overwrite(read),
            "overwrite by what was not there": lambda: t.overwrite(nothing),
            "overwrite by a count": lambda: t.overwrite(counted),
            "stream": lambda: t.stream_writer("q", merge_on="id", checkpoint="c")(read, 0),
            "replace in SQL": lambda: acid.sql("INSERT INTO t REPLACE WHERE id = 1 SELECT * FROM seen"),
            "overwrite in SQL": lambda: acid.sql("INSERT OVERWRITE TABLE t SELECT * FROM seen"),
            "multi-insert": lambda: acid.sql(
                "FROM seen INSERT OVERWRITE TABLE t SELECT * INSERT INTO log SELECT id"
            ),
        }

        def held() -> Callable[[], object]:
            transaction = other.transaction()
            transaction.__enter__().sql("UPDATE t SET n = n + 10")
            return lambda: transaction.__exit__(None, None, None)

        clock.action = held()
        with pytest.raises(WriteConflictError, match="held the lock of the table"):
            writes[write]()
        assert [tuple(row) for row in other.sql("SELECT * FROM t").collect()] == [(1, 10)]
        clock.action = held()
        acid.sql("INSERT OVERWRITE TABLE t SELECT id, n + 1 FROM t")
        assert [tuple(row) for row in other.sql("SELECT * FROM t").collect()] == [(1, 21)]
    finally:
        for view in ("seen", "read"):
            spark.catalog.dropTempView(view)
        acid.close()
        other.close()


def name_of(frame: DataFrame) -> str:
    """Return the name of a view of a frame."""
    frame.createOrReplaceTempView("read")
    return "read"


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[AcidSession, AcidSession]]:
    """Two sessions, and tables t and n with three and one inserted rows."""
    with (
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as acid,
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as other,
    ):
        for name, rows in (("t", 3), ("n", 1)):
            acid.sql(f"CREATE TABLE {name} (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
            for number in range(rows):
                acid.sql(f"INSERT INTO {name} VALUES ({number})")
        yield acid, other


@pytest.mark.parametrize(
    "after",
    ["SELECT id FROM t", "INSERT INTO t VALUES (9)", "INSERT OVERWRITE t VALUES (9)", "TRUNCATE TABLE t"],
)
@pytest.mark.parametrize("before", ["SELECT id FROM t", "EXPLAIN INSERT INTO t VALUES (9)"])
def test_a_table_that_is_replaced_in_a_transaction(
    two: tuple[AcidSession, AcidSession], before: str, after: str
) -> None:
    """The write ids of the old table would show uncommitted rows of the new one, and overwrites would remove unseen ones."""
    acid, other = two

    def run_before_and_after(txn: AcidSession) -> None:
        txn.sql(before).collect()
        other.sql("DROP TABLE t")
        other.sql("ALTER TABLE n RENAME TO t")
        txn.sql(after)

    replaced = r"default\.t was dropped, renamed or replaced"
    with pytest.raises(WriteConflictError, match=replaced), acid.transaction() as txn:
        run_before_and_after(txn)
    assert acid.sql("SELECT id FROM t").collect() == [(0,)]


@pytest.mark.parametrize("arrow", [False, True])
def test_a_table_that_is_renamed_while_it_is_read(
    two: tuple[AcidSession, AcidSession], monkeypatch: pytest.MonkeyPatch, *, arrow: bool
) -> None:
    """After the definition, before the write ids, which belong to the name: no row would be visible."""
    acid, other = two
    with hiveacid.open(acid.context.warehouse) as warehouse:
        context = warehouse.context if arrow else acid.context
        ask = context.store.valid_write_ids

        def rename_first(*asked: Any) -> Any:
            monkeypatch.undo()
            other.sql("ALTER TABLE t RENAME TO z")
            return ask(*asked)

        monkeypatch.setattr(context.store, "valid_write_ids", rename_first)
        with pytest.raises(WriteConflictError, match="run it again"):
            warehouse.table("t").to_arrow() if arrow else acid.sql("SELECT id FROM t")
    assert acid.sql("SELECT id FROM z").count() == 3


class Overtaken(LocalFileSystem):
    """A file system that runs ``action`` before it makes the directory ``location`` for the first time."""

    def __init__(self, location: str, action: Callable[[], object]) -> None:
        super().__init__()
        self._location, self._action = location, action
        self._done = False

    def make_directory(self, path: str) -> None:
        if path == self._location and not self._done:
            self._done = True
            self._action()
        super().make_directory(path)


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[AcidSession, AcidSession]]:
    """Two connections to one warehouse."""
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    yield acid, other
    acid.close()
    other.close()


def test_of_two_create_table_as_select_with_one_location_the_second_waits_and_is_refused(
    pair: tuple[AcidSession, AcidSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would have write id 1, and directories of the same names."""
    acid, other = pair
    place = str(tmp_path / "shared")
    waits, errors = Event(), []
    store = other.context.store
    request = store.lock

    def lock(*args: Any, **options: Any) -> Any:
        answer = request(*args, **options)
        if answer.state is LockState.WAITING:
            waits.set()
        return answer

    def write() -> None:
        try:
            other.sql(f"CREATE TABLE b {ORC_AT.format(place)} AS SELECT 2 AS id")
        except CatalogError as error:
            errors.append(str(error))

    monkeypatch.setattr(store, "lock", lock)
    writer = Thread(target=write)

    def overtake() -> None:
        writer.start()
        assert waits.wait(120)

    acid.context = replace(acid.context, fs=Overtaken(place, overtake))
    acid.sql(f"CREATE TABLE a {ORC_AT.format(place)} AS SELECT 1 AS id")
    writer.join(120)
    assert [row["id"] for row in other.sql("SELECT * FROM a").collect()] == [1]
    (error,) = errors
    assert place in error


def test_an_abort_leaves_the_files_of_a_table_made_at_the_location_of_a_dropped_one(
    pair: tuple[AcidSession, AcidSession], tmp_path: Path
) -> None:
    """Its directories have the same names, because its write ids begin at 1 as well."""
    acid, other = pair
    place = ORC_AT.format(tmp_path / "shared")
    acid.sql(f"CREATE TABLE a (id INT) {place}")

    def insert_too_late() -> None:
        with acid.transaction() as txn:
            txn.sql("INSERT INTO a VALUES (1)")
            for row in other.sql("SHOW TRANSACTIONS").collect():
                other.sql(f"ABORT TRANSACTIONS {row[0]}")
            other.sql("DROP TABLE a")
            other.sql(f"CREATE TABLE b (id INT) {place}")
            other.sql("INSERT INTO b VALUES (2)")

    with pytest.raises(TransactionAbortedError):
        insert_too_late()
    assert [row["id"] for row in other.sql("SELECT * FROM b").collect()] == [2]
