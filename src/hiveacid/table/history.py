"""How far a table's history reaches back, and for how long it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.config.values import parse_duration
from hiveacid.errors import ConfigError
from hiveacid.storage.listing import HISTORY_FROM, HISTORY_RETENTION

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition, TableName, WriteId
    from hiveacid.table.context import Context


def note_history(context: Context, name: TableName, earliest: WriteId) -> None:
    """Remember, before anything is deleted, from which write id on the table's history is whole.

    Hive's services leave no such note: beside them it is not relied upon (``core.changes``). ALTER TABLE waits for
    the lock of whoever calls this: neither undoes the other's change of the definition.
    """
    table = context.catalog.get_table(name)
    if table is None or int(table.property(HISTORY_FROM) or 0) >= earliest:
        return
    context.catalog.alter_table(name, table.with_properties({HISTORY_FROM: str(int(earliest))}))


def retention(table: TableDefinition | None) -> float:
    """Return for how many seconds a table keeps what compactions replaced; 0 where it does not say.

    Raises ConfigError for a text that is not a duration: then nothing may be removed.
    """
    text = None if table is None else table.property(HISTORY_RETENTION)
    if text is None:
        return 0.0
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"table property {HISTORY_RETENTION}: {error}") from error
