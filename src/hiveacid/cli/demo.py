"""``hiveacid demo``: the main job on the real flights of 2013."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import click
from rich.console import Console

from hiveacid.cli.options import exit_on_errors, output_option, require_pyspark

MONTHS = 2
# The demo runs hundreds of short jobs, for which the JVM's second compiler costs more time than it saves.
SESSION = MappingProxyType(
    {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
)


@click.command()
@click.option(
    "-w",
    "--warehouse",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the tables in this directory (default: a temporary one, removed at the end).",
)
@click.option(
    "--months",
    type=click.IntRange(2, 12),
    default=MONTHS,
    show_default=True,
    help="How many months of flights are loaded, day by day.",
)
@output_option("table", "json")
def demo(warehouse: Path | None, months: int, output: str) -> None:
    """Load, correct, update, delete and compact the flights out of New York in 2013.

    After every step, each changed table and a reader with an old snapshot are compared with the result that
    plain Spark computes from the source. A difference ends the demo with an error. Needs the extra "demo".
    """
    with exit_on_errors():
        require_pyspark()
    from hiveacid.demo.model import DifferenceError  # noqa: PLC0415 - Spark only where it is needed
    from hiveacid.demo.run import run  # noqa: PLC0415
    from hiveacid.spark.session.launch import local_session  # noqa: PLC0415

    console = Console(stderr=output == "json", width=None if sys.stdout.isatty() else 120)
    try:
        with exit_on_errors(), local_session(SESSION) as spark:
            outcomes = run(spark, console, warehouse=warehouse, months=months)
    except DifferenceError as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        for outcome in outcomes:
            click.echo(json.dumps(asdict(outcome)))
