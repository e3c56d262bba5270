"""Measure the main verbs against plain Spark on flat ORC files of the same rows.

make bench ARGS="--rows 2000000 --json"

Each measurement runs three times after one warm-up (writes: once); the best is shown. A shared machine is
noisy: trust ratios, not seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import hiveacid
from hiveacid import AcidSession

READS = 3
COLUMNS = "id INT, grp INT, price DOUBLE, amount DECIMAL(10,2), name STRING, at TIMESTAMP"


@dataclass(frozen=True)
class Measurement:
    """Seconds of a verb on an ACID table, and of the like on flat ORC (None: nothing is like it)."""

    name: str
    acid: float
    flat: float | None = None


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yield a quiet local Spark session."""
    builder = hiveacid.configure(SparkSession.builder.master("local[*]").appName("hiveacid bench"))
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.orc.compression.codec": "zlib",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def best(action: Callable[[], object]) -> float:
    """Return the best of some runs after a warm-up."""
    action()
    return min(seconds(action) for _ in range(READS))


def consume(frame: DataFrame) -> None:
    """Compute every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Return the rows to measure with."""
    return spark.range(count).select(
        F.col("id").cast("int"),
        (F.col("id") % 1000).cast("int").alias("grp"),
        (F.col("id") * 0.37).alias("price"),
        (F.col("id") % 99_999 / 100).cast("decimal(10,2)").alias("amount"),
        F.concat(F.lit("name "), F.col("id") % 5000).alias("name"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
    )


def reads(name: str, acid: Callable[[str], DataFrame], flat: DataFrame) -> Iterator[Measurement]:
    """Measure queries; ``acid`` makes a scan with a filter (or the empty text)."""
    queries: dict[str, Callable[[DataFrame], DataFrame]] = {
        "count": lambda frame: frame.groupBy().count(),
        "aggregate of 3 columns": lambda frame: frame.agg(F.sum("id"), F.max("price"), F.avg("amount")),
        "group by": lambda frame: frame.groupBy("grp").agg(F.sum("amount")),
        "full scan": lambda frame: frame,
    }
    for query, plan in queries.items():

        def run(plan: Callable[[DataFrame], DataFrame], frame: DataFrame) -> Callable[[], None]:
            return lambda: consume(plan(frame))

        yield Measurement(f"{query}, {name}", best(run(plan, acid(""))), best(run(plan, flat)))
    where = "id BETWEEN 1000 AND 1100"
    yield Measurement(
        f"selective filter, {name}",
        best(lambda: consume(acid(where))),
        best(lambda: consume(flat.where(where))),
    )


def measure(spark: SparkSession, acid: AcidSession, scratch: Path, count: int) -> Iterator[Measurement]:
    """Yield the measurements one by one."""
    source = rows(spark, count).cache()
    source.count()
    flat_path = str(scratch / "flat")
    acid.sql(f"CREATE TABLE t ({COLUMNS}) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    table = acid.table("t")

    def scanned(where: str) -> DataFrame:
        return table.scan(where=where or None).to_df()

    flat_write = seconds(lambda: source.write.orc(flat_path))
    yield Measurement("insert", seconds(lambda: table.insert(source)), flat_write)
    flat = spark.read.orc(flat_path)
    yield from reads("no deletes", scanned, flat)
    yield Measurement("delete 1 %", seconds(lambda: table.delete("id % 100 = 7")))
    yield Measurement("update 1 %", seconds(lambda: table.update({"price": "price + 1"}, "id % 100 = 8")))
    batch = source.where("id % 50 = 1").unionByName(source.limit(1000).withColumn("id", F.col("id") + count))
    merge = table.merge(batch, on="t.id = s.id").when_matched_update().when_not_matched_insert()
    yield Measurement("merge 2 %", seconds(merge.execute))
    yield from reads("after 4 % of changes", scanned, flat)
    rewrite = seconds(lambda: flat.write.orc(str(scratch / "rewritten")))
    yield Measurement("major compaction", seconds(lambda: table.compact("major")), rewrite)
    yield from reads("after compaction", scanned, flat)


def show(console: Console, measurements: list[Measurement], count: int) -> None:
    """Print a table."""
    table = Table(title=f"{count:,} rows; seconds")
    for heading in ("", "ACID", "flat ORC", "ratio"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for one in measurements:
        flat = "" if one.flat is None else f"{one.flat:.2f}"
        ratio = "" if one.flat is None else f"{one.acid / one.flat:.2f}"
        table.add_row(one.name, f"{one.acid:.2f}", flat, ratio)
    console.print(table)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="one JSON object a measurement")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as directory, session() as spark:
        scratch = Path(directory)
        with hiveacid.connect(spark, warehouse=str(scratch / "warehouse")) as acid:
            measurements = []
            for measurement in measure(spark, acid, scratch, arguments.rows):
                measurements.append(measurement)
                if arguments.json:
                    print(json.dumps(asdict(measurement)), flush=True)
                else:
                    console.print(f"{measurement.name}: {measurement.acid:.2f} s")
    if not arguments.json:
        show(console, measurements, arguments.rows)


if __name__ == "__main__":
    main()
