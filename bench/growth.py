"""Growth: the same work over growing tables, and how steeply it grows: seconds as a power of the amount."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from measure import Figure, Run
from reading import FILES, Reading
from results import Result
from sales import NARROW, SALES, narrow, sales

from hiveacid.core.model import TxnId
from hiveacid.streaming import Connection
from hiveacid.transactions.transaction import this_client

STEEPEST = 1.15  # n log n looks like this power over two decades
_BATCH = 1000  # transactions opened at once: hive.txn.max.open.batch
AGGREGATE = "SELECT sum(ss_quantity), avg(ss_sales_price), max(ss_net_profit) FROM {t}"


def power(points: Sequence[tuple[int, Figure]]) -> float:
    """Return the exponent of the straight line through the upper half of the points, both axes logarithmic."""
    upper = points[len(points) // 2 - 1 :]
    xs = [math.log(work) for work, _ in upper]
    ys = [math.log(figure.seconds) for _, figure in upper]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def measured(reading: Reading, *, quick: bool) -> Iterator[Result]:
    """Yield a result a point of each curve."""
    for curve in (_rows, _deltas, _events, _partitions, _open_txns):
        points: dict[str, list[tuple[int, Figure]]] = {}
        for one in curve(reading, quick=quick):
            points.setdefault(one.case, []).append((one.work, one.figures["hiveacid"]))
            yield one
        for case, found in points.items():
            steep = power(found)
            figures = {"hiveacid": Figure((Run(steep, steep),)), "linear": Figure((Run(1.0, 1.0),))}
            yield Result("growth", case, "power of the amount", figures, STEEPEST, "linear")


def _sizes(most: int, *, quick: bool) -> list[int]:
    top = most // 10 if quick else most
    return sorted({max(1, top // part) for part in (100, 30, 10, 3, 1)})


def _point(reading: Reading, what: str, work: int, action: Callable[[], object]) -> Result:
    meter = reading.meter
    meter.peak()
    figures = meter.in_turn({"hiveacid": action}, 3)
    return Result("growth", what, f"{work:,} (peak {meter.peak()} MB)", figures, work=work)


def _asked(
    reading: Reading, table: str, text: str = "SELECT sum(v), count(*) FROM {t}"
) -> Callable[[], object]:
    return lambda: reading.ours.sql(text, table).collect()


def _rows(reading: Reading, *, quick: bool) -> Iterator[Result]:
    for work in _sizes(reading.rows, quick=quick):
        name = f"rows{work}"
        reading.ours.create(name, SALES)
        reading.ours.insert(name, sales(reading.meter.spark, 0, work, FILES))
        yield _point(reading, "rows", work, _asked(reading, name, AGGREGATE))


def _deltas(reading: Reading, *, quick: bool) -> Iterator[Result]:
    ours = reading.ours
    ours.create("growing_deltas", NARROW)
    batch = pa.table({"k": pa.array(range(100), pa.int64()), "v": pa.array(range(100), pa.int32())})
    store: Any = ours.acid.context.store
    with Connection("growing_deltas", store=store) as connection:
        have = 0
        for work in _sizes(1000, quick=quick):
            for _ in range(have, work):
                with connection.transaction():
                    connection.write(batch)
            have = work
            yield _point(reading, "insert deltas", work, _asked(reading, "growing_deltas"))


def _events(reading: Reading, *, quick: bool) -> Iterator[Result]:
    spark, ours = reading.meter.spark, reading.ours
    for work in _sizes(1_000_000, quick=quick):
        name = f"events{work}"
        ours.create(name, NARROW)
        ours.insert(name, narrow(spark, 0, 2 * work + 1_000_000, FILES))
        ours.sql(f"DELETE FROM {{t}} WHERE pmod(k, 2) = 0 AND k < {2 * work}", name)
        yield _point(reading, "delete events", work, _asked(reading, name))


def _partitions(reading: Reading, *, quick: bool) -> Iterator[Result]:
    spark, ours = reading.meter.spark, reading.ours
    for work in _sizes(10_000, quick=quick):
        name = f"parts{work}"
        ours.create(name, f"{NARROW}, p int", "p")
        rows = narrow(spark, 0, work, 1).selectExpr("k", "v", "CAST(k AS INT) AS p")
        ours.insert(name, rows)
        one = f"SELECT sum(v) FROM {{t}} WHERE p = {work // 2}"
        figures = reading.meter.in_turn({"hiveacid": _asked(reading, name, one)}, 3)
        yield Result("growth", "one partition of", f"{work:,}", figures, work=work)
        yield _point(reading, "all partitions", work, _asked(reading, name))


def _open_txns(reading: Reading, *, quick: bool) -> Iterator[Result]:
    store, ours = reading.ours.acid.context.store, reading.ours
    ours.create("beside", NARROW)
    ours.insert("beside", narrow(reading.meter.spark, 0, 100, 1))
    have: list[TxnId] = []
    for work in _sizes(10_000, quick=quick):
        while len(have) < work:
            have += store.open_txns(this_client(), min(_BATCH, work - len(have)))
        yield _point(reading, "open transactions", work, _asked(reading, "beside"))
    store.abort_txns(have, "the benchmark is over")
