"""``hiveacid migrate``, ``relocate`` and ``backup``: tables into another store, warehouses to another place, consistent copies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    connection_options,
    escape_controls,
    is_expected,
    print_error,
    without_password,
)
from hiveacid.cli.progress_line import TablesInTurn, tables_in_turn
from hiveacid.core.model import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiveacid.catalog.migrate import MigratedTable, Migration
    from hiveacid.core.schema.location_overlap import Place


@click.command()
@click.argument("names", nargs=-1, metavar="[TABLE | DATABASE.*]...")
@click.option(
    "--to", "to", required=True, envvar="HIVEACID_TO", metavar="URL", callback=without_password,
    help="The store that the tables go to: an SQLAlchemy URL or thrift://host:9083. Also from $HIVEACID_TO.",
)  # fmt: skip
@click.option(
    "--to-warehouse",
    metavar="DIRECTORY",
    help="The warehouse of that store (default: the same; a metastore knows its own).",
)
@click.option("--all", "every", is_flag=True, help="All tables.")
@click.option("--dry-run", is_flag=True, help="Only print what would be moved, and what could not.")
@connection_options
def migrate(
    *,
    connection: ConnectionOptions,
    names: tuple[str, ...],
    to: str,
    to_warehouse: str | None,
    every: bool,
    dry_run: bool,
) -> None:
    """Move tables to another store: definitions, partitions, write ids. Their files stay unchanged in their place.

    Views stay: the command names those of the tables' databases, to be created again in the new store.

    Tables move from a Hive Metastore to a store of hiveacid's own, back, or between two of the latter. A table is usable
    in exactly one store at any time: as soon as it is in the new store, the old one reports that it does not exist. The
    command moves no table while transactions are open. A repeated call completes a move that was interrupted.
    """
    if (every and names) or not (every or names):
        raise click.UsageError("give either names of tables or databases (sales.*), or --all")
    target = ConnectionOptions(to_warehouse or connection.warehouse, to, (), connection.verbose)
    tables, failed = _move(connection, names, target, dry_run=dry_run)
    for item in tables:
        row = {
            "table": str(item.table.name),
            "kind": item.table.kind.value,
            "high_watermark": int(item.high_watermark),
            "aborted": len(item.aborted),
            "partitions": len(item.partitions),
        }
        click.echo(json.dumps(row, ensure_ascii=False))
    if failed:
        raise click.exceptions.Exit(1)


def _move(
    connection: ConnectionOptions, names: Sequence[str], to: ConnectionOptions, *, dry_run: bool
) -> tuple[list[MigratedTable], int]:
    """Return the moved tables, and the number of tables that failed."""
    from hiveacid.catalog.migrate import Migration, MigrationStore  # noqa: PLC0415 - keeps --help fast
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415
    from hiveacid.storage.local_file_system import LocalFileSystem  # noqa: PLC0415

    moved: list[MigratedTable] = []
    failed, progress = 0, TablesInTurn()
    with connection.opened_store() as old, to.opened_store(existing=False) as new:
        migration = Migration(
            MigrationStore(old, _display_name(connection)),
            MigrationStore(new, _display_name(to)),
            LocalFileSystem(),
            SystemClock(),
            progress.watch,
        )
        names_to_move = _select_tables(migration, names)
        progress.total = len(names_to_move)
        with tables_in_turn(progress) as line:
            for name in names_to_move:
                progress.begin(escape_controls(str(name)))
                try:
                    item = migration.move(name, dry_run=dry_run)
                except Exception as error:
                    if not is_expected(error):
                        raise
                    with line.away():
                        click.echo(f"{name}: ", nl=False, err=True)
                        print_error(error)
                    failed += 1
                    continue
                if item is not None:
                    moved.append(item)
        databases = {TableName.parse(name).database for name in names}
        for view in migration.views(databases or set(migration.source.store.list_databases())):
            click.echo(
                f"view {escape_controls(str(view))} is not moved: run its SHOW CREATE TABLE statement in the new store",
                err=True,
            )
    return moved, failed


def _display_name(connection: ConnectionOptions) -> str:
    """Return the name of a store for messages and table properties, without user and password."""
    if connection.store is None:
        where = connection.warehouse or ""
        return f"the store of {where if '://' in where else Path(where).resolve()}"
    scheme, _, address = connection.store.partition("://")
    return f"{scheme.partition('+')[0]}://{address.rpartition('@')[2].partition('?')[0]}"


def _select_tables(migration: Migration, names: Sequence[str]) -> list[TableName]:

    candidates = migration.tables() if not names or any(name.endswith(".*") for name in names) else []
    if not names:
        return candidates
    selection: dict[TableName, None] = {}
    for name in names:
        table = TableName.parse(name)
        if table.name == "*":
            selection.update(
                {candidate: None for candidate in candidates if candidate.database == table.database}
            )
        else:
            selection[table] = None
    return list(selection)


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
