"""Compaction settings overridden by properties of a table or database (``compactorthreshold.*``, ``compactor.*``)."""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.config.property_definitions import COMPACTOR, COMPACTOR_THRESHOLD, PRIORITY, WORKER_POOL
from hiveacid.config.setting_definitions import REGISTRY
from hiveacid.config.settings import Settings

PREFIXES = tuple(setting.name.removesuffix("NAME") for setting in (COMPACTOR_THRESHOLD, COMPACTOR))
_WITHOUT_PREFIX = (WORKER_POOL.name, PRIORITY.name)


def compactor_settings(settings: Settings, *properties: Iterable[tuple[str, str]]) -> Settings:
    """Return settings with the overrides for compaction in properties; later properties win over earlier ones.

    ``compactorthreshold.NAME`` (Hive's key for the initiator) and ``compactor.NAME`` (Hive's key for a job) override
    the setting NAME. Pool and priority need no prefix. Case does not matter; a NAME that is not a setting is ignored,
    as in Hive. Raises ConfigError for a value that does not fit the setting.
    """
    for pairs in properties:
        for key, text in pairs:
            name = _overridden_setting_name(key)
            if name is not None and text:
                settings = settings.with_value(name, text)
    return settings


def _overridden_setting_name(key: str) -> str | None:
    lowered = key.strip().lower()
    if lowered in _WITHOUT_PREFIX:
        return lowered
    for prefix in PREFIXES:
        name = lowered.removeprefix(prefix)
        if name != lowered:
            return name if name in REGISTRY else None
    return None
