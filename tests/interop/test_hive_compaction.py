"""Compaction with a metastore: Hive's workers, ours on its queue, ours at once; Hive reads on, and its cleaner cleans."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive
from hive_server import HiveServers

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import TableName
from hiveacid.errors import CompactionRefusedError, TransactionStateError, UnsupportedFeatureError
from hiveacid.services import Services
from hiveacid.stores.hms import compaction_queue

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones
_PATIENCE = 60.0  # seconds for Hive's own worker


def _filled(acid: AcidSession, session: Hive, name: str, more: str = "") -> list[tuple[Any, ...]]:
    acid.sql(
        f"CREATE TABLE {name} (a INT, b STRING) {more} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    session.sql(f"INSERT INTO {name} VALUES (4, 'h')")
    acid.sql(f"UPDATE {name} SET b = 'us' WHERE a = 2")
    session.sql(f"DELETE FROM {name} WHERE a = 1")
    return _rows(session, name)


def _rows(session: Hive, name: str) -> list[tuple[Any, ...]]:
    return sorted(session.sql(f"SELECT ROW__ID, * FROM {name}"))


def _mine(acid: AcidSession, name: str) -> list[tuple[Any, ...]]:
    rows = acid.sql(f"SELECT ROW__ID, * FROM {name}").collect()
    return sorted((tuple(row[0]), *row[1:]) for row in rows)


def _names(acid: AcidSession, name: str) -> set[str]:
    root = Path(acid.table(name).definition.location)
    return {path.name for path in root.iterdir() if not path.name.startswith((".", "_"))}


def test_hives_worker_does_what_we_ask_for(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    before = _filled(acid, session, "asked_for")
    mine = _mine(acid, "asked_for")
    (report,) = acid.sql("ALTER TABLE asked_for COMPACT 'major' AND WAIT").collect()
    assert report.state in ("ready for cleaning", "succeeded"), report
    assert any(name.startswith("base_") for name in _names(acid, "asked_for"))
    assert _rows(session, "asked_for") == before
    assert _mine(acid, "asked_for") == mine
    if hive.is_hive3:
        for refused in ("'rebalance'", "'minor' POOL 'p'"):
            with pytest.raises(UnsupportedFeatureError, match="Hive 3"):
                acid.sql(f"ALTER TABLE asked_for COMPACT {refused}")
        with pytest.raises(UnsupportedFeatureError, match="own workers"):
            Services(acid, initiator=False, cleaner=False, housekeeper=False)
        acid.set("hiveacid.compactor.here", "true")
        with pytest.raises(UnsupportedFeatureError, match="Hive 3"):
            acid.sql("ALTER TABLE asked_for COMPACT 'minor'")
        acid.set("hiveacid.compactor.here", "false")


def test_our_worker_on_a_queue_of_hive_4(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """Hive asks, we compact; its rows, its counts and its next changes are right, and its cleaner waits for readers."""
    if hive.is_hive3:
        pytest.skip("a metastore of Hive 3 has no calls for workers elsewhere")
    with pytest.raises(UnsupportedFeatureError, match="initiator"):
        Services(acid)
    services = Services(acid, initiator=False, cleaner=False, housekeeper=False, pool="spark")
    before = _filled(
        acid,
        session,
        "by_us",
    )
    session.sql("ALTER TABLE by_us COMPACT 'minor' POOL 'spark'")
    (report,) = services.step().compactions
    assert (report.kind, report.state) == ("minor", "ready for cleaning"), report
    job = next(one for one in acid.context.store.show_compactions() if one.id == report.id)
    assert job.state == "ready for cleaning"
    assert job.txn_id is not None
    assert job.next_txn_id is not None
    assert job.commit_time
    assert any(f"_v{int(job.txn_id):07d}" in name for name in _names(acid, "by_us"))
    assert _rows(session, "by_us") == before
    session.sql("UPDATE by_us SET b = 'later' WHERE a = 3")
    session.sql("ALTER TABLE by_us COMPACT 'major' POOL 'spark'")
    (report,) = services.step().compactions
    assert report.state == "ready for cleaning", report
    assert sorted(row[1:] for row in _rows(session, "by_us")) == [(2, "us"), (3, "later"), (4, "h")]
    assert session.sql("SELECT count(*) FROM by_us") == [(3,)]
    session.sql("DELETE FROM by_us WHERE a = 4")
    acid.sql("DELETE FROM by_us WHERE a = 2")
    assert [row[1:] for row in _rows(session, "by_us")] == [(3, "later")]
    assert services.step().compactions == ()


def test_what_there_is_not_to_do_is_refused(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    if hive.is_hive3:
        pytest.skip("a metastore of Hive 3 has no calls for workers elsewhere")
    services = Services(acid, initiator=False, cleaner=False, housekeeper=False, pool="spark")
    acid.sql("CREATE TABLE little (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO little VALUES (1)")
    session.sql("ALTER TABLE little COMPACT 'minor' POOL 'spark'")
    (report,) = services.step().compactions
    assert report.state == "refused"
    job = next(one for one in acid.context.store.show_compactions() if one.id == report.id)
    assert (job.state, job.error) == ("refused", report.reason)
    session.sql("ALTER TABLE little COMPACT 'rebalance' POOL 'spark'")
    assert services.step().compactions == ()
    job = acid.context.store.show_compactions()[-1]
    assert (job.state, "POOL" in (job.error or "")) == ("refused", True)
    session.sql("ALTER TABLE little COMPACT 'minor' POOL 'nobody'")
    job = acid.context.store.show_compactions()[-1]
    assert acid.sql(f"ABORT COMPACTIONS {job.id}").first()[1] == "Success"
    assert acid.sql(f"ABORT COMPACTIONS {job.id}").first()[1] == "Error"


def test_compacting_here(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """In a pool of its own: no worker of Hive's can take the job, nor start another one beside it."""
    if hive.is_hive3:
        pytest.skip("a metastore of Hive 3 has no calls for workers elsewhere")
    before = _filled(acid, session, "here")
    acid.set("hiveacid.compactor.here", "true")
    (report,) = acid.table("here").compact("major")
    acid.set("hiveacid.compactor.here", "false")
    assert (report.state, report.after.rows) == ("ready for cleaning", 3), report
    assert _rows(session, "here") == before
    with pytest.raises(CompactionRefusedError, match="already scheduled"):
        acid.table("here").compact("major")


def test_rows_that_their_own_transaction_deleted(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """Hive does not apply the events in ``delete_delta_1_1`` to the rows in ``delta_1_1``: statements without an id are one."""
    if hive.is_hive3:
        pytest.skip("a metastore of Hive 3 has no calls for workers elsewhere")
    acid.sql("CREATE TABLE own_rows (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    with acid.transaction() as txn:
        txn.sql("INSERT INTO own_rows VALUES (1), (2)")
        txn.sql("INSERT INTO own_rows VALUES (3)")
        txn.sql("DELETE FROM own_rows WHERE a = 1")
    before = _rows(session, "own_rows")
    acid.set("hiveacid.compactor.here", "true")
    acid.table("own_rows").compact("minor")
    acid.set("hiveacid.compactor.here", "false")
    assert any(re.fullmatch(r"delete_delta_0*1_0*1_v\d+", name) for name in _names(acid, "own_rows"))
    assert _rows(session, "own_rows") == before
    assert [row[1:] for row in before] == [(2,), (3,)]


def test_a_job_that_was_taken_away_counts_for_nothing(
    acid: AcidSession, session: Hive, hive: HiveServers
) -> None:
    """A worker whose job another one has may not commit; one that stops puts the job back."""
    if hive.is_hive3:
        pytest.skip("a metastore of Hive 3 has no calls for workers elsewhere")
    before = _filled(acid, session, "taken")
    store = acid.context.store
    name = TableName("default", "taken")
    asked = store.enqueue_compaction(
        CompactionRequest(name, None, "major", pool="odd", properties=(("a:b", "c 1:"),)), "us"
    )
    job = store.claim_compaction("w1", pool="odd")
    assert job is not None
    assert (job.id, job.request.properties) == (asked.id, (("a:b", "c 1:"),))
    assert store.claim_compaction("w2", pool="odd") is None
    with pytest.raises(TransactionStateError):
        store.start_compaction(job.id, 1, 1, "w2")  # type: ignore[arg-type]
    txn = acid.context.transactions.begin(acid.settings)
    store.start_compaction(job.id, txn.txn_id, 2, "w1")  # type: ignore[arg-type]
    with hive.connection() as connection:
        connection.execute(
            f'UPDATE "COMPACTION_QUEUE" SET "CQ_WORKER_ID" = \'another\' WHERE "CQ_ID" = {job.id}'.encode()
        )
    with pytest.raises(TransactionStateError, match="another"):
        txn.commit()
    txn.abort("its job is another's")
    with pytest.raises(TransactionStateError):
        store.release_compaction(job.id, "w1")
    with hive.connection() as connection:
        connection.execute(
            f'UPDATE "COMPACTION_QUEUE" SET "CQ_WORKER_ID" = \'~w1\' WHERE "CQ_ID" = {job.id}'.encode()
        )
    store.release_compaction(job.id, "w1")
    again = store.claim_compaction("w1", pool="odd")
    assert again is not None
    assert again.id > job.id
    store.end_compaction(again.id, "failed", "that is enough", worker="w1")
    assert compaction_queue.find_job(store.client, again.id).error == "that is enough"  # type: ignore[attr-defined,union-attr]
    assert _rows(session, "taken") == before


def test_nothing_stays_behind(acid: AcidSession, session: Hive) -> None:
    del session
    acid.context.read_leases.close()
    until = time.monotonic() + _PATIENCE
    while acid.context.store.show_locks() and time.monotonic() < until:
        time.sleep(0.5)
    assert acid.context.store.show_locks() == ()
