"""A process that kills itself at a point: python crash_victim.py WAREHOUSE TABLE STATEMENT VERB NTH MOMENT.

VERB ``spark`` is no verb of a port: the process dies as soon as Spark has begun to write staged files.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

import hiveacid
from crash_statements import STATEMENTS
from hiveacid.testing.faults import Faults, Moment, faulty, kill

TIMEOUT = {"hive.txn.timeout": "10s"}


def main(warehouse: str, table: str, statement: str, verb: str, nth: str, moment: str) -> None:
    """Run the statement; do not come back."""
    builder = hiveacid.configure(SparkSession.builder.master("local[1]").appName("hiveacid victim"))
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": f"{warehouse}-spark-{table}",
    }.items():
        builder = builder.config(key, value)
    acid = hiveacid.connect(builder.getOrCreate(), warehouse=warehouse, settings=TIMEOUT)
    faults = Faults()
    if verb == "spark":
        location = Path(acid.table(table).definition.location)
        threading.Thread(target=_kill_while_staging, args=(location, faults), daemon=True).start()
    else:
        faults.at(verb, int(nth), Moment(moment), kill)
    STATEMENTS[statement].run(faulty(acid, faults, heartbeats=True), table)


def _kill_while_staging(location: Path, faults: Faults) -> None:
    while not any(location.glob(".hiveacid-staging-*/_temporary/**/*.orc")):
        time.sleep(0.005)
    kill(faults)


if __name__ == "__main__":
    main(*sys.argv[1:])
