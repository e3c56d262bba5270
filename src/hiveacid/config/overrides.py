"""Settings that a table or database has of its own, as properties (``compactorthreshold.*``, ``compactor.*``)."""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.config.keys import REGISTRY
from hiveacid.config.settings import Settings
from hiveacid.config.table_properties import COMPACTOR, COMPACTOR_THRESHOLD, PRIORITY, WORKER_POOL

PREFIXES = tuple(one.name.removesuffix("NAME") for one in (COMPACTOR_THRESHOLD, COMPACTOR))
_BARE = (WORKER_POOL.name, PRIORITY.name)


def compactor_settings(settings: Settings, *properties: Iterable[tuple[str, str]]) -> Settings:
    """Return settings with what properties say about compaction; later properties count more than earlier.

    ``compactorthreshold.NAME`` (Hive's, for what the initiator asks) and ``compactor.NAME`` (for what a job
    asks) override the setting NAME, the pool and the priority need no prefix. Prefixes in any case; names
    that are no settings are passed over, as in Hive. Raises ConfigError for a text that does not fit.
    """
    for some in properties:
        for key, text in some:
            name = _setting(key)
            if name is not None and text:
                settings = settings.with_value(name, text)
    return settings


def _setting(key: str) -> str | None:
    lowered = key.strip().lower()
    if lowered in _BARE:
        return lowered
    for prefix in PREFIXES:
        name = lowered.removeprefix(prefix)
        if name != lowered:
            return name if name in REGISTRY else None
    return None
