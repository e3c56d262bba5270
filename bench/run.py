"""Measure reading, writing, fixed costs, growth, planning and use cases against plain Spark, Delta Lake and Iceberg.

Reading without Spark is measured against pyarrow and other packages of Python.

make bench                                         everything: 3 million rows, about two hours on two cores
make bench-quick                                   1 million rows, a fifth of the time
make bench ARGS="--rows 10000000 --sections read"  part of it
make bench ARGS="--masters cluster"                on one of the two masters
make bench ARGS="--masters cluster --keep"         and keep in bench.json what an earlier run measured on the other

On a local master of two cores, and on a standalone cluster of two workers with one core each, which it starts. On each
all in one session, each action in turn with the others' like it, medians of some runs. A shared machine is noisy:
trust ratios, and CPU seconds more than those on the clock. Results: bench/results/bench.json, and a chart
for each section.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import cases
import fixed
import growth
import peers
import planning
import reading
import small
import without_spark
import writing
from measure import Meter
from results import Result, charts, load, other_results, save, show
from rich.console import Console

import hiveacid
from support.servers.spark_cluster import cluster

SECTIONS = ("read", "write", "fixed", "small", "growth", "planning", "cases", "arrow")
_ONCE = {"arrow", "planning", "growth"}
"""What is measured on the first master only: it does nothing on the executors, or looks at the shape of a curve."""
RESULTS = Path(__file__).parent / "results"


def measured(scene: reading.Reading, section: str, scratch: Path, *, quick: bool) -> Iterator[Result]:
    """Yield the results of a section."""
    match section:
        case "read":
            yield from reading.measured(scene)
        case "write":
            yield from writing.measured(scene)
        case "fixed":
            yield from fixed.measured(scene, scratch)
        case "small":
            yield from small.measured(scene)
        case "growth":
            yield from growth.measured(scene, quick=quick)
        case "arrow":
            yield from without_spark.measured(scene)
        case "planning":
            yield from planning.measured(scene, scratch, quick=quick)
        case _:
            yield from cases.measured(scene)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3, help="of each action, after one that warms up")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of " + ", ".join(SECTIONS))
    parser.add_argument("--peers", default="Delta,Iceberg", help="those beside plain Spark; empty: none")
    parser.add_argument("--masters", default="local,cluster", help="local (two cores), cluster, or both")
    parser.add_argument("--memory", default="6g", help="of the driver")
    parser.add_argument("--worker-memory", default="3g", help="of each of the cluster's two workers")
    parser.add_argument("--quick", action="store_true", help="a third of the rows, and less of what grows")
    parser.add_argument(
        "--keep", action="store_true", help="results of other sections and masters that bench.json has"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="where bench.json and the charts go")
    found = parser.parse_args()
    if found.quick:
        found.rows //= 3
    unknown = set(found.sections.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}")
    if not set(found.masters.split(",")) <= {"local", "cluster"}:
        parser.error(f"no masters {found.masters}")
    return found


def main() -> None:
    """Parse the arguments, measure on each master, print, save."""
    arguments = _arguments()
    console = Console(width=200)
    names = peers.available([name for name in arguments.peers.split(",") if name])
    jars = peers.install(names)
    results: list[Result] = []
    failed: list[str] = []
    for master in arguments.masters.split(","):
        # Each master in a process of its own: what Java has compiled for one would make the other faster.
        with multiprocessing.get_context("spawn").Pool(1) as process:
            found, missing = process.apply(measured_on, (master, arguments, names, jars, results))
        results, failed = found, failed + missing
    every = load(arguments.results / "bench.json") if results else []
    show(console, every)
    charts(every, arguments.results)
    console.print(
        f"== {arguments.results}/bench.json and charts; bench/speed_page.py puts them into docs/speed.md"
    )
    if failed:
        sys.exit(f"these sections ended in an error: {', '.join(failed)}")


def measured_on(
    master: str,
    arguments: argparse.Namespace,
    names: Sequence[str],
    jars: Sequence[Path],
    before: Sequence[Result],
) -> tuple[list[Result], list[str]]:
    """Return the results on other masters with those on this one, and the sections that failed; save each at once."""
    console = Console(width=200)
    results, failed = list(before), []
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as directory, ExitStack() as running:
        scratch = Path(directory)
        address, workers = "local[2]", ()
        if master == "cluster":
            started = running.enter_context(cluster(scratch, memory=arguments.worker_memory, zone=None))
            address, workers = started.address, started.workers
        spark = peers.session(jars, scratch, names, arguments.memory, address, arguments.worker_memory)
        acid = running.enter_context(hiveacid.connect(spark, warehouse=str(scratch / "warehouse")))
        scene = reading.Reading(
            Meter.of(spark, workers),
            peers.Flat(spark, scratch / "flat"),
            peers.Ours(acid),
            peers.others(spark, names),
            arguments.rows,
            arguments.runs,
        )
        kept = _kept(arguments)
        for section in arguments.sections.split(","):
            if section in _ONCE and before:
                continue
            console.print(f"== {section}, {master}: {arguments.rows:,} rows")
            try:
                for one in measured(scene, section, scratch, quick=arguments.quick):
                    results.append(replace(one, master=master))
                    save(results, arguments.results, kept, rows=arguments.rows, runs=arguments.runs)
                    console.print(_line(results[-1]))
            except Exception:  # noqa: BLE001 - the other sections of a long run still count
                console.print_exception()
                failed.append(f"{section} ({master})")
        spark.stop()
    return results, failed


def _kept(arguments: argparse.Namespace) -> list[dict[str, object]]:
    if not arguments.keep:
        return []
    sections, masters = arguments.sections.split(","), arguments.masters.split(",")
    return other_results(arguments.results, sections, masters, rows=arguments.rows, runs=arguments.runs)


def _line(one: Result) -> str:
    ratio = one.ratio()
    said = "" if ratio is None else f"{ratio:.2f} (CPU {one.ratio(cpu=True):.2f}) of {one.against}"
    return f"{one.master}: {one.case}, {one.what}: {one.figures['hiveacid'].seconds:.2f} s {said}"


if __name__ == "__main__":
    main()
