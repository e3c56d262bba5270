"""Fixed costs: what a statement on a small table takes above the bare Spark job; start and import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from measure import Figure, Run
from reading import Reading
from results import Result
from sales import NARROW, narrow

import hiveacid

TIMES = 15
WIDE = 1000
_IMPORT = "import time; start = time.perf_counter(); import hiveacid; print(time.perf_counter() - start)"


def above(ours: Figure, bare: Figure) -> Figure:
    """Return what ours takes more, run by run."""
    return Figure(
        tuple(
            Run(max(one.seconds - other.seconds, 0), max(one.cpu - other.cpu, 0))
            for one, other in zip(ours.runs, bare.runs, strict=True)
        )
    )


def measured(reading: Reading, scratch: Path) -> Iterator[Result]:
    """Yield seconds above the bare job; the aim stands against one second here."""
    spark, acid = reading.meter.spark, reading.ours.acid
    rows = narrow(spark, 0, 100, 1)
    for peer in reading.everyone:
        peer.create("small", NARROW)
        peer.insert("small", rows)
    kept = spark.createDataFrame(rows.collect(), NARROW)
    made = iter(range(10_000))
    second = Figure((Run(1.0, 1.0),))

    def result(what: str, aim: float, actions: Mapping[str, Callable[[], object]]) -> Result:
        figures = reading.meter.in_turn(actions, TIMES)
        extra = above(figures["hiveacid"], figures["flat"])
        return Result(
            "fixed", "above the bare job", what, {"hiveacid": extra, "second": second}, aim, "second"
        )

    def write() -> None:
        kept.coalesce(1).write.orc(str(scratch / f"bare{next(made)}"))

    def change() -> None:
        frame = reading.flat.sql("SELECT k, v + 1 AS v FROM {t} WHERE k = 3", "small")
        frame.coalesce(1).write.orc(str(scratch / f"bare{next(made)}"))

    query = "SELECT sum(v) FROM {t} WHERE k < 50"
    yield result(
        "SELECT",
        0.15,
        {
            "flat": lambda: reading.flat.sql(query, "small").collect(),
            "hiveacid": lambda: reading.ours.sql(query, "small").collect(),
        },
    )
    yield result(
        "INSERT", 0.4, {"flat": write, "hiveacid": lambda: acid.sql("INSERT INTO small VALUES (1000, 1)")}
    )
    acid.table("small").compact("major")
    yield result(
        "UPDATE",
        0.4,
        {"flat": change, "hiveacid": lambda: acid.sql("UPDATE small SET v = v + 1 WHERE k = 3")},
    )
    names = ", ".join(f"c{place} int" for place in range(WIDE))
    reading.ours.create("thousand_columns", names)
    values = ", ".join(str(place) for place in range(WIDE))
    acid.sql(f"INSERT INTO thousand_columns VALUES ({values})")
    spark.sql(f"SELECT {', '.join(f'{place} AS c{place}' for place in range(WIDE))}").write.orc(
        str(reading.flat.root / "thousand_columns")
    )
    yield result(
        f"SELECT, {WIDE:,} columns",
        0.5,
        {
            "flat": lambda: reading.flat.sql("SELECT c7, c900 FROM {t}", "thousand_columns").collect(),
            "hiveacid": lambda: reading.ours.sql("SELECT c7, c900 FROM {t}", "thousand_columns").collect(),
        },
    )
    yield from _start(reading, scratch, second)


def _start(reading: Reading, scratch: Path, second: Figure) -> Iterator[Result]:
    def first() -> None:
        with hiveacid.connect(reading.meter.spark, warehouse=str(scratch / "another")) as acid:
            acid.sql("SHOW TABLES").collect()

    figures = reading.meter.in_turn({"hiveacid": first}, TIMES)
    yield Result("fixed", "start", "connect and SHOW TABLES", {**figures, "second": second}, 0.5, "second")
    times = []
    for _ in range(TIMES):
        done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
        times.append(Run(float(done.stdout), float(done.stdout)))
    figures = {"hiveacid": Figure(tuple(times)), "second": second}
    yield Result("fixed", "start", "import hiveacid", figures, 0.1, "second")
