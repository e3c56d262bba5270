"""``hiveacid table``, ``check``, ``compact``, ``txn`` and ``locks``: tables, and the transactions that use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from hiveacid.cli import options
from hiveacid.cli.output_formats import show, show_rows
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.check_findings import Finding
from hiveacid.sql.execute.show_rows import TABLE_COLUMNS, table_rows

if TYPE_CHECKING:
    from hiveacid.table.read.inventory import Row, TableInventory


from hiveacid.cli.options import FORMATS, ConnectionOptions, connection_options, output_option
from hiveacid.sql.execute.show_rows import (
    LOCK_COLUMNS,
    TRANSACTION_COLUMNS,
    abort_transactions,
    lock_rows,
    transaction_rows,
)

_COLOURS = {"damage": "red", "warning": "yellow", "note": "blue"}


@click.group()
def table() -> None:
    """List and inspect tables."""


@table.command("list")
@click.option("-d", "--database", default="default", show_default=True, help="The database.")
@options.output_option(*options.FORMATS)
@options.connection_options
def list_tables(*, connection: options.ConnectionOptions, database: str, output: str) -> None:
    """List the tables of a database."""
    with connection.opened_store() as store:
        show_rows(TABLE_COLUMNS, table_rows(store, database.lower()), output)


@table.command()
@click.argument("name", metavar="TABLE")
@options.output_option(*options.FORMATS)
@options.connection_options
def describe(*, connection: options.ConnectionOptions, name: str, output: str) -> None:
    """Describe a table: columns, partitions, properties, storage."""
    with connection.session() as session:
        quoted = ".".join(quote_name(part) for part in name.replace("`", "").split("."))
        show(session.sql(f"DESCRIBE FORMATTED {quoted}"), output)


@table.command()
@click.argument("name", metavar="TABLE")
@options.output_option(*options.FORMATS)
@options.connection_options
def files(*, connection: options.ConnectionOptions, name: str, output: str) -> None:
    """List the files of the table: used, obsolete, aborted, open, foreign …, and why."""
    from hiveacid.table.read.inventory import FILES, file_rows  # noqa: PLC0415 - keeps --help fast

    _print_inventory(connection, name, output, FILES, file_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@options.output_option(*options.FORMATS)
@options.connection_options
def deltas(*, connection: options.ConnectionOptions, name: str, output: str) -> None:
    """List the directories of the table: used, obsolete, aborted, open, staging, foreign …, and why."""
    from hiveacid.table.read.inventory import DELTAS, delta_rows  # noqa: PLC0415 - keeps --help fast

    _print_inventory(connection, name, output, DELTAS, delta_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Show only the newest N.")
@options.output_option(*options.FORMATS)
@options.connection_options
def history(*, connection: options.ConnectionOptions, name: str, limit: int | None, output: str) -> None:
    """List the table's commits with user, time and operation, newest first."""
    from hiveacid.table.read.history_and_time_travel import HISTORY, format_times, history_rows  # noqa: PLC0415 - keeps --help fast

    with connection.standalone_access() as access:
        rows = history_rows(access, *access.find(name))
    show_rows(_names(HISTORY), [format_times(row) for row in rows[:limit]], output)


def _print_inventory(
    connection: options.ConnectionOptions,
    name: str,
    output: str,
    schema: str,
    rows_of: Callable[[TableInventory], Iterable[Row]],
) -> None:
    """Print rows made from the inventory of a table's directories; needs no Spark."""
    from hiveacid.table.read.inventory import inventory_of  # noqa: PLC0415 - keeps --help fast

    with connection.standalone_access() as access:
        inventory = inventory_of(access, *access.find(name))
    show_rows(_names(schema), list(rows_of(inventory)), output)


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(", ")]


@click.command()
@click.argument("name", metavar="TABLE")
@options.partition_option("One partition (or those of the first columns).")
@click.option(
    "--quick", is_flag=True, help="Only names, side files and footers: no row is read, no Spark is needed."
)
@options.output_option("table", "json")
@options.connection_options
def check(
    *, connection: options.ConnectionOptions, name: str, partition: str | None, quick: bool, output: str
) -> None:
    """Check a table's names, files and rows; print each finding with advice.

    Changes nothing. Exit code 1 if something is damaged; warnings and notes do not count.
    """
    spec = options.partition_spec(partition)
    if quick:
        from hiveacid.table.check_files import check_quick  # noqa: PLC0415 - keeps --help fast

        with connection.standalone_access() as access:
            findings = check_quick(access, *access.find(name), spec)
    else:
        with connection.session() as session:
            findings = session.table(name).inspect.check(spec)
    for finding in findings:
        if output == "json":
            click.echo(json.dumps(_row(finding), ensure_ascii=False))
        else:
            mark = click.style(finding.severity.value, fg=_COLOURS[finding.severity.value])
            click.echo(f"{mark} {finding.kind.code}: {options.escape_controls(finding.path)}")
            click.echo(options.escape_controls(f"    {finding.kind.meaning}: {finding.message}"))
            click.echo(options.escape_controls(f"    to do: {finding.advice}"))
    if output != "json":
        click.echo(f"{name}: {_summary(findings)}")
    if any(finding.severity == "damage" for finding in findings):
        raise click.exceptions.Exit(1)


def _row(finding: Finding) -> dict[str, str | None]:
    return {
        "severity": finding.severity.value,
        "code": finding.kind.code,
        "partition": finding.partition,
        "path": finding.path,
        "message": finding.message,
        "advice": finding.advice,
    }


def _summary(findings: Iterable[Finding]) -> str:
    counts = dict.fromkeys(_COLOURS, 0)
    for finding in findings:
        counts[finding.severity.value] += 1
    shown = [
        f"{count} {name}{'s' if count != 1 and name != 'damage' else ''}" for name, count in counts.items()
    ]
    return "nothing found" if not any(counts.values()) else ", ".join(shown)


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
@options.partition_option("One partition (or those of the first columns).")
@options.output_option("table", "json")
@options.connection_options
def compact(
    *, connection: options.ConnectionOptions, name: str, kind: str, partition: str | None, output: str
) -> None:
    """Compact a table, or those of its partitions that need it, and remove directories that no reader needs.

    Minor: deltas become one delta. Major: everything becomes a base. Rebalance: a base of evenly filled files. Ends
    with an error if there is nothing to do.
    """
    with connection.session() as session:
        reports = session.table(name).compact(kind, options.partition_spec(partition))
    columns = ("id", "partition", "kind", "state", "reason", "rows", "files", "bytes", "removed")
    for report in reports:
        row = {column: getattr(report, column) for column in columns}
        row["removed"] = len(report.removed)
        if output == "json":
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            click.echo("  ".join(f"{key}={value}" for key, value in row.items() if value is not None))


@click.group()
def txn() -> None:
    """List and abort transactions."""


@txn.command("list")
@output_option(*FORMATS)
@connection_options
def list_transactions(*, connection: ConnectionOptions, output: str) -> None:
    """List open and aborted transactions, with times in UTC."""
    from hiveacid.table.read.history_and_time_travel import format_millis  # noqa: PLC0415 - keeps --help fast

    with connection.opened_store() as store:
        show_rows(TRANSACTION_COLUMNS, transaction_rows(store, format_millis), output)


@txn.command()
@click.argument("ids", nargs=-1, required=True, type=click.IntRange(min=1), metavar="ID...")
@connection_options
def abort(*, connection: ConnectionOptions, ids: tuple[int, ...]) -> None:
    """Abort open transactions; if one of them is unknown or committed, none is aborted."""
    with connection.opened_store() as store:
        abort_transactions(store, ids)


@click.command()
@output_option(*FORMATS)
@connection_options
def locks(*, connection: ConnectionOptions, output: str) -> None:
    """List locks, held and waiting, with times in UTC."""
    from hiveacid.table.read.history_and_time_travel import format_millis  # noqa: PLC0415 - keeps --help fast

    with connection.opened_store() as store:
        store.abort_timed_out()
        show_rows(LOCK_COLUMNS, lock_rows(store.show_locks(), format_millis), output)
