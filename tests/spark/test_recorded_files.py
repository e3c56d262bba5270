"""Every kind of statement tells the store the files that it made; the histories of test_random_history compare after each one, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.ports.store import own_store
from hiveacid.table.partitions import partitions_of
from hiveacid.transactions.transaction import Transaction
from support.recorded_files import recorded_files

if TYPE_CHECKING:
    from pathlib import Path

    from hiveacid import AcidSession

ACID, INSERT_ONLY = (
    "'transactional'='true'",
    "'transactional'='true', 'transactional_properties'='insert_only'",
)


MERGE = """MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 7) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', 7)"""


def created(acid: AcidSession, name: str, properties: str = ACID, form: str = "ORC") -> None:
    acid.sql(
        f"CREATE TABLE {name} (id INT, name STRING) PARTITIONED BY (p INT) STORED AS {form} TBLPROPERTIES ({properties})"
    )


def is_recorded(acid: AcidSession, name: str) -> bool:
    table = acid.table(name).definition
    return (
        own_store(acid.context.store).recorded_files(table.name, partitions_of(acid.context, table))
        is not None
    )


def files(acid: AcidSession, name: str) -> int:
    return recorded_files(acid.context, acid.table(name))


def test_statements_of_full_acid_tables(acid: AcidSession, tmp_path: Path) -> None:
    created(acid, "t")
    for statement in (
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        "INSERT INTO t PARTITION (p = 4) SELECT id, name FROM t WHERE id < 0",
        "INSERT INTO t PARTITION (p = 4) SELECT id + 10, name FROM t",
        "UPDATE t SET name = 'd' WHERE id < 3",
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET name = 'nobody' WHERE id = 99",
        MERGE,
        "INSERT OVERWRITE TABLE t PARTITION (p = 3) SELECT 5, 'o'",
        "INSERT OVERWRITE TABLE t PARTITION (p = 3) SELECT id, name FROM t WHERE id < 0",
        "INSERT OVERWRITE TABLE t SELECT id, name, p FROM t WHERE id < 0",
        "TRUNCATE TABLE t PARTITION (p = 2)",
        "ALTER TABLE t ADD COLUMNS (x INT)",
        "ALTER TABLE t PARTITION (p = 1) COMPACT 'minor' AND WAIT",
        "INSERT INTO t VALUES (8, 'e', 1, 8)",
        "ALTER TABLE t PARTITION (p = 1) COMPACT 'major' AND WAIT",
        "ALTER TABLE t PARTITION (p = 4) COMPACT 'rebalance' AND WAIT",
        "ALTER TABLE t SET TBLPROPERTIES ('note' = 'kept')",
        "ALTER TABLE t DROP PARTITION (p = 2)",
        "INSERT INTO t VALUES (9, 'f', 2, 9)",
        "ALTER TABLE t ADD PARTITION (p = 11)",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE u RENAME TO t",
    ):
        acid.sql(statement)
        if "TO u" not in statement:
            assert files(acid, "t") >= 0, statement
    acid.clean()
    assert files(acid, "t") > 0
    rows = acid.context.env.spark.sql("SELECT 1 AS id, 'l' AS name, 2 AS x").coalesce(1)
    for number in range(2):
        rows.write.orc(str(tmp_path / f"loaded{number}"))
    acid.sql(f"LOAD DATA INPATH '{tmp_path}/loaded0' INTO TABLE t PARTITION (p = 5)")
    acid.sql(f"ALTER TABLE t ADD PARTITION (p = 6) LOCATION '{tmp_path}/loaded1'")
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (20, 'g', 1, 0)")
        txn.sql("UPDATE t SET name = 'h' WHERE id = 20")
        txn.sql("DELETE FROM t WHERE id = 20")
    acid.sql(
        "CREATE TABLE made STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT id, name FROM t"
    )
    acid.table("t").insert(acid.table("t").to_df().limit(2))
    assert files(acid, "t") > 0
    assert files(acid, "made") > 0
    assert acid.table("t").inspect.check() == ()


@pytest.mark.parametrize("form", ["ORC", "PARQUET", "TEXTFILE"])
def test_statements_of_insert_only_tables(acid: AcidSession, form: str) -> None:
    created(acid, "t", INSERT_ONLY, form)
    for statement in (
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)",
        "INSERT INTO t VALUES (3, 'c', 1)",
        "INSERT OVERWRITE TABLE t PARTITION (p = 2) SELECT id, name FROM t WHERE id < 0",
        "ALTER TABLE t PARTITION (p = 1) COMPACT 'major' AND WAIT",
        "TRUNCATE TABLE t PARTITION (p = 1)",
        "INSERT INTO t VALUES (4, 'd', 1)",
    ):
        acid.sql(statement)
        assert files(acid, "t") >= 0, statement
    acid.clean()
    assert files(acid, "t") >= 1


def test_tables_of_which_the_store_does_not_know_all(acid: AcidSession) -> None:
    """Converted ones, and one compacted for Hive 3: nothing of them is said to be complete."""
    acid.sql("CREATE TABLE plain (id INT) STORED AS ORC")
    acid.sql("INSERT INTO plain VALUES (1)")
    acid.sql("ALTER TABLE plain SET TBLPROPERTIES ('transactional'='true')")
    created(acid, "old", f"{ACID}, 'hiveacid.layout.level'='hive3'")
    acid.sql("INSERT INTO old VALUES (1, 'a', 1), (2, 'b', 1)")
    acid.sql("INSERT INTO old VALUES (3, 'c', 1)")
    assert files(acid, "old") == 2
    acid.sql("ALTER TABLE old PARTITION (p = 1) COMPACT 'major' AND WAIT")
    created(acid, "flat", INSERT_ONLY)
    acid.sql("INSERT INTO flat VALUES (1, 'a', 1)")
    acid.sql("ALTER TABLE flat SET TBLPROPERTIES ('transactional_properties'='default')")
    for name in ("plain", "old", "flat"):
        acid.sql(f"INSERT INTO {name} SELECT * FROM {name}")
        assert not is_recorded(acid, name), name


def test_a_compaction_for_hive_3_that_does_not_commit_ends_the_records(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its base counts without the commit: the next cleaning deletes the deltas, and no commit has recorded the base."""
    acid.sql(
        "CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true', 'hiveacid.layout.level'='hive3')"
    )
    acid.sql("INSERT INTO t VALUES (1)")
    acid.sql("INSERT INTO t VALUES (2)")
    assert is_recorded(acid, "t")
    commit = Transaction.commit

    def crash(txn: Transaction) -> None:
        if any(job.txn_id == txn.txn_id for job in txn.store.show_compactions()):
            raise RuntimeError("the worker was killed")
        commit(txn)

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit", crash)
        with pytest.raises(RuntimeError, match="killed"):
            acid.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    assert not is_recorded(acid, "t")
    acid.sql(
        "ALTER TABLE t COMPACT 'major' AND WAIT"
    )  # refused, as the base is there, and the deltas are cleaned
    assert [entry.path for entry in acid.context.fs.list_directory(acid.table("t").definition.location)] == [
        "base_0000002"
    ]
    assert sorted(row.id for row in acid.sql("SELECT id FROM t").collect()) == [1, 2]
