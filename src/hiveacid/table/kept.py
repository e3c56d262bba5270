"""What a connection has read of delete events: bounded by memory, by file and by snapshot.

Apart from ``table.dead``, because a command that only asks the store must not wait for Spark's and Arrow's import.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hiveacid.orc.kept import Kept

if TYPE_CHECKING:
    from hiveacid.spark.dead import DeadRows

_MOST_EVENTS, _MOST_FILES = 2_000_000, 20_000
_MOST_BYTES, _MOST_SNAPSHOTS = 1 << 26, 100


@dataclass
class Events:
    """What a connection has read of delete events."""

    files: Kept[Any] = field(default_factory=lambda: Kept(_MOST_EVENTS, _MOST_FILES))
    bits: Kept[DeadRows | None] = field(default_factory=lambda: Kept(_MOST_BYTES, _MOST_SNAPSHOTS))
