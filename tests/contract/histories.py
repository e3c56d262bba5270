"""What several processes did to one store, and what must be true of it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hiveacid.core.format.write_id_lists import parse_txn_list, parse_write_id_list

CLIENT = Path(__file__).parent / "client_process.py"


def run_clients(url: str, processes: int, transactions: int) -> list[dict[str, Any]]:
    """Start clients at once on one store and return all that they report."""
    started = [
        subprocess.Popen(
            [sys.executable, str(CLIENT), url, str(seed), str(transactions)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(processes)
    ]
    ended = [process.communicate(timeout=300) for process in started]
    assert [errors for _, errors in ended if errors] == []
    return [json.loads(line) for lines, _ in ended for line in lines.splitlines()]


def history(url: str, *arguments: str) -> tuple[int, str]:
    """Let ``python -m support.history`` run clients in processes; return its exit code and words."""
    command = [sys.executable, "-m", "support.history", *arguments]
    environment = {**os.environ, "HIVEACID_STORE": url}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    return ended.returncode, ended.stdout + ended.stderr


def anomalies(history: list[dict[str, Any]]) -> list[str]:
    """Return everything that may not happen under snapshot isolation, as sentences."""
    found = []
    for what in ("txn", "lock", "write_id"):
        ids = [one[what] for one in history]
        if len(set(ids)) != len(ids):
            found.append(f"a {what} id was given twice")
    if sorted(one["write_id"] for one in history) != list(range(1, len(history) + 1)):
        found.append("write ids have gaps")
    found += [
        f"{one['txn']} and {other['txn']} both changed {one['partition']} without seeing each other"
        for one, other in itertools.combinations(history, 2)
        if _changed(one) and _changed(other) and one["partition"] == other["partition"] and _blind(one, other)
    ]
    for reader in history:
        found += _unlike_snapshot(reader, history)
    return found


def needless_conflicts(history: list[dict[str, Any]]) -> list[str]:
    """Return conflicts that nobody caused: no commit of the partition was hidden from the loser."""
    return [
        f"{one['txn']} lost for no reason"
        for one in history
        if one["outcome"] == "conflict"
        and not any(
            _changed(other) and other["partition"] == one["partition"] and not _sees(one, other)
            for other in history
        )
    ]


def _changed(one: dict[str, Any]) -> bool:
    return one["outcome"] == "committed" and one["operation"] in ("u", "d")


def _sees(reader: dict[str, Any], other: dict[str, Any]) -> bool:
    return parse_txn_list(reader["snapshot"]).is_valid(other["txn"])


def _blind(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return not _sees(one, other) and not _sees(other, one)


def _unlike_snapshot(reader: dict[str, Any], history: list[dict[str, Any]]) -> list[str]:
    """Compare the write ids that a reader believed with the transactions in its snapshot."""
    snapshot, seen = parse_txn_list(reader["snapshot"]), parse_write_id_list(reader["seen"])
    return [
        f"{reader['txn']} read write id {other['write_id']} against its snapshot"
        for other in history
        if seen.is_valid(other["write_id"]) != snapshot.is_valid(other["txn"])
        or (snapshot.is_valid(other["txn"]) and other["outcome"] != "committed")
    ]
