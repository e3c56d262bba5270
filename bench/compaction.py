"""Measure compactions against plain Spark rewriting the same live rows: same session, codec and number of files.

make bench PROGRAM=compaction ARGS="--rows 10000000 --json figures.json"

Rows are like TPC-DS' store_sales: 23 columns, a date, decimals, nulls, from a seed. A major compaction merges a
base, 5 deltas and 5 delete deltas; a minor one joins 100 small deltas. Runs alternate with `read.orc → write.orc`;
medians are compared, wall clock and CPU seconds (user and system, JVM and Python). Memory, at a third and a tenth
of the rows too (one run each): the JVM's resident peak, and the most heap that was in use after a garbage collection.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from sales import SALES, sales

import hiveacid
from hiveacid import AcidSession

FILES, CHANGES, SMALL = 4, 5, 100
CREATE = "CREATE TABLE {} (" + SALES + ") STORED AS ORC TBLPROPERTIES ('transactional'='true')"
HEAP = "2g"
COLLECTOR = "-XX:+UseG1GC -XX:InitiatingHeapOccupancyPercent=25"  # early: what is left then is in use
AFTER = re.compile(r"->(\d+)M\(\d+M\)")  # what is left on the heap, in a line of the collector's log


@dataclass(frozen=True)
class Run:
    """What one action cost; ``rss_mb`` and ``heap_mb`` are the JVM's highest."""

    seconds: float
    cpu: float
    rss_mb: int
    heap_mb: int


@dataclass(frozen=True)
class Figure:
    """Medians of a compaction and of the plain rewriting; ``spread``: lowest and highest ratio of paired runs."""

    kind: str
    rows: int
    compaction: Run
    plain: Run
    wall_ratio: float
    cpu_ratio: float
    spread: tuple[float, float]


@dataclass(frozen=True)
class Bench:
    """One session and what its JVM shows from outside."""

    spark: SparkSession
    acid: AcidSession
    scratch: Path
    jvm: int
    log: Path
    end: float  # on the monotonic clock: from then on each pair is run once

    def run(self, action: Callable[[], object]) -> Run:
        """Do something and see what it costs."""
        self.spark._jvm.System.gc()  # type: ignore[union-attr] # noqa: SLF001
        skip = self.log.stat().st_size
        Path(f"/proc/{self.jvm}/clear_refs").write_text("5")
        cpu, start = self._cpu(), time.perf_counter()
        action()
        wall = time.perf_counter() - start
        cpu = self._cpu() - cpu
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.jvm}/status").read_text())
        with self.log.open() as log:
            log.seek(skip)
            left = [int(found[1]) for found in AFTER.finditer(log.read())]
        return Run(wall, cpu, int(peak[1]) // 1024 if peak else 0, max(left, default=0))

    def _cpu(self) -> float:
        own = os.times()
        used = Path(f"/proc/{self.jvm}/stat").read_text().rpartition(")")[2].split()[11:13]
        return own.user + own.system + sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    def again(self, original: Path, name: str) -> None:
        """Make a table of the files of another one, by hard links."""
        target = self.scratch / "again" / name
        shutil.copytree(original, target, copy_function=os.link)
        self.acid.adopt(CREATE.format(name), str(target))


def changed_table(bench: Bench, name: str, rows: int) -> Path:
    """Make a base, deltas and delete deltas; each change is 0.5 % of the rows. Return the table's directory."""
    bench.acid.sql(CREATE.format(name))
    table = bench.acid.table(name)
    table.overwrite(sales(bench.spark, 0, rows, FILES))
    for nth in range(CHANGES):
        table.insert(sales(bench.spark, rows + nth * rows // 200, rows // 200, FILES))
        table.delete(f"pmod(ss_ticket_number, 200) = {nth * 7}")
    return Path(table.definition.location)


def small_deltas(bench: Bench, name: str, rows: int) -> Path:
    """Make many small deltas of one file each. Return the table's directory."""
    bench.acid.sql(CREATE.format(name))
    table = bench.acid.table(name)
    for nth in range(SMALL):
        table.insert(sales(bench.spark, nth * rows // SMALL, rows // SMALL, 1))
    return Path(table.definition.location)


def rewritten(bench: Bench, source: Path, files: int) -> None:
    """Do what compaction does, without ACID: read flat files, write flat files."""
    target = bench.scratch / "plain"
    frame = bench.spark.read.orc(str(source)).coalesce(files)
    frame.write.mode("overwrite").option("compression", "zstd").orc(str(target))


def pairs(
    bench: Bench, kind: str, original: Path, flat: Path, files: int, runs: int
) -> Iterator[tuple[Run, Run]]:
    """Alternate compactions of the same files and plain rewritings, at least once."""
    for nth in range(runs):
        if nth and time.monotonic() > bench.end:
            break
        name = f"{original.name}_{kind}_{nth}"
        bench.again(original, name)
        compaction = bench.run(lambda name=name: bench.acid.table(name).compact(kind))  # type: ignore[misc]
        bench.acid.sql(f"DROP TABLE {name}")
        shutil.rmtree(bench.scratch / "again", ignore_errors=True)
        yield compaction, bench.run(lambda: rewritten(bench, flat, files))


def figure(kind: str, rows: int, found: Sequence[tuple[Run, Run]]) -> Figure:
    """Compare by medians."""
    compaction, plain = (
        Run(
            median(run.seconds for run in runs),
            median(run.cpu for run in runs),
            max(run.rss_mb for run in runs),
            max(run.heap_mb for run in runs),
        )
        for runs in zip(*found, strict=True)
    )
    ratios = [mine.seconds / other.seconds for mine, other in found]
    wall, cpu = compaction.seconds / plain.seconds, compaction.cpu / plain.cpu
    return Figure(kind, rows, compaction, plain, wall, cpu, (min(ratios), max(ratios)))


def measure(bench: Bench, sizes: Sequence[int], runs: int) -> Iterator[Figure]:
    """Yield a figure of minor compactions, and one a size of major compactions."""
    few = max(sizes) // 10
    original, flat = small_deltas(bench, "small", few), bench.scratch / "small"
    sales(bench.spark, 0, few, SMALL).write.option("compression", "zstd").orc(str(flat))
    list(pairs(bench, "minor", original, flat, 1, 1))  # warms up
    yield figure("minor", few, list(pairs(bench, "minor", original, flat, 1, runs)))
    for rows in sizes:
        original, flat = changed_table(bench, f"s{rows}", rows), bench.scratch / f"flat{rows}"
        live = bench.acid.table(f"s{rows}").to_df()
        live.coalesce(FILES).write.option("compression", "zstd").orc(str(flat))
        del live
        if rows == sizes[0]:
            list(pairs(bench, "major", original, flat, FILES, 1))
        count = runs if rows == max(sizes) else 1
        yield figure("major", rows, list(pairs(bench, "major", original, flat, FILES, count)))
        shutil.rmtree(original)
        shutil.rmtree(flat)


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print a table."""
    table = Table(title="compaction against read.orc → write.orc of the same rows")
    headings = (
        "",
        "rows",
        "wall s",
        "plain",
        "ratio",
        "from - to",
        "CPU s",
        "plain",
        "ratio",
        "RSS MB",
        "heap MB",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "" else "right")
    for one in figures:
        table.add_row(
            one.kind,
            f"{one.rows:,}",
            *(f"{number:.2f}" for number in (one.compaction.seconds, one.plain.seconds, one.wall_ratio)),
            "{:.2f} - {:.2f}".format(*one.spread),
            *(f"{number:.2f}" for number in (one.compaction.cpu, one.plain.cpu, one.cpu_ratio)),
            f"{one.compaction.rss_mb} ({one.plain.rss_mb})",
            f"{one.compaction.heap_mb} ({one.plain.heap_mb})",
        )
    console.print(table)


def session(log: Path) -> SparkSession:
    """Return a local Spark session whose garbage collector keeps a log."""
    builder = hiveacid.configure(SparkSession.builder.master("local[2]").appName("hiveacid bench"))
    for key, setting in {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"{COLLECTOR} -Xlog:gc:file={log}:none:filecount=0",
        "spark.sql.shuffle.partitions": str(FILES),
    }.items():
        builder = builder.config(key, setting)
    return builder.getOrCreate()


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=8, help="afterwards nothing is repeated any more")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    console = Console(width=140)
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as directory:
        scratch = Path(directory)
        spark = session(scratch / "gc.log")
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr] # noqa: SLF001
        with hiveacid.connect(spark, warehouse=str(scratch / "warehouse")) as acid:
            end = time.monotonic() + 60 * arguments.minutes
            bench = Bench(spark, acid, scratch, jvm, scratch / "gc.log", end)
            sizes = [arguments.rows // 10, arguments.rows * 3 // 10, arguments.rows]
            figures = []
            for one in measure(bench, sizes, arguments.runs):
                figures.append(one)
                console.print(one)
        spark.stop()
    load = os.getloadavg()
    show(console, figures)
    console.print(f"{os.cpu_count()} cores, load {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}")
    if arguments.json:
        content = {"load": load, "cores": os.cpu_count(), "figures": [asdict(one) for one in figures]}
        arguments.json.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
