"""Measure a table of very many files: original files from before a conversion, and deltas on top of them.

make bench PROGRAM=many_files ARGS="--sizes 1000,3000,10000"

For each number of original files (a tenth as many deltas come on top): listing, planning, reading, against plain
Spark on the same files. What is linear keeps its microseconds a file from size to size. A tenth of the deltas
are delete deltas; they delete rows of other deltas (`apart`), or of original files (`touched`).
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import peers
import pyorc
from pyspark.sql import DataFrame
from reading import consumed
from rich.console import Console
from rich.table import Table

import hiveacid
from hiveacid import AcidSession
from hiveacid.storage.snapshot_locations import list_locations

ROWS, DELTA_ROWS, BUCKETS, EVERY = 1000, 100, 16, 10
COLUMNS = "id:int,name:string"
EVENT = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    f"row:struct<{COLUMNS}>>"
)
CREATE = "CREATE TABLE {} (id INT, name STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
V1 = 1 << 29


@dataclass(frozen=True)
class Measured:
    """Seconds of one step at one size; ``plain``: of plain Spark on the same files, where something is like it."""

    step: str
    files: int
    acid: float
    plain: float | None = None


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def consume(frame: DataFrame) -> None:
    """Compute every row."""
    consumed(frame, whole=True)


def orc(rows: Sequence[Any], schema: str, metadata: dict[str, str]) -> bytes:
    """Return an ORC file."""
    target = io.BytesIO()
    with pyorc.Writer(target, schema) as writer:
        writer.writerows(rows)
        writer.set_user_metadata(**{key: text.encode() for key, text in metadata.items()})
    return target.getvalue()


def make(root: Path, originals: int, *, touched: bool) -> int:
    """Write a table's files; return the number of deltas."""
    root.mkdir(parents=True)
    data = orc([(n, f"name {n % 100}") for n in range(ROWS)], f"struct<{COLUMNS}>", {})
    for number in range(originals):
        copy = number // BUCKETS
        name = f"{number % BUCKETS:06d}_0" + (f"_copy_{copy}" if copy else "")
        (root / name).write_bytes(data)
    deltas = originals // 10
    for write_id in range(1, deltas + 1):
        is_delete = write_id % EVERY == 0
        if is_delete:
            key = (0, V1, write_id) if touched else (write_id - 1, V1, 7)
            rows: list[Any] = [(2, *key, write_id, None)]
        else:
            rows = [(0, write_id, V1, n, write_id, (n, "delta")) for n in range(DELTA_ROWS)]
        counts = "0,0,1" if is_delete else f"{DELTA_ROWS},0,0"
        folder = root / f"{'delete_' if is_delete else ''}delta_{write_id:07d}_{write_id:07d}_0000"
        folder.mkdir()
        meta = {"hive.acid.version": "2", "hive.acid.stats": counts}
        (folder / "bucket_00000").write_bytes(orc(rows, EVENT, meta))
        (folder / "_orc_acid_version").write_bytes(b"2")
    return deltas


def measure(acid: AcidSession, scratch: Path, originals: int, *, touched: bool) -> Iterator[Measured]:
    """Yield the measurements of one size."""
    kind = "touched" if touched else "apart"
    name = f"t_{kind}_{originals}"
    root = scratch / name
    deltas = make(root, originals, touched=touched)
    files = originals + deltas
    acid.adopt(CREATE.format(name), str(root), f"default.{name}:{deltas}:9223372036854775807::")
    table = acid.table(name)
    context, spark = acid.context, acid.context.env.spark
    paths = [str(path) for path in sorted(root.glob("0*"))]
    with context.read_leases.acquire(context.settings) as reader:
        write_ids = reader.valid_write_ids(table.name)
        listing = seconds(
            lambda: list_locations(context.fs, table.definition, None, write_ids, reader.snapshot())
        )
        yield Measured(f"list and select, {kind}", files, listing)

    def plain() -> Any:
        return spark.read.schema("id INT, name STRING").orc(paths)

    yield Measured(f"plan, first time, {kind}", files, seconds(table.to_df), seconds(plain))
    yield Measured(f"plan, again, {kind}", files, seconds(table.to_df), seconds(plain))
    frame, flat = table.to_df(), plain()
    queries: dict[str, Callable[[Any], Any]] = {
        "count": lambda one: one.groupBy().count(),
        "full scan": lambda one: one,
    }
    for query, plan in queries.items():
        consume(plan(flat))  # the file system's cache is warm for both
        yield Measured(
            f"{query}, {kind}", files, seconds(lambda plan=plan: consume(plan(frame))),  # type: ignore[misc]
            seconds(lambda plan=plan: consume(plan(flat))),  # type: ignore[misc]
        )  # fmt: skip
    ids = table.scan(row_ids=True).to_df()
    yield Measured(f"full scan with row ids, {kind}", files, seconds(lambda: consume(ids)))
    yield Measured(f"check --quick, {kind}", files, seconds(lambda: table.inspect.check(quick=True)))
    acid.sql(f"DROP TABLE {name}")


def show(console: Console, found: Sequence[Measured]) -> None:
    """Print a table: seconds, and microseconds a file, which stay where a step is linear."""
    table = Table(title="many files; seconds")
    for heading in ("", "files", "ACID", "plain Spark", "ratio", "µs a file"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for one in sorted(found, key=lambda one: (one.step, one.files)):
        plain = "" if one.plain is None else f"{one.plain:.2f}"
        ratio = "" if one.plain is None else f"{one.acid / one.plain:.2f}"
        table.add_row(
            one.step, f"{one.files:,}", f"{one.acid:.2f}", plain, ratio, f"{one.acid / one.files * 1e6:.0f}"
        )
    console.print(table)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,3000,10000", help="numbers of original files")
    parser.add_argument("--json", action="store_true", help="one JSON object a measurement")
    arguments = parser.parse_args()
    console, found = Console(), []
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as directory:
        scratch = Path(directory)
        spark = peers.session([], scratch, [], "6g")
        with hiveacid.connect(spark, warehouse=str(scratch / "warehouse")) as acid:
            for size in map(int, arguments.sizes.split(",")):
                for touched in (False, True):
                    for one in measure(acid, scratch, size, touched=touched):
                        found.append(one)
                        if arguments.json:
                            print(json.dumps(asdict(one)), flush=True)
                        else:
                            console.print(f"{one.step}, {one.files:,} files: {one.acid:.2f} s")
    if not arguments.json:
        show(console, found)


if __name__ == "__main__":
    main()
