"""``hiveacid check``: findings about a table's files and rows, each with advice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    connection_options,
    exit_on_errors,
    output_option,
    partition_spec,
)

if TYPE_CHECKING:
    from hiveacid.core.snapshot.findings import Finding

_COLOURS = {"damage": "red", "warning": "yellow", "note": "blue"}


@click.command()
@click.argument("name", metavar="TABLE")
@click.option("--partition", metavar="P=1/Q=2", help="One partition (or those of the first columns).")
@click.option(
    "--quick", is_flag=True, help="Only names, side files and footers: no row is read, no Spark is needed."
)
@output_option("table", "json")
@connection_options
def check(
    *, connection: ConnectionOptions, name: str, partition: str | None, quick: bool, output: str
) -> None:
    """Check a table's names, files and rows; print each finding with what to do.

    Changes nothing. Exit code 1 if something is damaged; warnings and notes do not count.
    """
    wanted = partition_spec(partition)
    with exit_on_errors():
        if quick:
            found = _quick(connection, name, wanted)
        else:
            with connection.session() as session:
                found = session.table(name).inspect.check(wanted)
    for finding in found:
        if output == "json":
            click.echo(json.dumps(_row(finding), ensure_ascii=False))
        else:
            _print(finding)
    if output != "json":
        click.echo(f"{name}: {_summary(found)}")
    if any(finding.severity == "damage" for finding in found):
        raise click.exceptions.Exit(1)


def _quick(
    connection: ConnectionOptions, name: str, wanted: dict[str, str | None] | None
) -> tuple[Finding, ...]:
    from hiveacid.table.check.files import check_quick  # noqa: PLC0415 - not before --help had its say

    with connection.shelf() as shelf:
        return check_quick(shelf, *shelf.find(name), wanted)


def _row(finding: Finding) -> dict[str, str | None]:
    return {
        "severity": finding.severity.value,
        "code": finding.kind.code,
        "partition": finding.partition,
        "path": finding.path,
        "message": finding.message,
        "advice": finding.advice,
    }


def _print(finding: Finding) -> None:
    mark = click.style(finding.severity.value, fg=_COLOURS[finding.severity.value])
    click.echo(f"{mark} {finding.kind.code}: {finding.path}")
    click.echo(f"    {finding.kind.meaning}: {finding.message}")
    click.echo(f"    to do: {finding.advice}")


def _summary(found: Iterable[Finding]) -> str:
    counts = dict.fromkeys(_COLOURS, 0)
    for finding in found:
        counts[finding.severity.value] += 1
    shown = [
        f"{count} {name}{'s' if count != 1 and name != 'damage' else ''}" for name, count in counts.items()
    ]
    return "nothing found" if not any(counts.values()) else ", ".join(shown)
