"""Reading: ratios to flat ORC of the same rows, as deltas and delete events pile up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from measure import Figure, Meter, Run
from peers import Flat, Ours, Peer
from pyspark.sql import DataFrame
from results import Result
from sales import NARROW, SALES, TICKET, WIDE, items, narrow, sales, wide

from hiveacid.streaming import Connection

FILES = 4


@dataclass(frozen=True)
class Aims:
    """Highest ratios to flat ORC: full scans, aggregates, the cheapest queries, selective filters."""

    full: float
    aggregate: float
    cheapest: float
    selective: float = 1.3


CLEAN = Aims(1.05, 1.05, 1.3)
FEW = Aims(1.1, 1.3, 1.6)
MANY = Aims(1.6, 1.6, 1.6)


@dataclass(frozen=True)
class Query:
    """A query on ``{t}``, and which of the aims is its own."""

    what: str
    text: str
    aim: Callable[[Aims], float]
    whole: bool = False


def queries(rows: int) -> list[Query]:
    """Return what is asked of a table of so many rows."""
    ticket = rows // TICKET // 2
    few = rows // TICKET // 100
    return [
        Query("count(*)", "SELECT count(*) FROM {t}", lambda aims: aims.cheapest),
        Query("1 column", "SELECT sum(ss_quantity) FROM {t}", lambda aims: aims.cheapest),
        Query(
            "3 columns",
            "SELECT sum(ss_quantity), avg(ss_sales_price), max(ss_net_profit) FROM {t}",
            lambda aims: aims.aggregate,
        ),
        Query(
            "group by",
            "SELECT ss_sold_date, sum(ss_net_paid), count(*) FROM {t} GROUP BY ss_sold_date",
            lambda aims: aims.aggregate,
        ),
        Query("full scan", "SELECT * FROM {t}", lambda aims: aims.full, whole=True),
        Query(
            "filter 1 ticket",
            f"SELECT * FROM {{t}} WHERE ss_ticket_number = {ticket}",
            lambda aims: aims.selective,
            whole=True,
        ),
        Query(
            "filter 1 %",
            f"SELECT * FROM {{t}} WHERE ss_ticket_number BETWEEN {ticket} AND {ticket + few}",
            lambda aims: aims.selective,
            whole=True,
        ),
        Query(
            "join",
            "SELECT i.category, sum(s.ss_net_paid) FROM {t} s JOIN items i ON s.ss_item_sk = i.item_sk GROUP BY 1",
            lambda aims: aims.aggregate,
        ),
    ]


def consumed(frame: DataFrame, *, whole: bool) -> None:
    """Compute a query's rows: throw many away, fetch few."""
    if whole:
        # not by a "noop" write: Delta 4.0 refuses that
        frame._jdf.queryExecution().toRdd().count()  # noqa: SLF001
    else:
        frame.collect()


def asked(
    meter: Meter,
    peers: Sequence[Peer],
    table: str,
    query: Query,
    runs: int,
    section: str,
    case: str,
    aim: float | None,
) -> Result:
    """Ask all of them one query, in turn."""

    def action(peer: Peer) -> Callable[[], None]:
        return lambda: consumed(peer.sql(query.text, table), whole=query.whole)

    figures = meter.in_turn({peer.name: action(peer) for peer in peers}, runs)
    return Result(section, case, query.what, figures, aim)


@dataclass(frozen=True)
class Reading:
    """The session, who is measured, and how much."""

    meter: Meter
    flat: Flat
    ours: Ours
    others: Sequence[Peer]
    rows: int
    runs: int

    @property
    def everyone(self) -> list[Peer]:
        """Return all."""
        return [self.flat, self.ours, *self.others]

    def all(self, case: str, aims: Aims, table: str, peers: Sequence[Peer]) -> Iterator[Result]:
        """Ask all queries."""
        for query in queries(self.rows):
            yield asked(self.meter, peers, table, query, self.runs, "read", case, query.aim(aims))


def measured(reading: Reading) -> Iterator[Result]:
    """Yield the results of all states of one table, then of others."""
    spark = reading.meter.spark
    items(spark).createOrReplaceTempView("items")
    for peer in reading.everyone:
        peer.create("sales", SALES)
        peer.insert("sales", sales(spark, 0, reading.rows, FILES))
    everyone = reading.everyone
    two: list[Peer] = [reading.flat, reading.ours]
    yield from reading.all("base", CLEAN, "sales", everyone)
    changed: list[Peer] = [reading.ours, *reading.others]
    spread = reading.rows // TICKET // 40

    def delete(nth: int, rows: int) -> None:
        first = nth * 7 * spread
        for peer in changed:
            text = f"ss_ticket_number BETWEEN {first} AND {first + rows // TICKET - 1}"
            peer.sql(f"DELETE FROM {{t}} WHERE {text}", "sales")

    def insert(rows: int) -> None:
        for peer in changed:
            peer.insert("sales", sales(spark, reading.rows * 2, rows, 1))

    delete(0, 344)
    yield from reading.all("1 delete delta", FEW, "sales", two)
    insert(344)
    yield from reading.all("1 delete delta, 1 insert delta", FEW, "sales", two)
    for nth in range(1, 5):
        delete(nth, 256)
    yield from reading.all("5 delete deltas", FEW, "sales", everyone)
    for _ in range(4):
        insert(256)
    yield from reading.all("5 delete deltas, 5 insert deltas", FEW, "sales", two)
    hundredth = reading.rows // 100
    for peer in changed:
        peer.sql("DELETE FROM {t} WHERE pmod(ss_ticket_number, 100) = 3", "sales")
    yield from reading.all(f"{hundredth:,} scattered deletes", MANY, "sales", everyone)
    for peer in changed:
        peer.sql("DELETE FROM {t} WHERE pmod(ss_ticket_number, 100) BETWEEN 10 AND 18", "sales")
    yield from reading.all(f"{hundredth * 10:,} scattered deletes", MANY, "sales", everyone)
    yield from _originals(reading)
    yield from _other_shapes(reading)
    yield from _many_deltas(reading)
    yield from _one_partition(reading)


def _other_shapes(reading: Reading) -> Iterator[Result]:
    """Fifty columns of text; a key with a value: as written, and after five small deletes."""
    spark, two = reading.meter.spark, [reading.flat, reading.ours]
    shapes = (
        ("wide", WIDE, wide(spark, reading.rows // 10, FILES), "max(s7), min(s41)", "s0"),
        ("narrow", NARROW, narrow(spark, 0, reading.rows, FILES), "sum(v), max(k)", "k"),
    )
    for name, declared, rows, aggregate, key in shapes:
        for peer in two:
            peer.create(name, declared)
            peer.insert(name, rows)
        asks = [
            Query("aggregate", f"SELECT {aggregate} FROM {{t}}", lambda aims: aims.aggregate),
            Query("full scan", "SELECT * FROM {t}", lambda aims: aims.full, whole=True),
        ]
        for state, aims in (("base", CLEAN), ("5 delete deltas", FEW)):
            for query in asks:
                case = f"{name}, {state}"
                yield asked(reading.meter, two, name, query, reading.runs, "read", case, query.aim(aims))
            for nth in range(5 if state == "base" else 0):
                reading.ours.sql(f"DELETE FROM {{t}} WHERE pmod(hash({key}), 40000) = {nth}", name)
    reading.ours.sql("DELETE FROM {t} WHERE pmod(k, 20) > 0", "narrow")
    for query in asks:  # of the last shape; there is no aim for so many
        case = f"narrow, {reading.rows // 20 * 19:,} delete events"
        yield asked(reading.meter, two, "narrow", query, reading.runs, "read", case, None)


def _many_deltas(reading: Reading) -> Iterator[Result]:
    """Read a thousand small inserts, against one directory of a thousand files."""
    spark, two = reading.meter.spark, [reading.flat, reading.ours]
    count = max(10, reading.rows // 10_000)
    batch = pa.table({"k": pa.array(range(1000), pa.int64()), "v": pa.array(range(1000), pa.int32())})
    reading.ours.create("deltas", NARROW)
    reading.flat.create("deltas", NARROW)
    store: Any = reading.ours.acid.context.store
    with Connection("deltas", store=store) as connection:
        for _ in range(count):
            with connection.transaction():
                connection.write(batch)
    reading.flat.insert("deltas", narrow(spark, 0, 1000 * count, count))
    query = Query("aggregate", "SELECT sum(v), max(k) FROM {t}", lambda aims: aims.aggregate)
    yield asked(reading.meter, two, "deltas", query, reading.runs, "read", f"{count:,} insert deltas", 1.6)


def _one_partition(reading: Reading) -> Iterator[Result]:
    """Ask for one of ten thousand partitions: the aim stands against two seconds."""
    count = max(100, reading.rows // 1000)
    rows = narrow(reading.meter.spark, 0, count, 1).selectExpr("k", "v", "CAST(k AS INT) AS p")
    reading.ours.create("parts", f"{NARROW}, p int", "p")
    reading.ours.insert("parts", rows)
    query = f"SELECT sum(v) FROM {{t}} WHERE p = {count // 2}"
    figures = reading.meter.in_turn(
        {"hiveacid": lambda: reading.ours.sql(query, "parts").collect()}, reading.runs
    )
    figures["2 seconds"] = Figure((Run(2.0, 2.0),))
    yield Result("read", f"{count:,} partitions", "one of them", figures, 1.0, "2 seconds")


def _originals(reading: Reading) -> Iterator[Result]:
    """Plain files made a table, and rows of them deleted."""
    session = reading.ours.acid
    create = f"CREATE TABLE original ({SALES}) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    home = reading.flat.root / "original"
    home.mkdir()
    for nth, file in enumerate(sorted((reading.flat.root / "sales").glob("part-*.orc"))):
        os.link(file, home / f"{nth:06d}_0")
    session.adopt(create, str(home))
    first = reading.rows // TICKET // 3
    session.sql(f"DELETE FROM original WHERE ss_ticket_number BETWEEN {first} AND {first + 168}")
    for query in queries(reading.rows):

        def ours(query: Query = query) -> None:
            consumed(reading.ours.sql(query.text, "original"), whole=query.whole)

        def flat(query: Query = query) -> None:
            consumed(reading.flat.sql(query.text, "sales"), whole=query.whole)

        figures = reading.meter.in_turn({"flat": flat, "hiveacid": ours}, reading.runs)
        yield Result("read", "originals, 1,352 deletes", query.what, figures, query.aim(FEW))
