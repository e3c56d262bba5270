"""``hiveacid relocate`` and ``hiveacid backup``: warehouses that were copied or moved, and consistent copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import ConnectionOptions, connection_options, escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiveacid.core.schema.location_overlap import Place


@click.command()
@click.option(
    "--keep-outside",
    is_flag=True,
    help="Keep locations outside the warehouse: the original is gone, or both read only.",
)
@connection_options
def relocate(*, connection: ConnectionOptions, keep_outside: bool) -> None:
    """Make a warehouse that was copied or moved (-w: where it is now) independent of the original.

    Its store gets a new id, and locations below the old directory become those below the new one. Locations outside the
    warehouse stay; while there are any, the command changes nothing without --keep-outside, because the original, if it still
    exists, works on the same files.
    """
    from hiveacid.catalog.relocate import relocate as run  # noqa: PLC0415 - imports SQLAlchemy
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415

    connection.require_warehouse()
    done = run(connection.warehouse, connection.store, SystemClock(), keep_outside=keep_outside)
    click.echo(f"relocated from {escape_controls(done.old)} to {escape_controls(done.new)}", err=True)
    _print_outside(done.outside, "stays outside")


@click.command()
@click.argument("target", metavar="DIRECTORY")
@connection_options
def backup(*, connection: ConnectionOptions, target: str) -> None:
    """Copy a warehouse with its SQLite store to a new DIRECTORY, as of one moment, while clients go on.

    The copy opens after `hiveacid relocate -w DIRECTORY`, or without it at the path of the original.
    """
    from hiveacid.catalog.relocate import back_up  # noqa: PLC0415 - imports SQLAlchemy
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415

    connection.require_warehouse()
    if connection.store or not connection.warehouse:
        raise click.UsageError(
            "a store outside the warehouse is backed up by its own tools, the tables' directories after it"
        )
    done = back_up(connection.warehouse, target, SystemClock())
    click.echo(f"copied {done.files} files, {done.size} bytes, to {escape_controls(done.target)}", err=True)
    _print_outside(done.outside, "not copied")


def _print_outside(outside: Iterable[Place], what: str) -> None:
    for place in outside:
        click.echo(f"{what}: {escape_controls(place.owner)} {escape_controls(place.location)}")
