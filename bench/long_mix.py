"""The hourly mix again and again, on a table that keeps its size: rounds must not get slower, nor files more.

PYTHONPATH=src .venv-bench/bin/python bench/long_mix.py --minutes 60

A round is one MERGE that updates a tenth of the rows, inserts a twentieth and deletes those that the round before
inserted; every other round compacts the table. Each line tells a round's seconds, those of a query, the files of the
table and the JVM's heap after a garbage collection.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import peers
from cases import FACT, FACT_BUCKETS, MERGE_LOG, fact_rows

import hiveacid

_QUERY = "SELECT count(*), sum(quantity), sum(price) FROM {t}"


def _log(rows: int, nth: int) -> str:
    """Return a round's log: updates of every tenth key, deletions of the last round's inserts, new inserts."""
    new = rows // 20
    first = rows + nth * new
    keys = (
        f"SELECT id * 10 + {nth % 10} AS k FROM range({rows // 10}) "
        f"UNION ALL SELECT id FROM range({first - new if nth else first}, {first + new})"
    )
    return f"SELECT *, k >= {rows} AND k < {first} AS gone FROM ({fact_rows(keys)})"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory() as scratch:
        spark: Any = peers.session([], Path(scratch), [], "6g")
        ours = peers.Ours(hiveacid.connect(spark, warehouse=f"{scratch}/ours"))
        ours.create("fact", FACT, "day", FACT_BUCKETS)
        ours.insert("fact", spark.sql(fact_rows(f"SELECT id AS k FROM range(0, {rows}, 1, 4)")))
        end, nth = time.monotonic() + arguments.minutes * 60, 0
        while time.monotonic() < end:
            spark.sql(_log(rows, nth)).createOrReplaceTempView("log")
            start = time.perf_counter()
            ours.sql(MERGE_LOG, "fact")
            merged = time.perf_counter()
            if nth % 2:
                ours.compact("fact")
            compacted = time.perf_counter()
            (row,) = ours.sql(_QUERY, "fact").collect()
            asked = time.perf_counter()
            if row[0] != rows + rows // 20:
                raise SystemExit(f"round {nth}: {row[0]} rows")
            files = sum(1 for path in Path(scratch, "ours").rglob("bucket_*"))
            heap = spark._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001
            spark._jvm.System.gc()  # noqa: SLF001
            used = (heap.totalMemory() - heap.freeMemory()) >> 20
            print(
                f"{nth} merge {merged - start:.2f} compact {compacted - merged:.2f} query {asked - compacted:.2f} "
                f"files {files} heap {used} MB",
                flush=True,
            )
            nth += 1
        spark.stop()


if __name__ == "__main__":
    main()
