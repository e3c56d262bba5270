"""Which locks statements take: what EXPLAIN says, before their snapshot, and what settings make of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import LockTimeoutError
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.transactions import Begun, Client, LockAnswer, Operation, Start, TxnKind, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.model import TxnId

MERGE = "MERGE INTO t USING (SELECT 7 AS id, 1 AS p) s ON t.id = s.id WHEN"
INSERTS, DELETES = f"{MERGE} NOT MATCHED THEN INSERT VALUES (s.id, s.p)", f"{MERGE} MATCHED THEN DELETE"
INTO, OVER = "INSERT INTO t PARTITION (p=1) SELECT 1", "INSERT OVERWRITE TABLE t PARTITION (p=1) SELECT 1"
WRITE, OVERWRITE, MERGING = "hive.txn.xlock.write", "hive.txn.xlock.iow", "hive.txn.xlock.mergeinsert"
CASES = [
    ({}, INTO, "SHARED_WRITE on default.t/p=1"),
    ({}, OVER, "EXCL_WRITE on default.t/p=1"),
    ({}, "DELETE FROM t WHERE id = 9", "SHARED_WRITE on default.t"),
    ({}, INSERTS, "SHARED_WRITE on default.t"),
    ({}, "INSERT INTO plain SELECT 1", "EXCL_WRITE on default.plain"),
    ({WRITE: "true"}, INTO, "SHARED_WRITE on default.t/p=1"),
    ({WRITE: "true"}, OVER, "EXCLUSIVE on default.t/p=1"),
    ({WRITE: "true", OVERWRITE: "false"}, OVER, "EXCL_WRITE on default.t/p=1"),
    ({WRITE: "true"}, "UPDATE t SET id = 1 WHERE id = 9", "EXCL_WRITE on default.t"),
    ({MERGING: "true"}, INSERTS, "EXCL_WRITE on default.t"),
    ({MERGING: "true"}, DELETES, "SHARED_WRITE on default.t"),
    ({}, "CREATE TABLE made AS SELECT 1 AS a", "EXCLUSIVE on default.made"),
    ({"hive.txn.xlock.ctas": "false"}, "CREATE TABLE made AS SELECT 1 AS a", "EXCL_WRITE on default.made"),
]


@pytest.fixture(scope="module")
def acid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    import hiveacid  # noqa: PLC0415

    with hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("locks"))) as session:
        acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        session.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {acid}")
        session.sql("CREATE TABLE plain (id INT) STORED AS ORC")
        yield session


@pytest.fixture
def taken(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is locked, in the order in which it is, and when a snapshot is taken without a lock."""
    found: list[str] = []
    store = acid.context.store
    begin, lock = store.begin_txn, store.lock

    def begin_txn(client: Client, start: Start = Start(), kind: TxnKind = TxnKind.DEFAULT) -> Begun:  # noqa: B008
        found.extend(map(str, start.locks))
        return begin(client, start, kind)

    def lock_later(txn: TxnId, wanted: Sequence[LockComponent], *, zero_wait: bool = False) -> LockAnswer:
        found.extend(map(str, wanted))
        return lock(txn, wanted, zero_wait=zero_wait)

    monkeypatch.setattr(store, "begin_txn", begin_txn)
    monkeypatch.setattr(store, "lock", lock_later)
    return found


@pytest.mark.parametrize(("settings", "statement", "expected"), CASES)
def test_a_statement_takes_the_lock_that_explain_says(
    acid: AcidSession, taken: list[str], settings: dict[str, str], statement: str, expected: str
) -> None:
    """One request, before anything is read."""
    for key, value in settings.items():
        acid.set(key, value)
    try:
        lines = [row[0] for row in acid.sql(f"EXPLAIN {statement}").collect()]
        taken.clear()
        acid.sql(statement)
        # CREATE TABLE AS SELECT also takes its directory, under a name that is no table's
        assert [lock for lock in taken if ".location_" not in lock] == [expected]
        assert f"Lock: {expected}" in lines
    finally:
        acid.sql("RESET")
        acid.sql("DROP TABLE IF EXISTS made")


def test_of_two_that_create_one_table_from_queries_the_second_does_not_wait(acid: AcidSession) -> None:
    """It fails at once and leaves nothing, neither a lock nor a directory."""
    store = acid.context.store
    begun = store.begin_txn(
        Client("ann", "here", "test"), Start((LockComponent(LockType.EXCLUSIVE, "default", "made"),))
    )
    assert begun.lock is not None
    assert begun.lock.state is LockState.ACQUIRED
    with pytest.raises(LockTimeoutError, match="does not wait for locks"):
        acid.sql("CREATE TABLE made AS SELECT 1 AS a")
    assert [row.txn_id for row in store.show_locks()] == [begun.txn_id]
    assert not Path(acid.context.warehouse.removeprefix("file:"), "made").exists()
    store.abort_txns([begun.txn_id], "done")


def test_a_statement_that_lost_a_race_says_how_often_it_began_anew(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice another transaction changes the same partition before it can commit."""
    acid.sql("INSERT INTO t PARTITION (p=5) VALUES (50)")
    store, name = acid.context.store, acid.table("t").definition.name
    commit, rivals = store.commit_txn, [1, 2]

    def commit_second(
        txn_id: TxnId,
        changes: CatalogChanges = CatalogChanges(),  # noqa: B008
        written: Sequence[Written] = (),
        *_: object,
    ) -> None:
        if rivals and written:
            rivals.pop()
            (rival,) = store.open_txns(Client("ann", "here", "test"))
            commit(rival, CatalogChanges(), [Written(name, "p=5", Operation.UPDATE)])
        commit(txn_id, changes, written)

    monkeypatch.setattr(store, "commit_txn", commit_second)
    row = acid.sql("UPDATE t SET id = 51 WHERE p = 5").first()
    assert row is not None
    assert (row["num_updated_rows"], row["num_retries"]) == (1, 2)
    assert [one.id for one in acid.sql("SELECT id FROM t WHERE p = 5").collect()] == [51]
