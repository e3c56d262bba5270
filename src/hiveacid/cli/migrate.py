"""``hiveacid migrate``: tables from one store to another, without touching their files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import Place, errors_end, is_known, place_options, say, without_password

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiveacid.catalog.migrate import Migration, Moved
    from hiveacid.core.model import TableName


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
@click.option("--dry-run", is_flag=True, help="Only say what would be moved, and what could not.")
@place_options
def migrate(
    *, place: Place, names: tuple[str, ...], to: str, to_warehouse: str | None, every: bool, dry_run: bool
) -> None:
    """Move tables to another store: definitions, partitions, write ids. Their files stay as and where they are.

    From a Hive Metastore to a store of hiveacid's own, back, or between two of the latter. A table is in one store at
    any time: it leaves the old one when it is in the new one, and who asks for it there is told that it does not
    exist. Refused while transactions are open. May be repeated: what was interrupted is brought to its end.
    """
    if every == bool(names):
        raise click.UsageError("name tables or databases (sales.*), or say --all")
    with errors_end():
        moved, failed = _move(
            place, names, Place(to_warehouse or place.warehouse, to, (), place.verbose), dry_run=dry_run
        )
    for one in moved:
        row = {
            "table": str(one.table),
            "kind": one.kind.value,
            "high_watermark": int(one.high_watermark),
            "aborted": one.aborted,
            "partitions": one.partitions,
        }
        click.echo(json.dumps(row, ensure_ascii=False))
    if failed:
        raise click.exceptions.Exit(1)


def _move(place: Place, names: Sequence[str], to: Place, *, dry_run: bool) -> tuple[list[Moved], int]:
    from hiveacid.catalog.migrate import Migration, Side  # noqa: PLC0415 - not before --help had its say
    from hiveacid.storage.local import LocalFileSystem  # noqa: PLC0415
    from hiveacid.stores.clock import SystemClock  # noqa: PLC0415

    moved: list[Moved] = []
    failed = 0
    with place.opened_store() as old, to.opened_store() as new:
        work = Migration(Side(old, _shown(place)), Side(new, _shown(to)), LocalFileSystem(), SystemClock())
        for name in _chosen(work, names):
            try:
                one = work.move(name, dry_run=dry_run)
            except Exception as error:
                if not is_known(error):
                    raise
                click.echo(f"{name}: ", nl=False, err=True)
                say(error)
                failed += 1
                continue
            if one is not None:
                moved.append(one)
    return moved, failed


def _shown(place: Place) -> str:
    """Return what a store is called in messages and marks: no user and no password."""
    if place.store is None:
        return f"the store of {place.warehouse}"
    scheme, _, rest = place.store.partition("://")
    return f"{scheme.partition('+')[0]}://{rest.rpartition('@')[2].partition('?')[0]}"


def _chosen(work: Migration, names: Sequence[str]) -> list[TableName]:
    from hiveacid.core.model import TableName  # noqa: PLC0415

    known = work.tables() if not names or any(name.endswith(".*") for name in names) else []
    if not names:
        return known
    chosen: dict[TableName, None] = {}
    for name in names:
        database, dot, table = name.strip().lower().rpartition(".")
        if table == "*":
            chosen.update({one: None for one in known if one.database == database})
        else:
            chosen[TableName(database if dot else "default", table)] = None
    return list(chosen)
