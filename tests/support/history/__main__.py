"""``python -m support.history --store URL --transactions N``: run clients, judge what they saw.

Prints one line, and the first anomalies if there are some; exit 1 then. A URL with a password stands in the
variable HIVEACID_STORE instead: everybody on the machine can read a command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hiveacid.stores.sql.database import has_password
from support.history.planted import BUGS
from support.history.processes import Misfortune, ProcessRun
from support.history.verdict import judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m support.history", description=__doc__)
    parser.add_argument("--store", help="URL of an empty store (default: the variable HIVEACID_STORE)")
    parser.add_argument("--transactions", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--struck", type=float, default=Misfortune.struck, help="clients killed or stopped a second"
    )
    parser.add_argument("--timeout", type=float, default=1.0, help="hive.txn.timeout in seconds")
    parser.add_argument("--longest", type=float, default=600.0, help="give up after so many seconds")
    parser.add_argument("--bug", choices=list(BUGS), default="", help="plant a bug, to see it caught")
    chosen = parser.parse_args(arguments)
    if chosen.store and has_password(chosen.store):
        parser.error("--store takes no password: put the URL into HIVEACID_STORE")
    store = chosen.store or os.environ.get("HIVEACID_STORE") or parser.error("no --store, no HIVEACID_STORE")
    with tempfile.TemporaryDirectory(prefix="hiveacid-history-") as directory:
        run = ProcessRun(
            store,
            Path(directory, "tables"),
            chosen.transactions,
            clients=chosen.clients,
            seed=chosen.seed,
            timeout=chosen.timeout,
            misfortune=Misfortune(struck=chosen.struck),
            bug=chosen.bug,
            longest=chosen.longest,
        )
        verdict = judge(run.run())
    sys.stdout.write(f"{verdict}\n")
    for text in verdict.examples():
        sys.stdout.write(f"  {text}\n")
    return 1 if verdict.anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
