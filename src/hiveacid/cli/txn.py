"""``hiveacid txn`` and ``hiveacid locks``: who is at work, and how to stop it."""

from __future__ import annotations

import click

from hiveacid.cli.options import Place, errors_end, output_option, place_options

_FORMATS = ("table", "json", "csv", "tsv")


@click.group()
def txn() -> None:
    """List and abort transactions."""


@txn.command("list")
@output_option(*_FORMATS)
@place_options
def list_transactions(*, place: Place, output: str) -> None:
    """List open and aborted transactions (times in milliseconds since the epoch)."""
    _show(place, "SHOW TRANSACTIONS", output)


@txn.command()
@click.argument("ids", nargs=-1, required=True, type=click.IntRange(min=1), metavar="ID...")
@place_options
def abort(*, place: Place, ids: tuple[int, ...]) -> None:
    """Abort open transactions; none of them, if one is unknown or has committed."""
    with errors_end(), place.session() as session:
        session.sql(f"ABORT TRANSACTIONS {' '.join(map(str, ids))}")


@click.command()
@output_option(*_FORMATS)
@place_options
def locks(*, place: Place, output: str) -> None:
    """List locks, held and waiting."""
    _show(place, "SHOW LOCKS", output)


def _show(place: Place, text: str, output: str) -> None:
    from hiveacid.cli.show import show  # noqa: PLC0415

    with errors_end(), place.session() as session:
        show(session.sql(text), output)
