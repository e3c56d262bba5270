"""``hiveacid txn`` and ``hiveacid locks``: who is at work, and how to stop it."""

from __future__ import annotations

import click

from hiveacid.cli.options import FORMATS, Place, errors_end, output_option, place_options


@click.group()
def txn() -> None:
    """List and abort transactions."""


@txn.command("list")
@output_option(*FORMATS)
@place_options
def list_transactions(*, place: Place, output: str) -> None:
    """List open and aborted transactions (times in milliseconds since the epoch)."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - not before --help had its say
    from hiveacid.sql.store_rows import TRANSACTION_COLUMNS, transaction_rows  # noqa: PLC0415

    with errors_end(), place.opened_store() as store:
        show_rows(TRANSACTION_COLUMNS, transaction_rows(store), output)


@txn.command()
@click.argument("ids", nargs=-1, required=True, type=click.IntRange(min=1), metavar="ID...")
@place_options
def abort(*, place: Place, ids: tuple[int, ...]) -> None:
    """Abort open transactions; none of them, if one is unknown or has committed."""
    from hiveacid.sql.store_rows import abort_transactions  # noqa: PLC0415 - see above

    with errors_end(), place.opened_store() as store:
        abort_transactions(store, ids)


@click.command()
@output_option(*FORMATS)
@place_options
def locks(*, place: Place, output: str) -> None:
    """List locks, held and waiting."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - see above
    from hiveacid.sql.store_rows import LOCK_COLUMNS, lock_rows  # noqa: PLC0415

    with errors_end(), place.opened_store() as store:
        show_rows(LOCK_COLUMNS, lock_rows(store.show_locks()), output)
