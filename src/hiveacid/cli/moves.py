"""``hiveacid migrate``, ``relocate`` and ``backup``: tables into another store, warehouses to another place, consistent copies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
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
from hiveacid.core.model import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiveacid.catalog.migrate import MigratedTable, Migration
    from hiveacid.core.schema.location_overlap import Place
    from hiveacid.ports.catalog import Catalog
    from hiveacid.sql.statements import Slice


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

    Views of their databases move, too, if everything that they read is in the new store. Otherwise the command prints why
    they stay.

    Tables move from a Hive Metastore to a store of hiveacid's own, back, or between two of the latter. A table is usable
    in exactly one store at any time: as soon as it is in the new store, the old one reports that it does not exist. The
    command moves no table while transactions are open. A repeated call completes a move that was interrupted.
    """
    if (every and names) or not (every or names):
        raise click.UsageError("give either names of tables or databases (sales.*), or --all")
    target = ConnectionOptions(to_warehouse or connection.warehouse, to, (), connection.verbose)
    tables, views, failed = _move(connection, names, target, dry_run=dry_run)
    for item in tables:
        row = {
            "table": str(item.table.name),
            "kind": item.table.kind.value,
            "high_watermark": int(item.high_watermark),
            "aborted": len(item.aborted),
            "partitions": len(item.partitions),
        }
        click.echo(json.dumps(row, ensure_ascii=False))
    for view in views:
        click.echo(json.dumps({"view": view}, ensure_ascii=False))
    if failed:
        raise click.exceptions.Exit(1)


def _move(
    connection: ConnectionOptions, names: Sequence[str], to: ConnectionOptions, *, dry_run: bool
) -> tuple[list[MigratedTable], list[str], int]:
    """Return the moved tables, the names of the moved views, and the number of tables that failed."""
    from hiveacid.catalog.migrate import Migration, MigrationStore  # noqa: PLC0415 - keeps --help fast
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415
    from hiveacid.storage.local_file_system import LocalFileSystem  # noqa: PLC0415

    moved: list[MigratedTable] = []
    failed = 0
    with connection.opened_store() as old, to.opened_store(existing=False) as new:
        migration = Migration(
            MigrationStore(old, _display_name(connection)),
            MigrationStore(new, _display_name(to)),
            LocalFileSystem(),
            SystemClock(),
        )
        names_to_move = _select_tables(migration, names)
        for name in names_to_move:
            try:
                item = migration.move(name, dry_run=dry_run)
            except Exception as error:
                if not is_expected(error):
                    raise
                click.echo(f"{name}: ", nl=False, err=True)
                print_error(error)
                failed += 1
                continue
            if item is not None:
                moved.append(item)
        databases = {TableName.parse(name).database for name in names}
        views = migration.views(databases or set(migration.source.store.list_databases()))
        moved_views = _move_views(migration, views, {item.table.name for item in moved}, dry_run=dry_run)
    return moved, moved_views, failed


def _move_views(
    migration: Migration, views: Sequence[TableName], moved_tables: Collection[TableName], *, dry_run: bool
) -> list[str]:
    """Move the views that read only tables and views of the target; print why the others stay.

    ``moved_tables``: tables that count as moved; with ``dry_run`` those that would be.
    """
    reachable, obstacles = set(moved_tables), dict.fromkeys(views, "")
    moved: list[str] = []
    has_moved = True
    while has_moved:
        has_moved = False
        for view in list(obstacles):
            try:
                obstacles[view] = _find_obstacle(migration, view, reachable)
                if not obstacles[view] and not dry_run:
                    migration.move_view(view)
            except Exception as error:
                if not is_expected(error):
                    raise
                obstacles[view] = str(error)
            if not obstacles[view]:
                del obstacles[view]
                reachable.add(view)
                moved.append(str(view))
                has_moved = True
    for view, reason in obstacles.items():
        click.echo(
            f"view {escape_controls(str(view))} was not moved: {escape_controls(reason)}. Run its SHOW CREATE TABLE statement in the new store",
            err=True,
        )
    return moved


def _find_obstacle(migration: Migration, view: TableName, reachable: Collection[TableName]) -> str:
    """Return the reason why a view cannot move to the target, an empty text if it can."""
    from hiveacid.spark.parser.lexer import mentions  # noqa: PLC0415
    from hiveacid.sql.binding.table_sources import CHANGE_FUNCTIONS  # noqa: PLC0415
    from hiveacid.sql.statements import Slice  # noqa: PLC0415

    definition = migration.source.store.get_view(view)
    if definition is None:
        return "it was dropped"
    query = Slice(definition.text)
    if mentions(query.tokens, CHANGE_FUNCTIONS):
        return "it calls a change-feed function"
    target = migration.target.store
    for read in _named_tables(query, definition.database, migration.source.store):
        if read not in reachable and target.get_table(read) is None and target.get_view(read) is None:
            return f"it reads {read}, which is not in {migration.target.name}"
    return ""


def _named_tables(query: Slice, database: str, catalog: Catalog) -> Iterator[TableName]:
    """Yield the names in a query that have a database, and those of tables and views; a column of such a name counts, too."""
    tokens = [token for token in query.tokens if token.is_name or token.text == "."]
    for index, token in enumerate(tokens):
        if not token.is_name:
            continue
        behind = tokens[index + 1 : index + 3]
        own, qualifier = TableName(database, token.name.lower()), token.name.lower()
        is_qualifier = len(behind) == 2 and behind[0].text == "."  # noqa: PLR2004 - a dot and a name
        if is_qualifier and catalog.get_database(qualifier) is not None:
            yield TableName(qualifier, behind[1].name.lower())
        elif catalog.get_table(own) is not None or catalog.get_view(own) is not None:
            yield own


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
