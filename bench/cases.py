"""The use cases that ACID in Hive was asked for, beside the others doing the same, a reader at work all the time.

A dimension table gets half a million inserts and updates an hour; a day's 100,000 scattered rows have to be deleted;
a fact table, partitioned (and bucketed, here), gets a million inserts, updates and deletes an hour, compacted in
between. The reader asks a sum over the table again and again; how much slower it gets is a figure, too.
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
from pyspark.sql import SparkSession
from reading import FILES, Reading
from results import Result
from sales import SEED

HOURS = 3
_DIMENSION = "k bigint, a string, b string, n int, price decimal(10,2)"
_FACT = "k bigint, item int, quantity int, price decimal(10,2), day int"
_DAYS = 10


@dataclass
class Reader:
    """Asks one query again and again in a thread of its own."""

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


def _fact(ids: str) -> str:
    return (
        f"SELECT k, CAST(pmod(xxhash64(k, {SEED}), 200000) AS INT) AS item, "
        f"CAST(pmod(xxhash64(k, {SEED + 1}), 100) AS INT) AS quantity, "
        f"CAST(pmod(xxhash64(k, {SEED + 2}), 99999) / 100 AS DECIMAL(10,2)) AS price, "
        f"CAST(k % {_DAYS} AS INT) AS day FROM ({ids})"
    )


def _upserts(spark: SparkSession, peer: Peer, rows: int, hour: int) -> None:
    """Bring an hour's changes: four of five rows are there."""
    batch = rows // 10
    ids = f"SELECT if(id % 5 = 0, {rows} + {hour} * {batch} + id, (id * 10 + {hour}) % {rows}) AS k FROM range({batch})"
    spark.sql(_dimension(ids)).selectExpr("k", "a", "b", "n + 1 AS n", "price").createOrReplaceTempView(
        "news"
    )
    peer.sql(
        "MERGE INTO {t} t USING news s ON t.k = s.k WHEN MATCHED THEN UPDATE SET a = s.a, b = s.b, n = s.n, "
        "price = s.price WHEN NOT MATCHED THEN INSERT (k, a, b, n, price) VALUES (s.k, s.a, s.b, s.n, s.price)",
        "dimension",
    )


def _deletion(spark: SparkSession, peer: Peer, rows: int, hour: int) -> None:
    """Delete scattered keys that a list names."""
    few = rows // 50
    spark.sql(f"SELECT id * 50 + {hour} AS k FROM range({few})").createOrReplaceTempView("forget")
    peer.sql("DELETE FROM {t} WHERE k IN (SELECT k FROM forget)", "forgetting")


def _mix(spark: SparkSession, peer: Peer, rows: int, hour: int) -> None:
    """Bring an hour's log: inserts, updates and deletes by one statement, then compact."""
    batch = rows // 10
    ids = f"SELECT if(id % 2 = 0, {rows} + {hour} * {batch} + id, (id * 10 + {hour}) % {rows}) AS k FROM range({batch})"
    spark.sql(_fact(ids)).selectExpr("*", "k % 10 = 9 AS gone").createOrReplaceTempView("log")
    peer.sql(
        "MERGE INTO {t} t USING log s ON t.k = s.k AND t.day = s.day WHEN MATCHED AND s.gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET quantity = s.quantity + 1, price = s.price "
        "WHEN NOT MATCHED THEN INSERT (k, item, quantity, price, day) VALUES (s.k, s.item, s.quantity, s.price, s.day)",
        "fact",
    )
    if hour % 2 == 1:
        peer.compact("fact")


@dataclass(frozen=True)
class Case:
    """A table, its rows of keys, what happens to it in an hour (its number comes last), and the reader's query."""

    name: str
    table: str
    columns: str
    partition: str | None
    rows: Callable[[str], str]
    hour: Callable[[SparkSession, Peer, int, int], None]
    query: str


CASES = (
    Case(
        "hourly upserts",
        "dimension",
        _DIMENSION,
        None,
        _dimension,
        _upserts,
        "SELECT sum(n), sum(price) FROM {t}",
    ),
    Case(
        "daily deletion",
        "forgetting",
        _DIMENSION,
        None,
        _dimension,
        _deletion,
        "SELECT sum(n), sum(price) FROM {t}",
    ),
    Case("hourly mix", "fact", _FACT, "day", _fact, _mix, "SELECT sum(quantity), sum(price) FROM {t}"),
)


def measured(reading: Reading) -> Iterator[Result]:
    """Yield the time of the work, and the reader's against its quiet one."""
    for case in CASES:
        done: dict[str, Figure] = {}
        slower: dict[str, Figure] = {}
        for peer in [reading.ours, *reading.others]:
            work, slow = _carried_out(reading, case, peer)
            done[peer.name], slower[peer.name] = Figure((work,)), Figure((Run(slow, slow),))
        rows = reading.rows // 2
        yield Result("cases", case.name, f"{HOURS} rounds on {rows:,} rows", done, 1.0, "others", rows)
        yield Result("cases", case.name, "the reader, times its quiet speed", slower, None, "others", rows)


def _carried_out(reading: Reading, case: Case, peer: Peer) -> tuple[Run, float]:
    """Return what the work cost, and how many times slower the reader was."""
    spark, rows = reading.meter.spark, reading.rows // 2
    peer.create(case.table, case.columns, case.partition)
    peer.insert(case.table, spark.sql(case.rows(f"SELECT id AS k FROM range(0, {rows}, 1, {FILES})")))

    def ask() -> object:
        return peer.sql(case.query, case.table).collect()

    ask()
    quiet = median(reading.meter.run(ask).seconds for _ in range(3))
    with Reader(ask) as reader:
        runs = [reading.meter.run(partial(case.hour, spark, peer, rows, nth)) for nth in range(HOURS)]
    work = Run(sum(one.seconds for one in runs), sum(one.cpu for one in runs))
    return work, median(reader.seconds) / quiet
