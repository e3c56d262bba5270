"""The settings of a session: an immutable value."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import overload

from hiveacid.config.setting_definitions import REGISTRY
from hiveacid.config.setting_types import Setting, T, Value
from hiveacid.core.display import did_you_mean
from hiveacid.errors import ConfigError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The settings of one session: an immutable value; every change makes a new one.

    ``changed`` holds the names and texts that were set, sorted by name. Unknown names are kept, too, because a script
    for Hive may set any name. Unknown names that begin with ``hiveacid.`` are refused.
    """

    changed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str] | Iterable[tuple[str, str]]) -> Settings:
        """Make settings from names and texts. Raises ConfigError as `with_value` does."""
        settings = cls()
        for name, text in dict(values).items():
            settings = settings.with_value(name, text)
        return settings

    @overload
    def get(self, setting: Setting[T]) -> T: ...

    @overload
    def get(self, setting: str) -> Value: ...

    def get(self, setting: Setting[T] | str) -> T | Value:
        """Return the value of a setting, given as a constant of ``setting_definitions`` or by name.

        Durations are seconds, sizes bytes. The value of an unknown name that was set is its text. Raises ConfigError
        for a name that is neither known nor set.
        """
        if isinstance(setting, Setting):
            return setting.parse(self.text(setting.name))
        entry = REGISTRY.get(setting)
        text = self.text(setting)
        return text if entry is None else entry.parse(text)

    def text(self, name: str) -> str:
        """Return a value as the text that SET prints. Raises ConfigError for a name that is neither known nor set."""
        changed_text = dict(self.changed).get(name)
        if changed_text is not None:
            return changed_text
        entry = REGISTRY.get(name)
        if entry is None:
            near = did_you_mean(name, REGISTRY)
            raise ConfigError(f"{name} is not a setting: SET -v lists the settings{near}")
        return entry.default

    def with_value(self, name: str, text: str) -> Settings:
        """Return a copy with one setting changed; ConfigError if the text does not fit its type.

        An unknown name is kept with a logged warning; an unknown ``hiveacid.`` one is a ConfigError.
        """
        name = name.strip()
        entry = REGISTRY.get(name)
        if entry is not None:
            try:
                entry.parse(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from error
        elif not name or name.startswith("hiveacid."):
            near = did_you_mean(name, REGISTRY)
            raise ConfigError(f"{name!r} is not a setting: SET -v lists the settings{near}")
        else:
            logger.warning(
                "hiveacid does not know the setting %s; it keeps the value and does not use it", name
            )
        return Settings(tuple(sorted((dict(self.changed) | {name: text.strip()}).items())))

    def without(self, name: str) -> Settings:
        """Return a copy with one setting back at its default (RESET)."""
        return Settings(tuple(pair for pair in self.changed if pair[0] != name))

    def items(self) -> tuple[tuple[str, str], ...]:
        """List every known setting and every changed one with its text, sorted (SET -v)."""
        defaults = {name: setting.default for name, setting in REGISTRY.items()}
        return tuple(sorted((defaults | dict(self.changed)).items()))
