"""Writing: INSERT against Spark's plain ORC writer; UPDATE, DELETE and MERGE against the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from peers import Flat, Peer
from pyspark.sql import DataFrame, SparkSession
from reading import FILES, Reading
from results import Result
from sales import NARROW, SALES, TICKET, columns, narrow, row, sales

NAMES = [name for name, _ in columns(SALES)]
PARTITIONS = 1000


def measured(reading: Reading) -> Iterator[Result]:
    """Yield the results of the changes."""
    spark, rows, runs = reading.meter.spark, reading.rows, reading.runs
    quarter = rows // 4
    source = sales(spark, 0, quarter, FILES)

    def result(what: str, actions: Mapping[str, Callable[[], object]], aim: float, against: str) -> Result:
        return Result("write", "store_sales", what, reading.meter.in_turn(actions, runs), aim, against, rows)

    def new(peer: Peer) -> Callable[[], None]:
        made = iter(range(1000))

        def action() -> None:
            name = f"new{next(made)}"
            peer.create(name, SALES)
            peer.insert(name, source)

        return action

    yield result(f"INSERT {quarter:,}", {one.name: new(one) for one in reading.everyone}, 1.15, "flat")
    changed: list[Peer] = [reading.ours, *reading.others]
    for peer in changed:
        peer.create("w", SALES)
        peer.insert("w", sales(spark, 0, rows, FILES))
    nth: dict[str, Iterator[int]] = {}

    def changing(kind: str, text: str) -> dict[str, Callable[[], object]]:
        def of(peer: Peer) -> Callable[[], object]:
            count = nth.setdefault(kind + peer.name, iter(range(1000)))
            return lambda: peer.sql(text.replace("{n}", str(next(count))), "w")

        return {peer.name: of(peer) for peer in changed}

    some = "pmod(ss_ticket_number, 100) = {n}"
    update = "UPDATE {t} SET ss_quantity = ss_quantity + 1, ss_net_paid = ss_net_paid / 2 WHERE "
    yield result("UPDATE 1 %", changing("u", update + some), 1.0, "others")
    few = rows // TICKET // 100
    span = f"ss_ticket_number BETWEEN {{n}} * {few * 3} AND {{n}} * {few * 3} + {few}"
    yield result("UPDATE 1 %, neighbours", changing("s", update + span), 1.0, "others")
    later = some.replace("{n}", "99 - {n}")
    yield result("DELETE 1 %", changing("d", "DELETE FROM {t} WHERE " + later), 1.0, "others")
    batch = min(100_000, rows // 100)
    changes(spark, rows, batch).createOrReplaceTempView("changes")
    values = ", ".join(
        f"{name} = s.{name}" for name in NAMES if name not in ("ss_item_sk", "ss_ticket_number")
    )
    inserted = f"({', '.join(NAMES)}) VALUES ({', '.join('s.' + name for name in NAMES)})"
    merge = (
        "MERGE INTO {t} t USING (SELECT * FROM changes WHERE part = {n}) s ON t.ss_ticket_number = s.ss_ticket_number "
        f"AND t.ss_item_sk = s.ss_item_sk WHEN MATCHED THEN UPDATE SET {values} WHEN NOT MATCHED THEN INSERT {inserted}"
    )
    yield result(f"MERGE {batch:,}", changing("m", merge), 1.0, "others")
    yield from _partitioned(reading)


def changes(spark: SparkSession, rows: int, batch: int) -> DataFrame:
    """Return batches of changes to so many rows, numbered by ``part``: a tenth of each is new rows."""
    step = max(1, rows // batch)
    ids = spark.range(0, 16 * batch, 1, 4).selectExpr(
        f"CAST(id DIV {batch} AS INT) AS part",
        f"if(id % 10 = 0, {rows} + id, id % {batch} * {step} + id DIV {batch} % {step}) AS id",
    )
    return ids.selectExpr(*row(), "part")


def _partitioned(reading: Reading) -> Iterator[Result]:
    """One partition overwritten; a thousand written by one statement."""
    spark, runs = reading.meter.spark, reading.runs
    count = max(PARTITIONS, reading.rows // 100)
    rows = narrow(spark, 0, count, FILES).selectExpr("k", "v", f"CAST(k % {PARTITIONS} AS INT) AS p")
    declared = f"{NARROW}, p int"

    def dynamic(peer: Peer) -> Callable[[], None]:
        made = iter(range(1000))

        def action() -> None:
            name = f"p{next(made)}"
            peer.create(name, declared, "p")
            peer.insert(name, rows if isinstance(peer, Flat) else rows.repartition("p"))

        return action

    actions = {one.name: dynamic(one) for one in reading.everyone}
    figures = reading.meter.in_turn(actions, 1)
    yield Result("write", "narrow", f"INSERT {PARTITIONS:,} partitions", figures, None, "others", count)
    one = spark.sql(f"SELECT id AS k, 1 AS v, 7 AS p FROM range({count})")

    def overwrite(peer: Peer) -> Callable[[], None]:
        return lambda: peer.overwrite("p0", one, "p", 7)

    figures = reading.meter.in_turn({peer.name: overwrite(peer) for peer in reading.everyone}, runs)
    yield Result("write", "narrow", "INSERT OVERWRITE a partition", figures, 1.0, "others", count)
