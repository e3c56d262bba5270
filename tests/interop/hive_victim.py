"""A process of ours that writes to a table beside others, until it is killed: hive_victim.py URL SCRATCH SEED TIME_OUT.

Where the metastore gives jobs to workers elsewhere, it compacts, too.

Before a statement it prints what it is going to do, afterwards how that ended.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from random import Random

from hive_writers import ended, next_statement, settings, worker
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import UnsupportedFeatureError


def main(url: str, scratch: str, seed: str, timeout: str) -> None:
    builder = hiveacid.configure(SparkSession.builder.master("local[1]").appName("victim"))
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "700m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.local.dir": f"{scratch}/local",
    }.items():
        builder = builder.config(key, value)
    acid = hiveacid.connect(builder.getOrCreate(), store=url, settings=settings(int(timeout)))
    with suppress(UnsupportedFeatureError):  # a metastore of Hive 3
        worker(acid).start()
    draw, number = Random(seed), 0
    while True:
        number += 1
        task = next_statement(draw, int(seed) * 1000 + number)
        print("try", task.number, task.what, flush=True)  # noqa: T201 - that is how it speaks
        print(ended(lambda text=task.text: acid.sql(text)), task.number, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
