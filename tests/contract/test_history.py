"""Histories of random clients under misfortune, judged by the checker of ``support.history``.

Short versions of what ``make stress`` runs; those on servers stand in ``server_rules.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from histories import history

from hiveacid.config import Settings
from hiveacid.ports.transactions import Begun, Client, Start, TxnKind
from hiveacid.stores.limits import Limits
from support.history.__main__ import main
from support.history.anomalies import AnomalyKind
from support.history.client import HistoryClient, Workload
from support.history.planted import with_bug
from support.history.records import Outcome
from support.history.tables import Tables
from support.history.threads import ThreadedRun
from support.history.verdict import Verdict, judge
from support.history.wire import address_of, through
from support.memory_store.store import MemoryStore


def threaded(directory: Path, transactions: int, bug: str = "", seed: int = 0) -> Verdict:
    store = MemoryStore(limits=replace(Limits.of(Settings()), txn_timeout=0.4))
    run = ThreadedRun(with_bug(bug, store), directory, transactions, seed=seed, timeout=0.4)
    return judge(run.run())


def test_threads_on_the_store_in_memory(tmp_path: Path) -> None:
    verdict = threaded(tmp_path, 200)
    assert [str(one) for one in verdict.anomalies] == []
    assert (
        190 <= verdict.transactions <= 200
    )  # one that waits past its time-out while it begins has no record
    assert {"committed", "aborted"} <= verdict.outcomes.keys()


@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        ("conflict check off", {AnomalyKind.LOST_UPDATE}),
        ("conflicts counted late", {AnomalyKind.LOST_UPDATE}),
        (
            "gap treated as committed",
            {AnomalyKind.ABORTED_READ, AnomalyKind.REAL_TIME, AnomalyKind.NON_REPEATABLE},
        ),
        ("snapshot taken late", {AnomalyKind.REAL_TIME, AnomalyKind.G_SINGLE}),
    ],
)
def test_planted_bugs_are_caught(tmp_path: Path, bug: str, kinds: set[AnomalyKind]) -> None:
    """Within five runs: what threads do in which order is not ours to say."""
    found: Counter[AnomalyKind] = Counter()
    for seed in range(5):
        found += Counter(one.kind for one in threaded(tmp_path / str(seed), 120, bug, seed).anomalies)
        if kinds & found.keys():
            return
    pytest.fail(f"not caught: {bug}; found only {dict(found)}")


def test_processes_on_sqlite(tmp_path: Path) -> None:
    code, said = history(f"sqlite:///{tmp_path}/store.db", "--transactions", "150", "--clients", "4")
    assert code == 0, said
    assert "no anomaly" in said


def test_no_process_is_struck_after_the_last_one_has_ended(tmp_path: Path) -> None:
    """A strike is due at each look: so also at the one that finds that the last client has ended."""
    arguments = ("--transactions", "0", "--clients", "1", "--struck", "1e6")
    code, said = history(f"sqlite:///{tmp_path}/store.db", *arguments)
    assert (code, "no anomaly" in said) == (0, True), said


@pytest.mark.exhaustive("planted bugs in threads stay")
def test_a_planted_bug_is_caught_in_processes(tmp_path: Path) -> None:
    """The program says what it found, and ends with 1. Within five runs: on a busy machine few transactions meet."""
    for seed in range(5):
        url = f"sqlite:///{tmp_path}/store{seed}.db"
        code, said = history(url, "--transactions", "100", "--clients", "4", "--bug", "conflict check off")
        if code:
            break
    assert code == 1, said
    assert "lost update: transactions" in said


def test_a_client_that_is_reaped_before_its_snapshot_goes_on(tmp_path: Path) -> None:
    """Its lock had to wait, and its transaction is gone when it asks: one record of an aborted transaction."""
    store = MemoryStore(limits=replace(Limits.of(Settings()), txn_timeout=0.4))
    workload = Workload(at_once=1.0, read_only=0.0)
    client = HistoryClient("a", store, Tables(tmp_path), lambda _: None, Random(1), 0.4, workload)
    begin = store.begin_txn

    def begin_and_be_reaped(who: Client, start: Start, kind: TxnKind) -> Begun:
        del start
        begun = begin(who, Start(), kind)
        store.abort_txns([begun.txn_id], "reaped")
        return replace(begun, snapshot=None)

    store.begin_txn = begin_and_be_reaped  # type: ignore[method-assign]
    record = client.run()
    client.heartbeats.close()
    assert record is not None
    assert record.outcome is Outcome.ABORTED


def test_a_password_among_the_arguments_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody could read it there."""
    with pytest.raises(SystemExit):
        main(["--store", "postgresql+psycopg://ann:hush@db.example/shop"])
    said = capsys.readouterr().err
    assert "HIVEACID_STORE" in said
    assert "hush" not in said


def test_urls_through_the_wire() -> None:
    url = "postgresql+psycopg://ann:s%2F%40@db.example:5433/shop?x=1"
    assert address_of(url) == ("db.example", 5433)
    assert through(url, 17) == "postgresql+psycopg://ann:s%2F%40@127.0.0.1:17/shop?x=1"
    assert address_of("sqlite:////wh/store.db") is None
