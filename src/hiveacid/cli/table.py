"""``hiveacid table``: what tables there are, and what they are made of."""

from __future__ import annotations

import click

from hiveacid.cli.options import FORMATS, Place, errors_end, output_option, place_options
from hiveacid.core.types import quote_name


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
    """List the files that a reader of the table reads now."""
    from hiveacid.cli.show import show  # noqa: PLC0415

    with errors_end(), place.session() as session:
        show(session.table(name).inspect.files(), output)


@table.command()
@click.argument("name", metavar="TABLE")
@output_option(*FORMATS)
@place_options
def deltas(*, place: Place, name: str, output: str) -> None:
    """List the directories of the table: used, obsolete or aborted."""
    from hiveacid.cli.show import show  # noqa: PLC0415

    with errors_end(), place.session() as session:
        show(session.table(name).inspect.deltas(), output)


def _quoted(name: str) -> str:
    return ".".join(quote_name(part) for part in name.replace("`", "").split("."))
