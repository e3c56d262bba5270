"""What a SQL session promises beyond single statements: snapshots, transactions, adoption, and what stays behind."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.core.model import Partition
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    DataError,
    MissingDirectoryError,
    NoSuchColumnError,
    NoSuchTableError,
    ParseError,
    StatementError,
    TransactionStateError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

rarely = pytest.mark.exhaustive("the SQL scripts have the statements")


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def values(frame: DataFrame) -> list[object]:
    return sorted(tuple(row) if len(row) > 1 else row[0] for row in frame.collect())


@pytest.fixture
def table(acid: AcidSession) -> AcidSession:
    acid.sql(f"CREATE TABLE t (id INT, item STRING) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    return acid


@rarely
def test_no_view_stays_behind_and_a_result_goes_on_without_it(
    table: AcidSession, spark: SparkSession
) -> None:
    frame = table.sql("SELECT t.id, u.item FROM t JOIN t AS u ON t.id = u.id")
    assert [view.name for view in spark.catalog.listTables() if "hiveacid" in view.name] == []
    table.sql("DELETE FROM t WHERE id = 1")
    assert values(frame) == [(1, "a"), (2, "b")]
    assert frame.where("id = 2").count() == 1
    with pytest.raises(NoSuchColumnError):
        table.sql("SELECT id FROM t WHERE nope")
    assert [view.name for view in spark.catalog.listTables() if "hiveacid" in view.name] == []


@rarely
def test_what_the_user_cached_stays_cached(table: AcidSession) -> None:
    cached = table.table("t").to_df().cache()
    cached.count()
    table.sql("SELECT * FROM t").count()
    assert cached.is_cached
    assert cached.storageLevel.useMemory
    assert "InMemoryTableScan" in cached._jdf.queryExecution().executedPlan().toString()
    derived = cached.where("id > 0")
    assert "InMemoryTableScan" in derived._jdf.queryExecution().executedPlan().toString()
    cached.unpersist()


def test_a_cached_query_keeps_its_rows(table: AcidSession) -> None:
    frame = table.sql("SELECT * FROM t").cache()
    assert frame.count() == 2
    table.sql("DELETE FROM t")
    assert frame.count() == 2
    frame.unpersist()


def test_all_tables_of_a_query_share_one_transaction(table: AcidSession) -> None:
    table.sql(f"CREATE TABLE u (id INT) {ACID}")
    store = table.context.store
    before = store.valid_txns().high_watermark
    frame = table.sql("SELECT * FROM t JOIN u USING (id) WHERE id IN (SELECT id FROM t)")
    assert store.valid_txns().high_watermark <= before + 1
    assert frame.count() == 0


@rarely
def test_a_condition_keeps_partitions_unlisted(table: AcidSession) -> None:
    assert len(table.sql("SELECT * FROM t WHERE p = 1").inputFiles()) == 1
    assert (
        len(table.sql("SELECT x.id FROM t AS x WHERE x.p IN (1, 7) AND upper(x.item) = 'A'").inputFiles())
        == 1
    )
    assert len(table.sql("SELECT * FROM t WHERE p = 1 OR id = 1").inputFiles()) == 2
    assert (
        len(table.sql("SELECT t.* FROM range(3) r LEFT JOIN t ON r.id = t.p WHERE t.p IS NULL").inputFiles())
        == 2
    )


def test_inside_a_snapshot_all_reads_see_one_point(table: AcidSession, spark: SparkSession) -> None:
    other = hiveacid.connect(spark, warehouse=table.context.warehouse)
    with table.snapshot() as same:
        assert same is table
        other.sql("INSERT INTO t VALUES (3, 'c', 3)")
        assert table.sql("SELECT id FROM t").count() == 2
        held = table.table("t").to_df()
        with pytest.raises(TransactionStateError, match="only reads"):
            table.sql("DELETE FROM t")
        with pytest.raises(TransactionStateError, match="only reads"):
            table.table("t").delete()
        with pytest.raises(TransactionStateError), table.snapshot():
            pass
        assert {lock.type for lock in table.context.store.show_locks()} <= {"SHARED_READ"}
    with pytest.raises(TransactionStateError, match="only reads"):
        table.table("t").as_of(1).delete()
    other.close()
    assert table.sql("SELECT id FROM t").count() == 3
    assert held.count() == 2


def test_a_block_of_statements_is_one_transaction(table: AcidSession) -> None:
    table.sql(f"CREATE TABLE stock (n INT) {ACID}")
    table.sql("INSERT INTO stock VALUES (10)")
    with table.transaction() as txn:
        txn.sql("UPDATE stock SET n = n - (SELECT count(*) FROM t)")
        txn.table("t").delete("id = 1")
        assert values(txn.sql("SELECT n FROM stock")) == [8]
        assert values(table.sql("SELECT n FROM stock")) == [10]
        with pytest.raises(TransactionStateError, match="ends its own"):
            txn.sql("COMMIT")
    assert values(table.sql("SELECT n FROM stock")) == [8]
    assert values(table.sql("SELECT id FROM t")) == [2]


def test_an_error_in_the_block_takes_all_of_it_back(table: AcidSession) -> None:
    def fail() -> None:
        with table.transaction() as txn:
            txn.sql("INSERT INTO t VALUES (9, 'z', 9)")
            txn.sql("INSERT INTO t VALUES (")

    with pytest.raises(ParseError):
        fail()
    assert values(table.sql("SELECT id FROM t")) == [1, 2]
    assert table.sql("SHOW PARTITIONS t").count() == 2


def test_closing_a_session_rolls_back_what_it_began(table: AcidSession, spark: SparkSession) -> None:
    other = hiveacid.connect(spark, warehouse=table.context.warehouse)
    other.sql("BEGIN")
    other.sql("INSERT INTO t VALUES (9, 'z', 9)")
    other.close()
    assert values(table.sql("SELECT id FROM t")) == [1, 2]
    assert table.sql("SHOW LOCKS").count() == 0


def test_overwriting_a_table_from_itself_reads_under_the_lock(
    table: AcidSession, spark: SparkSession
) -> None:
    """What another session commits while INSERT OVERWRITE waits for its lock must not get lost."""
    other = hiveacid.connect(spark, warehouse=table.context.warehouse)
    other.sql("BEGIN")
    other.sql("INSERT INTO t PARTITION (p=1) VALUES (11, 'late')")
    text = "INSERT OVERWRITE TABLE t PARTITION (p=1) SELECT id, upper(item) FROM t WHERE p = 1"
    writer = threading.Thread(target=table.sql, args=(text,))
    writer.start()
    while not any(lock.state == "WAITING" for lock in other.context.store.show_locks()):
        assert writer.is_alive()
    other.sql("COMMIT")
    writer.join(timeout=300)
    assert values(other.sql("SELECT id, item FROM t WHERE p = 1")) == [(1, "A"), (11, "LATE")]
    other.close()


@rarely
def test_show_create_table_adopts_the_directory_elsewhere(
    table: AcidSession, spark: SparkSession, tmp_path: Path
) -> None:
    table.sql("DELETE FROM t WHERE id = 2")
    text = "\n".join(row[0] for row in table.sql("SHOW CREATE TABLE t").collect())
    location = table.table("t").definition.location
    other = hiveacid.connect(spark, warehouse=str(tmp_path / "other"))
    adopted = other.adopt(text, valid_write_ids="default.t:1:9223372036854775807::")
    assert values(adopted.to_df()) == [(1, "a", 1), (2, "b", 2)]
    with pytest.raises(AlreadyExistsError):
        other.adopt(text)
    copy = text.replace("`t`", "`everything`", 1)
    with pytest.raises(CatalogError, match=r"is not free: table default\.t"):
        other.adopt(copy, location=location)
    third = hiveacid.connect(spark, warehouse=str(tmp_path / "third"))
    assert values(third.adopt(copy, location=location).to_df()) == [(1, "a", 1)]
    third.close()
    with pytest.raises(MissingDirectoryError):
        other.adopt(text.replace("`t`", "`u`", 1), location=str(tmp_path / "nowhere"))
    with pytest.raises(StatementError, match="SHOW CREATE TABLE"):
        other.adopt("SELECT 1")
    other.close()


def test_a_failing_create_table_as_select_leaves_no_directory(table: AcidSession) -> None:
    with pytest.raises(DataError):
        table.sql(f"CREATE TABLE bad {ACID} AS SELECT 1 / (id - 1) AS q FROM t")
    warehouse = Path(table.context.warehouse)
    assert sorted(path.name for path in warehouse.iterdir() if not path.name.startswith(".")) == ["t"]
    assert table.context.catalog.get_table(table.context.resolve("bad")) is None


def test_create_table_waits_for_who_makes_the_same_table(table: AcidSession, spark: SparkSession) -> None:
    """A CREATE TABLE AS SELECT that has not committed yet owns the name and the directory."""
    context = table.context
    other = hiveacid.connect(spark, warehouse=context.warehouse)
    name = context.resolve("made")
    with context.transactions.scope(context.settings) as txn:
        txn.lock([LockComponent(LockType.EXCLUSIVE, name.database, name.name)])
        creator = threading.Thread(
            target=other.sql, args=(f"CREATE TABLE IF NOT EXISTS made (z INT) {ACID}",)
        )
        creator.start()
        while not any(lock.state == "WAITING" for lock in context.store.show_locks()):
            assert creator.is_alive()
        made = replace(context.require(context.resolve("t")), name=name, location=f"{context.warehouse}/m")
        table.context.catalog.create_table(made)
    creator.join(timeout=300)
    assert not creator.is_alive()
    assert [column.name for column in context.require(name).columns] == ["id", "item"]
    assert not (Path(context.warehouse) / "made").exists()
    other.close()


def test_errors_tell_line_and_column_of_the_whole_script(table: AcidSession) -> None:
    with pytest.raises(ParseError) as wrong:
        table.sql("SELECT id\nFROM t WHERE )", first_line=11)
    assert (wrong.value.line, wrong.value.column) == (12, 14)
    with pytest.raises(NoSuchTableError, match=r"line 12, column 6\)"):
        table.sql("SELECT id\nFROM nosuch", first_line=11)
    for text in ("SELECT id\nFROM 't", "SELECT id\nFROM IDENTIFIER('t"):
        with pytest.raises(ParseError) as wrong:
            table.sql(text, first_line=11)
        assert wrong.value.line == 12


@rarely
def test_the_session_s_choice_of_orc_readers_is_not_ours(table: AcidSession, spark: SparkSession) -> None:
    chosen = {"spark.sql.orc.impl": "hive", "spark.sql.sources.useV1SourceList": ""}
    before = {key: spark.conf.get(key) for key in chosen}
    try:
        for key, value in chosen.items():
            spark.conf.set(key, value)
        table.sql("UPDATE t SET item = 'c' WHERE id = 1")
        table.sql("INSERT INTO t VALUES (3, 'd', 1)")
        assert values(table.sql("SELECT * FROM t")) == [(1, "c", 1), (2, "b", 2), (3, "d", 1)]
    finally:
        for key, old in before.items():
            spark.conf.set(key, str(old))


@rarely
def test_many_rows_of_show_come_too(table: AcidSession) -> None:
    name = table.context.resolve("t")
    table.context.catalog.add_partitions(name, [Partition((str(n),), f"/p{n}") for n in range(3, 603)])
    assert table.sql("SHOW PARTITIONS t").count() == 602


@rarely
def test_small_results_need_no_job(table: AcidSession, spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("small", "results of SHOW")
    table.sql("SHOW TABLES").collect()
    table.sql("DESCRIBE t").collect()
    table.sql("SET hive.txn.timeout=5min").collect()
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("small")) == []
