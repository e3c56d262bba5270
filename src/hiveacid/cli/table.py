"""``hiveacid table``: lists tables, and shows a table's files, directories and history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import FORMATS, ConnectionOptions, connection_options, exit_on_errors, output_option
from hiveacid.core.schema.types import quote_name

if TYPE_CHECKING:
    from hiveacid.table.read.inventory import Row, TableInventory


@click.group()
def table() -> None:
    """List and inspect tables."""


@table.command("list")
@click.option("-d", "--database", default="default", show_default=True, help="The database.")
@output_option(*FORMATS)
@connection_options
def list_tables(*, connection: ConnectionOptions, database: str, output: str) -> None:
    """List the tables of a database."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - not before --help had its say
    from hiveacid.sql.execute.store_rows import TABLE_COLUMNS, table_rows  # noqa: PLC0415

    with exit_on_errors(), connection.opened_store() as store:
        show_rows(TABLE_COLUMNS, table_rows(store, database.lower()), output)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@connection_options
def describe(*, connection: ConnectionOptions, name: str, output: str) -> None:
    """Describe a table: columns, partitions, properties, storage."""
    from hiveacid.cli.show import show  # noqa: PLC0415

    with exit_on_errors(), connection.session() as session:
        show(session.sql(f"DESCRIBE FORMATTED {_quoted(name)}"), output)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@connection_options
def files(*, connection: ConnectionOptions, name: str, output: str) -> None:
    """List the files of the table: used, obsolete, aborted, open, foreign …, and why."""
    from hiveacid.table.read.inventory import FILES, file_rows  # noqa: PLC0415 - not before --help had its say

    _print_inventory(connection, name, output, FILES, file_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@connection_options
def deltas(*, connection: ConnectionOptions, name: str, output: str) -> None:
    """List the directories of the table: used, obsolete, aborted, open, staging, foreign …, and why."""
    from hiveacid.table.read.inventory import DELTAS, delta_rows  # noqa: PLC0415 - not before --help had its say

    _print_inventory(connection, name, output, DELTAS, delta_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Show only the newest N.")
@output_option(*FORMATS)
@connection_options
def history(*, connection: ConnectionOptions, name: str, limit: int | None, output: str) -> None:
    """List the table's commits with user, time and operation, newest first."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - not before --help had its say
    from hiveacid.table.read.history import HISTORY, format_times, history_rows  # noqa: PLC0415

    with exit_on_errors(), connection.shelf() as shelf:
        rows = history_rows(shelf, *shelf.find(name))
    show_rows([column for column, _ in HISTORY], [format_times(row) for row in rows[:limit]], output)


def _print_inventory(
    connection: ConnectionOptions,
    name: str,
    output: str,
    columns: Sequence[tuple[str, str]],
    rows_of: Callable[[TableInventory], Iterable[Row]],
) -> None:
    """Print rows made from the inventory of a table's directories; needs no Spark."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - see above
    from hiveacid.table.read.inventory import inventory_of  # noqa: PLC0415

    with exit_on_errors(), connection.shelf() as shelf:
        found = inventory_of(shelf, *shelf.find(name))
    show_rows([column for column, _ in columns], list(rows_of(found)), output)


def _quoted(name: str) -> str:
    return ".".join(quote_name(part) for part in name.replace("`", "").split("."))
