"""For how long the files that compactions and overwrites replaced stay."""

from __future__ import annotations

from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import HISTORY_RETENTION
from hiveacid.config.setting_types import parse_duration
from hiveacid.core.model import TableDefinition
from hiveacid.errors import ConfigError
from hiveacid.table.context import Context


def cleaning_delay(context: Context) -> float:
    """Return the delay in seconds between a compaction and the removal of its sources."""
    delayed = context.settings.get(setting_definitions.DELAYED_CLEANUP)
    return context.settings.get(setting_definitions.CLEANER_RETENTION) if delayed else 0.0


def history_retention(table: TableDefinition | None) -> float:
    """Return the seconds for which a table keeps replaced files; 0 without the table property.

    Raises ConfigError for a negative duration and for other texts; nothing may be removed then.
    """
    text = None if table is None else HISTORY_RETENTION.of(table)
    if text is None:
        return 0.0
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"table property {HISTORY_RETENTION.name}: {error}") from error
