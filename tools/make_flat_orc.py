"""Write tests/unit/orc/data: flat files of ACID events, made by Spark's own ORC writer as `spark.write.sort_and_stage` makes them.

Run it with a Python that has pyspark, from the project's root: ``python tools/make_flat_orc.py``.
``insert.orc`` and ``delete.orc`` hold 1,200 rows in several stripes, every type; ``plain.orc`` has no ACID columns.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

TARGET = Path(__file__).resolve().parents[1] / "tests" / "unit" / "orc" / "data"
ROWS = 1200
EVERY = 7  # as many rows apart are nulls
BUCKET = 1 << 29 | 1 << 16  # bucket 1, statement 0

VALUES = {
    "boolean": "id % 2 = 0",
    "tinyint": "cast(id % 100 as tinyint)",
    "smallint": "cast(id as smallint)",
    "int": "cast(id as int)",
    "bigint": "id * 1000000000",
    "float": "cast(id / 3 as float)",
    "double": "id / 7",
    "decimal(10,2)": "cast(id / 100 as decimal(10,2))",
    "decimal(38,18)": "cast(id as decimal(38,18))",
    "string": "concat('s', id)",
    "binary": "cast(concat('b', id) as binary)",
    "timestamp": "timestamp_micros(1577836800000000 + id * 1000001)",
    "date": "date_add(date'2020-01-01', cast(id as int))",
    "array<string>": "array(concat('a', id), null)",
    "map<string,timestamp>": "map('k', timestamp_micros(id * 1000000))",
    "struct<x:int,y:array<struct<z:string>>>": "struct(cast(id as int), array(struct(concat('z', id))))",
}
"""Spark type and the value of row ``id``; every seventh row has nulls."""


def user_columns(*, deletes: bool) -> list[Column]:
    """Return c0 … cn; all null for delete events."""
    columns = []
    for number, (of, value) in enumerate(VALUES.items()):
        column = F.lit(None) if deletes else F.when(F.col("id") % EVERY != 0, F.expr(value))
        columns.append(column.cast(of).alias(f"c{number}"))
    return columns


def events(spark: SparkSession, *, deletes: bool) -> DataFrame:
    """Return flat ACID events of write id 5 (inserts), or of write id 6 that delete rows of write id 5."""
    return spark.range(0, ROWS, 1, 1).select(
        F.lit(2 if deletes else 0).alias("operation"),
        F.lit(5).cast("bigint").alias("originalTransaction"),
        F.lit(BUCKET).alias("bucket"),
        F.col("id").alias("rowId"),
        F.lit(6 if deletes else 5).cast("bigint").alias("currentTransaction"),
        F.lit(None if deletes else True).cast("boolean").alias("row"),
        *user_columns(deletes=deletes),
    )


def write(frame: DataFrame, name: str, stripe: int) -> None:
    """Write one file of several stripes."""
    with tempfile.TemporaryDirectory() as scratch:
        options = {
            "orc.stripe.size": str(stripe),
            "orc.rows.between.memory.checks": "200",
            "compression": "zlib",
        }
        frame.write.options(**options).orc(f"{scratch}/out")
        (part,) = Path(scratch, "out").glob("part-*.orc")
        shutil.copy(part, TARGET / name)
        print(name, (TARGET / name).stat().st_size, "bytes")


def main() -> None:
    """Write the three files."""
    TARGET.mkdir(parents=True, exist_ok=True)
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key in ("spark.sql.session.timeZone", "spark.driver.extraJavaOptions"):
        session = session.config(key, "UTC" if key.endswith("timeZone") else "-Duser.timezone=UTC")
    spark = session.config("spark.sql.orc.columnarWriterBatchSize", "200").getOrCreate()
    write(events(spark, deletes=False), "insert.orc", 32768)
    write(events(spark, deletes=True), "delete.orc", 4096)
    write(spark.range(0, ROWS, 1, 1).select(*user_columns(deletes=False)), "plain.orc", 32768)
    spark.stop()


if __name__ == "__main__":
    main()
