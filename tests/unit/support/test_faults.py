"""Fault points: what a process that is taken for dead does."""

from __future__ import annotations

import threading

import pytest

from hiveacid.ports.transactions import Client
from hiveacid.transactions.heartbeats import Heartbeats
from support.crash.faults import Faults, FaultyPort, Moment, SimulatedCrash, crash
from support.memory_store.store import MemoryStore


def test_heartbeats_of_a_dead_process_do_not_end_with_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback of a thread fails whatever test runs meanwhile."""
    messages: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", messages.append)
    faults = Faults()
    faults.at("store.show_locks", 1, Moment.BEFORE, crash)
    store = FaultyPort(MemoryStore(), "store", faults)
    heartbeats = Heartbeats(store, 0.01)  # type: ignore[arg-type]
    failed = threading.Event()
    monkeypatch.setattr("hiveacid.transactions.heartbeats.logger.warning", lambda *_, **__: failed.set())
    heartbeats.track(store.open_txns(Client("ann", "host-1", "tests"))[0])
    with pytest.raises(SimulatedCrash):
        store.show_locks()
    assert failed.wait(30), "a beat after the crash"
    heartbeats.close()
    assert messages == []
