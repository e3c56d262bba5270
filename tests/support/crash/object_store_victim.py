"""A driver to be killed: python object_store_victim.py WAREHOUSE SEED SETTINGS, the store's URL in HIVEACID_STORE.

It says ``ready`` and waits for one line, {table: number of its next statement}; from then on a thread a table runs
statement after statement, each announced and then reported, one line of JSON each, until somebody kills it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from typing import Any

import hiveacid
from support.crash.object_store_statements import kind_of, run
from support.quiet_spark import quiet_spark

TIMEOUT = {"hive.txn.timeout": "10s"}


def main(warehouse: str, seed: int, settings: dict[str, str]) -> None:
    """Do not come back."""
    of_files = {f"spark.hadoop.{name}": value for name, value in settings.items()}
    builder = quiet_spark("hiveacid victim", {"spark.driver.memory": "1g", **of_files})
    spark = hiveacid.configure(builder).getOrCreate()
    acid = hiveacid.connect(spark, warehouse=warehouse, store=os.environ["HIVEACID_STORE"], settings=TIMEOUT)
    say("ready")
    begin: dict[str, int] = json.loads(sys.stdin.readline() or "{}")
    threading.Thread(target=end_with_parent, daemon=True).start()
    threads = [
        threading.Thread(target=work, args=(acid, seed, table, number)) for table, number in begin.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def end_with_parent() -> None:
    """Do not outlive who started this process."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def work(acid: Any, seed: int, table: str, number: int) -> None:
    """Run a table's statements for ever."""
    while True:
        kind = kind_of(seed, table, number)
        say("begin", table, kind)
        try:
            run(acid, kind, table, number)
        except BaseException:
            say("failed", table, kind, traceback.format_exc())
            raise
        say("end", table, kind)
        number += 1


def say(*words: str) -> None:
    """Write a line in one piece."""
    os.write(1, f"{json.dumps(words)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
