"""``hiveacid txn`` and ``hiveacid locks``: list and abort transactions, list locks."""

from __future__ import annotations

import click

from hiveacid.cli.options import FORMATS, ConnectionOptions, connection_options, output_option
from hiveacid.cli.output_formats import show_rows
from hiveacid.sql.execute.show_rows import (
    LOCK_COLUMNS,
    TRANSACTION_COLUMNS,
    abort_transactions,
    lock_rows,
    transaction_rows,
)
from hiveacid.table.read.time_travel import format_millis


@click.group()
def txn() -> None:
    """List and abort transactions."""


@txn.command("list")
@output_option(*FORMATS)
@connection_options
def list_transactions(*, connection: ConnectionOptions, output: str) -> None:
    """List open and aborted transactions, with times in UTC."""
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
    with connection.opened_store() as store:
        store.abort_timed_out()
        show_rows(LOCK_COLUMNS, lock_rows(store.show_locks(), format_millis), output)
