"""Beginning of a table's readable history, and for how long replaced files are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config.table_properties import HISTORY_FROM, HISTORY_RETENTION
from hiveacid.config.values import parse_duration
from hiveacid.errors import ConfigError
from hiveacid.storage.locations import id_property

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition, TableName, WriteId
    from hiveacid.table.context import Context


def record_history_start(context: Context, name: TableName, earliest: WriteId) -> None:
    """Remember, before anything is deleted, from which write id on the table's history is whole.

    Hive's cleaner leaves no such note: with a metastore it is not relied upon (``core.snapshot.changes``). The caller
    holds a lock that ALTER TABLE waits for, so neither undoes the other's change of the definition.
    """
    table = context.catalog.get_table(name)
    if table is None or id_property(table, HISTORY_FROM) >= earliest:
        return
    context.catalog.alter_table(name, table.with_properties({HISTORY_FROM.name: str(int(earliest))}))


def history_retention(table: TableDefinition | None) -> float:
    """Return for how many seconds a table keeps what compactions replaced; 0 where it does not say.

    Raises ConfigError for a text that is not a duration: then nothing may be removed.
    """
    text = None if table is None else HISTORY_RETENTION.of(table)
    if text is None:
        return 0.0
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"table property {HISTORY_RETENTION.name}: {error}") from error
