"""``hiveacid table``, ``check``, ``compact``, ``txn`` and ``locks``: tables, and the transactions that use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from hiveacid.cli import options
from hiveacid.cli.options import FORMATS, ConnectionOptions, connection_options, output_option
from hiveacid.cli.output_formats import show, show_rows
from hiveacid.cli.progress_line import at_work
from hiveacid.core.model import TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.check_findings import Finding
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.sql.execute.show_rows import (
    LOCK_COLUMNS,
    TABLE_COLUMNS,
    TRANSACTION_COLUMNS,
    abort_transactions,
    lock_rows,
    open_and_aborted,
    table_rows,
    transaction_rows,
)

if TYPE_CHECKING:
    from hiveacid.arrow.warehouse import ArrowWarehouse
    from hiveacid.table.read.inventory import Row, TableInventory

_LONG_COLUMNS = ("table", "kind", "rows", "bytes", "last_commit")
_HISTORY_OF_A_TABLE = (
    "write_id", "committed_at", "operation", "inserted", "updated", "deleted", "statement",
)  # fmt: skip
_COLOURS = {"damage": "red", "warning": "yellow", "note": "blue"}


@click.group()
def table() -> None:
    """List and inspect tables."""


@table.command("list")
@click.option("-d", "--database", default="default", show_default=True, help="The database.")
@click.option(
    "-l",
    "--long",
    "is_long",
    is_flag=True,
    help="Also kind, rows, bytes and time of the last commit of each.",
)
@options.output_option(*options.FORMATS)
@options.connection_options
def list_tables(*, connection: options.ConnectionOptions, database: str, is_long: bool, output: str) -> None:
    """List the tables of a database.

    --long counts their rows without Spark, from the files' footers where these suffice. Rows that cannot be counted so,
    as of tables stored as text, are NULL.
    """
    if not is_long:
        with connection.opened_store() as store:
            show_rows(TABLE_COLUMNS, table_rows(store, database.lower()), output)
        return
    from hiveacid.arrow.warehouse import open_warehouse  # noqa: PLC0415 - keeps --help fast

    connection.require_warehouse()
    with open_warehouse(connection.warehouse, connection.store) as warehouse:
        names = warehouse.tables(database)
        facts = [_table_facts(warehouse, TableName(database.lower(), name)) for name in names]
        views = [
            (name, "view", None, None, None)
            for name in warehouse.context.catalog.list_views(database.lower())
        ]
    show_rows(_LONG_COLUMNS, sorted([*facts, *views]), output)


def _table_facts(warehouse: ArrowWarehouse, name: TableName) -> Row:
    """Return name, kind, rows, bytes and time of the last commit of a table, as of now."""
    from hiveacid.core.snapshot.classify_entries import ItemState  # noqa: PLC0415
    from hiveacid.table.read.history_and_time_travel import format_millis  # noqa: PLC0415 - keeps --help fast
    from hiveacid.table.read.inventory import StandaloneAccess, inventory_of  # noqa: PLC0415

    context = warehouse.context
    table = context.require(name)
    partitions = context.catalog.list_partitions(name) if table.partition_columns else None
    locations = inventory_of(
        StandaloneAccess(context.fs, context.store, context.catalog), table, partitions
    ).locations
    size = sum(file.bytes for one in locations for file in one.files if file.state is ItemState.USED)
    rows = commits = None
    with suppress(HiveAcidError):  # text, Avro, a damaged file
        rows = warehouse.table(name).count()
    with suppress(UnsupportedFeatureError):  # a metastore
        commits = context.store.commits(name)
    last = format_millis(commits[-1].committed) if commits else None
    return name.name, table.kind.value.replace("_", " "), rows, size, last


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
@click.option("-a", "--all", "is_whole", is_flag=True, help="All columns, also in a table.")
@options.output_option(*options.FORMATS)
@options.connection_options
def history(
    *, connection: options.ConnectionOptions, name: str, limit: int | None, is_whole: bool, output: str
) -> None:
    """List the table's commits with user, time and operation, newest first.

    A table has the columns that people ask for first; --all and the other formats have all of them.
    """
    from hiveacid.table.read.history_and_time_travel import HISTORY, format_times, history_rows  # noqa: PLC0415 - keeps --help fast

    with connection.standalone_access() as access:
        rows = history_rows(access, *access.find(name))
    columns = _names(HISTORY)
    shown = columns if is_whole or output != "table" else _HISTORY_OF_A_TABLE
    places = [columns.index(column) for column in shown]
    show_rows(shown, [[row[place] for place in places] for row in map(format_times, rows[:limit])], output)


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
        with connection.session() as session, at_work(session.context.env):
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
    with connection.session() as session, at_work(session.context.env):
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
        rows = transaction_rows(open_and_aborted(store), format_millis)
        show_rows(tuple(TRANSACTION_COLUMNS), rows, output)


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
