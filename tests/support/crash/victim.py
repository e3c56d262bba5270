"""A process that kills itself in several statements at once: python victim.py WAREHOUSE DEATHS.

DEATHS is JSON: table -> [statement, verb, which of its calls, before or after]. Each statement runs in a thread of its own
up to its point and stays there; the process kills itself when all are there. With the verb ``spark``, which is none of a
port, a statement begins when all others are there, and its point is where Spark has begun to write staged files.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hiveacid
from support.crash.faults import Faults, Moment, Pause, faulty, kill
from support.crash.statements import STATEMENTS
from support.quiet_spark import quiet_spark

if TYPE_CHECKING:
    from hiveacid import AcidSession

TIMEOUT = {"hive.txn.timeout": "10s"}
_PATIENCE = 300.0  # seconds
Death = tuple[str, str, int, str]


def main(warehouse: str, deaths: dict[str, Death]) -> None:
    """Run the statements; do not come back."""
    builder = quiet_spark("hiveacid victim", {"spark.sql.warehouse.dir": f"{warehouse}-spark"})
    acid = hiveacid.connect(hiveacid.configure(builder).getOrCreate(), warehouse=warehouse, settings=TIMEOUT)
    points = {table: _begun(acid, table, death) for table, death in deaths.items() if death[1] != "spark"}
    for table, point in points.items():
        if not point.reached.wait(_PATIENCE):
            raise SystemExit(f"{table}: {deaths[table]} was not reached")
    for table, (statement, verb, _, _) in deaths.items():
        if verb == "spark":
            location = Path(acid.table(table).definition.location)
            threading.Thread(target=_kill_while_staging, args=(location,), daemon=True).start()
            STATEMENTS[statement].run(acid, table)
    kill(Faults())


def _begun(acid: AcidSession, table: str, death: Death) -> Pause:
    """Begin a statement that waits at its point for ever."""
    statement, verb, nth, moment = death
    faults, point = Faults(), Pause(longest=10 * _PATIENCE)
    faults.at(verb, nth, Moment(moment), point)
    run = STATEMENTS[statement].run
    threading.Thread(target=run, args=(faulty(acid, faults, heartbeats=True), table), daemon=True).start()
    return point


def _kill_while_staging(location: Path) -> None:
    while not any(location.glob(".hiveacid-staging-*/_temporary/**/*.orc")):
        time.sleep(0.005)
    kill(Faults())


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
