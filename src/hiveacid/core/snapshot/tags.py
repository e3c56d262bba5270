"""Tags of a table: names of states that stay readable, kept in a table property; the cleaner spares their files.

A tag holds the valid write-id list of its state, so that later compactions, commits and forgotten aborts do not change it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_write_id_list
from hiveacid.core.model import ShownAsText
from hiveacid.errors import ConfigError


@dataclass(frozen=True)
class TagName(ShownAsText):
    """A point in the past of a table, by the name of its tag, in lower case."""

    name: str

    def __str__(self) -> str:
        """Return the name with quotes."""
        return f"tag '{self.name}'"


@dataclass(frozen=True)
class Tag:
    """A named state. ``until``: milliseconds since the epoch from which on it is not kept; None: until DROP TAG."""

    name: str
    write_ids: ValidWriteIdList
    until: int | None = None

    def is_live(self, now: int) -> bool:
        """Tell whether the state is still kept at a time (ms, by the store's clock)."""
        return self.until is None or now < self.until


def parse_tags(text: str | None) -> Mapping[str, Tag]:
    """Read the table property of tags. Raises ConfigError."""
    try:
        entries = json.loads(text or "{}").items()
        return {name: Tag(name, parse_write_id_list(ids), until) for name, (ids, until) in entries}
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"not the tags of a table: {str(text)[:200]!r}: {error}") from error


def format_tags(tags: Iterable[Tag]) -> str:
    """Return the text that `parse_tags` reads."""
    return json.dumps({tag.name: (tag.write_ids.to_string(), tag.until) for tag in tags}, sort_keys=True)
