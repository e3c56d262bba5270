"""The use cases that ACID in Hive was asked for, beside the others doing the same, a reader at work all the time.

With 10 million rows: a dimension table of half of them gets half a million inserts and updates an hour; a day's 100,000
scattered rows have to be deleted; a fact table, partitioned and bucketed, gets a million inserts, updates and deletes
an hour, compacted in between. The reader asks a sum over the table again and again, in a pool of Spark's of its own,
so that its jobs do not wait for all tasks of the work; how much slower it gets is a figure, too. Everyone does all of it
once on a table of its own, and then some times more on others, in turn. The first time is a figure of its own: Java
compiles the code of these statements then, which a service that runs for hours does once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Self

from measure import Figure, Run
from peers import Peer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from reading import FILES, Reading
from results import Result
from sales import SEED

HOURS = 3
_READER = 1.5  # as slow as it may get
_DIMENSION = "k bigint, a string, b string, n int, price decimal(10,2)"
FACT = "k bigint, item int, quantity int, price decimal(10,2), day int"
_DAYS = 10
FACT_BUCKETS = ("k", 4)
MERGE_LOG = (
    "MERGE INTO {t} t USING log s ON t.k = s.k AND t.day = s.day WHEN MATCHED AND s.gone THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET quantity = s.quantity + 1, price = s.price "
    "WHEN NOT MATCHED THEN INSERT (k, item, quantity, price, day) VALUES (s.k, s.item, s.quantity, s.price, s.day)"
)


@dataclass
class Reader:
    """Asks one query again and again in a thread of its own."""

    spark: SparkSession
    ask: Callable[[], object]
    seconds: list[float] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    problem: BaseException | None = None

    def __enter__(self) -> Self:
        """Start."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "reader")
        while not self._end.is_set():
            start = time.perf_counter()
            try:
                self.ask()
            except BaseException as problem:  # noqa: BLE001 - shown by the main thread
                self.problem = problem
                return
            self.seconds.append(time.perf_counter() - start)

    def __exit__(self, *_: object) -> None:
        """Stop after the query that runs."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if self.problem is not None:
            raise self.problem


def _dimension(ids: str) -> str:
    return (
        f"SELECT k, sha2(concat('a', k), 256) AS a, concat('b', pmod(xxhash64(k, {SEED}), 5000)) AS b, "
        f"CAST(pmod(xxhash64(k, {SEED + 1}), 1000) AS INT) AS n, "
        f"CAST(pmod(xxhash64(k, {SEED + 2}), 99999) / 100 AS DECIMAL(10,2)) AS price FROM ({ids})"
    )


def fact_rows(ids: str) -> str:
    """Return a query of facts for a query of keys ``k``."""
    return (
        f"SELECT k, CAST(pmod(xxhash64(k, {SEED}), 200000) AS INT) AS item, "
        f"CAST(pmod(xxhash64(k, {SEED + 1}), 100) AS INT) AS quantity, "
        f"CAST(pmod(xxhash64(k, {SEED + 2}), 99999) / 100 AS DECIMAL(10,2)) AS price, "
        f"CAST(k % {_DAYS} AS INT) AS day FROM ({ids})"
    )


def _upserts(spark: SparkSession, peer: Peer, table: str, rows: int, hour: int) -> None:
    """Bring an hour's changes: four of five rows are there."""
    batch = rows // 10
    ids = f"SELECT if(id % 5 = 0, {rows} + {hour} * {batch} + id, (id * 10 + {hour}) % {rows}) AS k FROM range({batch})"
    spark.sql(_dimension(ids)).selectExpr("k", "a", "b", "n + 1 AS n", "price").createOrReplaceTempView(
        "news"
    )
    peer.sql(
        "MERGE INTO {t} t USING news s ON t.k = s.k WHEN MATCHED THEN UPDATE SET a = s.a, b = s.b, n = s.n, "
        "price = s.price WHEN NOT MATCHED THEN INSERT (k, a, b, n, price) VALUES (s.k, s.a, s.b, s.n, s.price)",
        table,
    )


def _deletion(spark: SparkSession, peer: Peer, table: str, rows: int, hour: int) -> None:
    """Delete scattered keys that a list names."""
    few = rows // 50
    spark.sql(f"SELECT id * 50 + {hour} AS k FROM range({few})").createOrReplaceTempView("forget")
    peer.delete_listed(table, "k", "forget")


def _mix(spark: SparkSession, peer: Peer, table: str, rows: int, hour: int) -> None:
    """Bring an hour's log: half of it inserts, four of ten updates, one a delete; then compact, every other hour."""
    batch = rows // 5
    there = f"id * 5 + pmod(xxhash64(id, {hour}), 5)"  # of every day
    ids = f"SELECT if(id % 2 = 0, {rows} + {hour} * {batch} + id, {there}) AS k FROM range({batch})"
    spark.sql(fact_rows(ids)).selectExpr("*", "pmod(hash(k), 5) = 0 AS gone").createOrReplaceTempView("log")
    peer.sql(MERGE_LOG, table)
    if hour % 2 == 1:
        peer.compact(table)


@dataclass(frozen=True)
class Case:
    """A table, its rows of keys, what happens to it in an hour (its number comes last), and the reader's query."""

    name: str
    table: str
    columns: str
    partition: str | None
    buckets: tuple[str, int] | None
    rows: Callable[[str], str]
    hour: Callable[[SparkSession, Peer, str, int, int], None]
    query: str


_SUMS = "SELECT sum(n), sum(price) FROM {t}"
_FACTS = "SELECT sum(quantity), sum(price) FROM {t}"
CASES = (
    Case("hourly upserts", "dimension", _DIMENSION, None, None, _dimension, _upserts, _SUMS),
    Case("daily deletion", "forgetting", _DIMENSION, None, None, _dimension, _deletion, _SUMS),
    Case("hourly mix", "fact", FACT, "day", FACT_BUCKETS, fact_rows, _mix, _FACTS),
)


@dataclass(frozen=True)
class _Outcome:
    """What the work cost, each query of the reader before it (median), during it (median, slowest), and after it.

    ``answer``: the rows at the end.
    """

    work: Run
    quiet: float
    during: float
    slowest: float
    after: float
    answer: object


def measured(reading: Reading) -> Iterator[Result]:
    """Yield the time of the work, and the reader's against its quiet one. Raises SystemExit where answers differ."""
    for case in CASES:
        rows = reading.rows // 2
        first = _first_runs(reading, case, rows)
        peers = [peer for peer in [reading.ours, *reading.others] if peer.name in first]
        later: dict[str, list[_Outcome]] = {peer.name: [] for peer in peers}
        for nth in range(1, reading.runs + 1):
            for peer in peers:
                later[peer.name].append(_carried_out(reading, case, peer, f"{case.table}_{nth}", rows))
        found = {name: _median(outcomes) for name, outcomes in later.items()}
        everything = [*first.values(), *(one for outcomes in later.values() for one in outcomes)]
        if len({str(one.answer) for one in everything}) > 1:
            raise SystemExit(f"{case.name}: they disagree: {[one.answer for one in everything]}")

        def figures(of: Callable[[_Outcome], float], found: dict[str, _Outcome] = found) -> dict[str, Figure]:
            return {name: Figure((Run(of(one), of(one)),)) for name, one in found.items()}

        def result(
            what: str, figures: dict[str, Figure], aim: float | None, case: Case = case, rows: int = rows
        ) -> Result:
            return Result("cases", case.name, what, figures, aim, "others", rows)

        once = {name: Figure((one.work,)) for name, one in first.items()}
        yield result(f"{HOURS} rounds on {rows:,} rows, the first time", once, None)
        work = {name: Figure(tuple(one.work for one in outcomes)) for name, outcomes in later.items()}
        yield result(f"{HOURS} rounds on {rows:,} rows", work, 1.0)
        yield result("a query before, seconds", figures(lambda one: one.quiet), None)
        yield result("a query during the work, seconds", figures(lambda one: one.during), None)
        yield result("a query afterwards, seconds", figures(lambda one: one.after), None)
        slower = figures(lambda one: one.during / one.quiet)
        yield result("the reader, times its quiet time", slower, None)
        own = {"hiveacid": slower["hiveacid"], "its quiet time": Figure((Run(1.0, 1.0),))}
        yield Result("cases", case.name, "the reader", own, _READER, "its quiet time", rows)
        yield result("the reader's slowest, times", figures(lambda one: one.slowest / one.quiet), None)


def _first_runs(reading: Reading, case: Case, rows: int) -> dict[str, _Outcome]:
    """Return everyone's first outcome. Another format that fails is left out of the case, and said to be."""
    first = {reading.ours.name: _carried_out(reading, case, reading.ours, f"{case.table}_0", rows)}
    for peer in reading.others:
        try:
            first[peer.name] = _carried_out(reading, case, peer, f"{case.table}_0", rows)
        except (Py4JJavaError, PySparkException) as error:
            print(f"{case.name}: {peer.name} fails, and is left out: {str(error)[:200]}")
    return first


def _median(outcomes: list[_Outcome]) -> _Outcome:
    return sorted(outcomes, key=lambda outcome: outcome.work.seconds)[len(outcomes) // 2]


def _carried_out(reading: Reading, case: Case, peer: Peer, table: str, rows: int) -> _Outcome:
    spark = reading.meter.spark
    peer.create(table, case.columns, case.partition, case.buckets)
    peer.insert(table, spark.sql(case.rows(f"SELECT id AS k FROM range(0, {rows}, 1, {FILES})")))

    def ask() -> object:
        return peer.sql(case.query, table).collect()

    ask()
    quiet = median(reading.meter.run(ask).seconds for _ in range(3))
    with Reader(spark, ask) as reader:
        runs = [reading.meter.run(partial(case.hour, spark, peer, table, rows, nth)) for nth in range(HOURS)]
    work = Run(sum(one.seconds for one in runs), sum(one.cpu for one in runs))
    after = median(reading.meter.run(ask).seconds for _ in range(3))
    return _Outcome(work, quiet, median(reader.seconds), max(reader.seconds), after, ask())
