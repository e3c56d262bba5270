"""Measure streams: rows a second that connections write, Arrow batches and JSON lines of ten columns.

make bench PROGRAM=ingest ARGS="--rows 2000000 --json figures.json"

Each connection is a process of its own with transactions of ``--batch`` rows; all write to one table of one
warehouse, durably. Peak memory is that of the largest process. A shared machine is noisy: the load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.clock import SystemClock
from hiveacid.streaming import Connection
from hiveacid.streaming.text_lines import JsonLines, parse_lines

COLUMNS = (
    Column("id", "bigint"),
    Column("customer", "int"),
    Column("kind", "string"),
    Column("name", "string"),
    Column("price", "double"),
    Column("amount", "decimal(12,2)"),
    Column("flag", "boolean"),
    Column("day", "date"),
    Column("at", "timestamp"),
    Column("note", "string"),
)
MICROS, DAYS = 1_700_000_000_000_000, 19_000


@dataclass(frozen=True)
class Figure:
    """What connections of one kind managed together."""

    kind: str
    connections: int
    rows: int
    seconds: float
    rows_per_second: int
    per_connection: int
    per_cpu_second: int
    peak_mb: int


def arrow_rows(count: int, seed: int) -> Any:
    """Return rows as an Arrow table."""
    rng = random.Random(seed)  # noqa: S311 - seeded data
    picks = [rng.randrange(1 << 30) for _ in range(count)]
    arrays = [
        pa.array(range(count), pa.int64()),
        pa.array([pick % 100_000 for pick in picks], pa.int32()),
        pa.array([("sale", "return", "gift")[pick % 3] for pick in picks]),
        pa.array([f"customer {pick % 50_000}" for pick in picks]),
        pa.array([pick / 977 for pick in picks], pa.float64()),
        pa.array([pick % 10**9 for pick in picks], pa.int64())
        .cast(pa.decimal128(21, 2))
        .cast(pa.decimal128(12, 2)),
        pa.array([pick % 2 == 0 for pick in picks]),
        pa.array([DAYS + pick % 700 for pick in picks], pa.int32()).cast(pa.date32()),
        pa.array([MICROS + pick * 1000 for pick in picks], pa.int64()).cast(pa.timestamp("us")),
        pa.array([None if pick % 4 else f"note {pick}" for pick in picks], pa.string()),
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(COLUMNS))


def json_lines(table: Any) -> bytes:
    """Return the same rows as JSON lines."""
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()).encode()


def client(kind: str, warehouse: str, rows: int, batch: int, ready: Barrier, results: Any) -> None:
    """Write ``rows`` rows in transactions of ``batch``; report CPU seconds and peak memory in KiB."""
    table = arrow_rows(batch, os.getpid())
    records = table if kind == "arrow" else json_lines(table)
    with Connection("t", warehouse=warehouse) as stream:
        ready.wait()
        began = time.process_time()
        for _ in range(rows // batch):
            with stream.transaction():
                rows_of = records if kind == "arrow" else parse_lines(JsonLines(), records, COLUMNS, 1)
                stream.write(rows_of)
    results.put((time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def measure(kind: str, connections: int, rows: int, batch: int) -> Figure:
    """Let some connections write side by side."""
    with tempfile.TemporaryDirectory() as scratch:
        store, root = open_store(scratch, None, Settings(), SystemClock())
        Path(root, "t").mkdir()
        properties = (("bucketing_version", "2"), ("transactional", "true"))
        store.create_table(
            TableDefinition(TableName("default", "t"), COLUMNS, ORC, f"{root}/t", properties=properties)
        )
        store.close()
        context = get_context("spawn")
        ready, results = context.Barrier(connections + 1), context.Queue()
        clients = [
            context.Process(target=client, args=(kind, root, rows, batch, ready, results))
            for _ in range(connections)
        ]
        for one in clients:
            one.start()
        ready.wait()
        began = time.perf_counter()
        used = [results.get() for _ in clients]
        seconds = time.perf_counter() - began
        for one in clients:
            one.join()
    total = rows // batch * batch * connections
    rate = round(total / seconds)
    per_cpu = round(total / sum(cpu for cpu, _ in used))
    peak = max(peak for _, peak in used) // 1024
    return Figure(kind, connections, total, round(seconds, 2), rate, rate // connections, per_cpu, peak)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="Arrow rows a connection; JSON: a fifth")
    parser.add_argument("--batch", type=int, default=200_000, help="rows a transaction")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    options = parser.parse_args(arguments)
    figures = []
    for kind, rows in (("arrow", options.rows), ("json", options.rows // 5)):
        for connections in (1, 4):
            figure = measure(kind, connections, rows, options.batch)
            figures.append(figure)
            print(
                f"{figure.kind:6} {figure.connections} connections: {figure.rows_per_second:>10,} rows/s "
                f"({figure.per_connection:,} each), {figure.per_cpu_second:,} a CPU second, peak {figure.peak_mb} MB, load {os.getloadavg()[0]:.1f}"
            )
    if options.json:
        Path(options.json).write_text(
            json.dumps([asdict(one) for one in figures], indent=1), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
