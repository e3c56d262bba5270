"""``hiveacid txn list`` and ``hiveacid locks`` expire silent transactions (issue 20, point 21)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from click.testing import CliRunner

from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Start
from support.clock import ManualClock
from support.samples import CLIENT, lock_on


def test_a_silent_transaction_is_not_listed_as_open(tmp_path: Path) -> None:
    """No service runs, and nobody waits for its lock."""
    for offset, state in ((-301_000, "ABORTED"), (-200_000, "OPEN")):
        clock = ManualClock(SystemClock().now() + offset)
        store, _ = open_store(str(tmp_path), None, Settings(), clock)
        begun = store.begin_txn(CLIENT, Start(locks=(lock_on(LockType.SHARED_READ),)))
        store.close()
        locks = CliRunner().invoke(main, ["locks", "-w", str(tmp_path), "--output", "json"])
        assert (f'"{begun.txn_id}"' in locks.output) == (state == "OPEN"), locks.output
        listed = CliRunner().invoke(main, ["txn", "list", "-w", str(tmp_path), "--output", "json"])
        times = [one for line in listed.output.splitlines() for one in list(json.loads(line).values())[2:4]]
        assert {datetime.fromisoformat(one).utcoffset() for one in times} == {timedelta(0)}
        rows = [list(json.loads(line).values()) for line in listed.output.splitlines()]
        assert [str(begun.txn_id), state] in [[str(value) for value in row[:2]] for row in rows], rows


def test_a_number_that_is_too_large_for_a_store_is_no_transaction(tmp_path: Path) -> None:
    store, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    store.close()
    done = CliRunner().invoke(main, ["txn", "abort", "-w", str(tmp_path), str(1 << 63)])
    assert (done.exit_code, done.output) == (
        1,
        f"error 10262: transaction {1 << 63} does not exist: see SHOW TRANSACTIONS\n",
    )
