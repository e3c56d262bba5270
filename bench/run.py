"""Measure reading, writing, fixed costs, growth, planning and use cases against plain Spark, Delta Lake and Iceberg.

Reading without Spark is measured against pyarrow and other packages of Python.

make bench                                         everything: 3 million rows, about an hour on two cores
make bench-quick                                   1 million rows, a fifth of the time
make bench ARGS="--rows 10000000 --sections read"  part of it

All in one session, each action in turn with the others' like it, medians of some runs. A shared machine is noisy:
trust ratios, and CPU seconds more than those on the clock. Results: bench/results/bench.json, and a chart
for each section.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
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
from results import Result, charts, save, show
from rich.console import Console

import hiveacid

SECTIONS = ("read", "write", "fixed", "small", "growth", "planning", "cases", "arrow")
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
    parser.add_argument("--memory", default="6g", help="of the driver")
    parser.add_argument("--quick", action="store_true", help="a third of the rows, and less of what grows")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where bench.json and the charts go")
    found = parser.parse_args()
    if found.quick:
        found.rows //= 3
    unknown = set(found.sections.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}")
    return found


def main() -> None:
    """Parse the arguments, measure, print, save."""
    arguments = _arguments()
    console = Console(width=200)
    names = peers.available([name for name in arguments.peers.split(",") if name])
    jars = peers.install(names)
    results: list[Result] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as directory:
        scratch = Path(directory)
        spark = peers.session(jars, scratch, names, arguments.memory)
        with hiveacid.connect(spark, warehouse=str(scratch / "warehouse")) as acid:
            flat = peers.Flat(spark, scratch / "flat")
            scene = reading.Reading(
                Meter.of(spark),
                flat,
                peers.Ours(acid),
                peers.others(spark, names),
                arguments.rows,
                arguments.runs,
            )
            for section in arguments.sections.split(","):
                console.print(f"== {section}: {arguments.rows:,} rows")
                try:
                    for one in measured(scene, section, scratch, quick=arguments.quick):
                        results.append(one)
                        save(results, arguments.results, rows=arguments.rows, runs=arguments.runs)
                        console.print(_line(one))
                except Exception:  # noqa: BLE001 - the other sections of a long run still count
                    console.print_exception()
                    failed.append(section)
        spark.stop()
    show(console, results)
    charts(results, arguments.results)
    console.print(f"== {arguments.results}/bench.json and charts")
    if failed:
        sys.exit(f"these sections ended in an error: {', '.join(failed)}")


def _line(one: Result) -> str:
    ratio = one.ratio()
    said = "" if ratio is None else f"{ratio:.2f} (CPU {one.ratio(cpu=True):.2f}) of {one.against}"
    return f"{one.case}, {one.what}: {one.figures['hiveacid'].seconds:.2f} s {said}"


if __name__ == "__main__":
    main()
