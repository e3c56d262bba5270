"""Run the demo: steps with progress, a comparison after each, a report at the end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import hiveacid
from flights.source import load
from flights.story import Advance, Files, Step, Story
from hiveacid.errors import ConfigError

MOST_MONTHS = 12
LEAST_MONTHS = 2


@dataclass(frozen=True)
class Outcome:
    """Result of a step: seconds (its own, and of the comparison), rows by table, files of the flights."""

    title: str
    seconds: float
    check_seconds: float
    rows: dict[str, int]
    files: Files


def run(
    spark: SparkSession, console: Console, *, warehouse: Path | None = None, months: int = 3
) -> tuple[Outcome, ...]:
    """Run the demo and return what each step did.

    ``warehouse``: directory that must not hold the demo's tables yet, and is kept; None: a temporary directory, which is
    removed at the end. ``months``: number of months to load, 2 to 12. Raises DifferenceError if a table differs from
    the result of plain Spark, ConfigError for another number of months.
    """
    if not LEAST_MONTHS <= months <= MOST_MONTHS:
        message = f"the demo loads {LEAST_MONTHS} to {MOST_MONTHS} months, not {months}"
        raise ConfigError(message)
    with tempfile.TemporaryDirectory(prefix="hiveacid-demo-") as scratch:
        directory = warehouse or Path(scratch) / "warehouse"
        console.print(f"Flights out of New York in 2013: {months} months, warehouse {directory}")
        started = time.perf_counter()
        with hiveacid.connect(spark, warehouse=str(directory)) as acid:
            story = Story(spark, acid, load(spark, Path(scratch) / "source"), months, directory)
            outcomes = _run_steps(story, console)
        _report(console, outcomes, time.perf_counter() - started)
    return outcomes


def _run_steps(story: Story, console: Console) -> tuple[Outcome, ...]:
    outcomes = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    steps = story.steps()
    console.print(f"{len(steps)} steps, after each of which the tables are compared with plain Spark:")
    for number, step in enumerate(steps, 1):
        console.print(f"{number:4}  {step.title}", highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        for number, step in enumerate(steps, 1):
            outcome = _run_step(story, step, progress)
            console.print(f"{number} of {len(steps)} {_line(outcome)}", soft_wrap=True)
            outcomes.append(outcome)
    return tuple(outcomes)


def _run_step(story: Story, step: Step, progress: Progress) -> Outcome:
    with _task(progress, step) as advance:
        started = time.perf_counter()
        step.run(advance)
        done = time.perf_counter()
        rows = story.check(step.tables)
        checked = time.perf_counter()
    return Outcome(step.title, done - started, checked - done, rows, story.files())


@contextmanager
def _task(progress: Progress, step: Step) -> Iterator[Advance]:
    task = progress.add_task(step.title, total=step.units)
    try:
        yield lambda: progress.advance(task)
    finally:
        progress.remove_task(task)


def _line(outcome: Outcome) -> str:
    compared = ", ".join(f"{name} {rows:,}" for name, rows in outcome.rows.items())
    return f"[green]ok[/] {outcome.title} ({outcome.seconds:.1f} s); equal to plain Spark: {compared} rows"


def _report(console: Console, outcomes: tuple[Outcome, ...], seconds: float) -> None:
    table = Table(title="Report")
    for heading in ("step", "seconds", "comparison", "rows of flights", "files read", "files on disk"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for outcome in outcomes:
        flights = outcome.rows.get("flights")
        table.add_row(
            outcome.title,
            f"{outcome.seconds:.1f}",
            f"{outcome.check_seconds:.1f}",
            "" if flights is None else f"{flights:,}",
            f"{outcome.files.read:,}",
            f"{outcome.files.on_disk:,}",
        )
    console.print(table)
    most = max(outcome.files.read for outcome in outcomes)
    last = outcomes[-1].files
    compared = sum(len(outcome.rows) for outcome in outcomes)
    console.print(
        f"{compared} comparisons with plain Spark, all equal. A reader of the flights opened up to {most:,} "
        f"files, now {last.read:,} ({last.on_disk:,} on disk). {seconds:.0f} s."
    )
