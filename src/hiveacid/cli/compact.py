"""``hiveacid compact``: compaction of a table in the foreground."""

from __future__ import annotations

import json

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    connection_options,
    exit_on_errors,
    output_option,
    partition_spec,
)


@click.command()
@click.argument("name", metavar="TABLE")
@click.option(
    "--kind",
    type=click.Choice(["minor", "major", "rebalance"]),
    default="major",
    show_default=True,
    help="Kind of compaction.",
)
@click.option("--minor", "kind", flag_value="minor", help="The same as --kind minor.")
@click.option("--major", "kind", flag_value="major", help="The same as --kind major.")
@click.option("--partition", metavar="P=1/Q=2", help="One partition (or those of the first columns).")
@output_option("table", "json")
@connection_options
def compact(
    *, connection: ConnectionOptions, name: str, kind: str, partition: str | None, output: str
) -> None:
    """Compact a table, or those of its partitions that need it, and remove directories that no reader needs.

    Minor: deltas become one delta. Major: everything becomes a base. Rebalance: a base of evenly filled files. Ends
    with an error if there is nothing to do.
    """
    with exit_on_errors(), connection.session() as session:
        reports = session.table(name).compact(kind, partition_spec(partition))
    columns = ("id", "partition", "kind", "state", "reason", "rows", "files", "bytes", "removed")
    for report in reports:
        row = {column: getattr(report, column) for column in columns}
        row["removed"] = len(report.removed)
        if output == "json":
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            click.echo("  ".join(f"{key}={value}" for key, value in row.items() if value is not None))
