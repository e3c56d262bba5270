"""``hiveacid table``: what tables there are, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from hiveacid.cli.options import FORMATS, Place, errors_end, output_option, place_options
from hiveacid.core.types import quote_name

if TYPE_CHECKING:
    from hiveacid.table.inventory import Row, TableInventory


@click.group()
def table() -> None:
    """List and look into tables."""


@table.command("list")
@click.option("-d", "--database", default="default", show_default=True, help="The database.")
@output_option(*FORMATS)
@place_options
def list_tables(*, place: Place, database: str, output: str) -> None:
    """List the tables of a database."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - not before --help had its say
    from hiveacid.sql.store_rows import TABLE_COLUMNS, table_rows  # noqa: PLC0415

    with errors_end(), place.opened_store() as store:
        show_rows(TABLE_COLUMNS, table_rows(store, database.lower()), output)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@place_options
def describe(*, place: Place, name: str, output: str) -> None:
    """Describe a table: columns, partitions, properties, storage."""
    from hiveacid.cli.show import show  # noqa: PLC0415

    with errors_end(), place.session() as session:
        show(session.sql(f"DESCRIBE FORMATTED {_quoted(name)}"), output)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@place_options
def files(*, place: Place, name: str, output: str) -> None:
    """List the files of the table: used, obsolete, aborted, open, foreign …, and why."""
    from hiveacid.table.inventory import FILES, file_rows  # noqa: PLC0415 - not before --help had its say

    _look(place, name, output, FILES, file_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@place_options
def deltas(*, place: Place, name: str, output: str) -> None:
    """List the directories of the table: used, obsolete, aborted, open, staging, foreign …, and why."""
    from hiveacid.table.inventory import DELTAS, delta_rows  # noqa: PLC0415 - not before --help had its say

    _look(place, name, output, DELTAS, delta_rows)


@table.command()
@click.argument("name", metavar="TABLE")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the newest so many.")
@output_option(*FORMATS)
@place_options
def history(*, place: Place, name: str, limit: int | None, output: str) -> None:
    """Tell who committed what and when, newest first."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - not before --help had its say
    from hiveacid.table.past import HISTORY, history_rows, in_text  # noqa: PLC0415

    with errors_end(), place.shelf() as shelf:
        rows = history_rows(shelf, *shelf.find(name))
    show_rows([column for column, _ in HISTORY], [in_text(row) for row in rows[:limit]], output)


def _look(
    place: Place,
    name: str,
    output: str,
    columns: Sequence[tuple[str, str]],
    rows_of: Callable[[TableInventory], Iterable[Row]],
) -> None:
    """Print what lies in a table's directories; needs no Spark."""
    from hiveacid.cli.show import show_rows  # noqa: PLC0415 - see above
    from hiveacid.table.inventory import inventory_of  # noqa: PLC0415

    with errors_end(), place.shelf() as shelf:
        found = inventory_of(shelf, *shelf.find(name))
    show_rows([column for column, _ in columns], list(rows_of(found)), output)


def _quoted(name: str) -> str:
    return ".".join(quote_name(part) for part in name.replace("`", "").split("."))
