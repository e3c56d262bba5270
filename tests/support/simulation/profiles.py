"""What a run is about: who is at work, on which tables, how often processes stop. Each seed draws one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hiveacid.core.model import TableName
from support.simulation.scheduler import Chances

WHOLE, PARTED = TableName("shop", "whole"), TableName("shop", "parted")
SPARE, OTHER = TableName("shop", "spare"), TableName("shop", "other")  # without partitions, now and then
_ALL = (WHOLE, WHOLE, PARTED, PARTED, SPARE)
_SERVICES = ("compactor", "cleaner", "reaper")
_TURNS: Mapping[str, int] = MappingProxyType(
    {"make_again": 4, "rename": 2, "add": 4, "drop_partition": 4, "adopt": 1, "take_place": 2}
)
_STATEMENTS: Mapping[str, int] = MappingProxyType(
    {"insert": 12, "update": 10, "delete": 6, "overwrite": 2, "truncate": 1, "several": 4}
)


@dataclass(frozen=True)
class Profile:
    """``crew``: roles; ``names``: tables to choose from; ``turns`` of definers and ``statements`` of writers by weight."""

    crew: tuple[str, ...]
    names: tuple[TableName, ...] = _ALL
    turns: Mapping[str, int] = field(default_factory=lambda: _TURNS)
    statements: Mapping[str, int] = field(default_factory=lambda: _STATEMENTS)
    chances: Chances = field(default_factory=Chances)
    local: bool | None = None  # a local disk, an object store, or either
    days: tuple[str, ...] = ("0", "0", "0", "1", "1", "2", "3", "4")


_PAUSES = Chances(dies=0.001, freezes=0.03, sleeps=0.01, longest=5.0)
_SLOW_WRITERS = replace(_PAUSES, freezes=0.06, paused=("writer", "streamer"))
_SLOW_SERVICES = replace(_PAUSES, freezes=0.08, paused=("definer", "cleaner"))
_AGAIN = MappingProxyType({"make_again": 1})
_PARTITIONS = MappingProxyType({"add": 1, "drop_partition": 2})

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "everything": Profile((*["writer"] * 2, *["reader"] * 2, *["definer"] * 2, "streamer", *_SERVICES)),
        "services": Profile((*["writer"] * 3, *["reader"] * 2, *["compactor"] * 2, *["cleaner"] * 2, "reaper")),
        "changes": Profile(
            ("writer",) * 4, (WHOLE,), statements=MappingProxyType({"insert": 1, "update": 6, "delete": 2, "several": 3}),
            chances=Chances(dies=0.001, freezes=0.002),
        ),
        "overwrites": Profile(
            (*["writer"] * 4, "reader"), (WHOLE, PARTED),
            statements=MappingProxyType({"insert": 6, "overwrite": 3, "truncate": 2}),
            chances=Chances(dies=0.001, freezes=0.004), days=("0", "0", "1"),
        ),
        "made again": Profile(
            (*["writer"] * 3, "definer", "definer", "reader", "cleaner"), (WHOLE,), _AGAIN, chances=_SLOW_WRITERS,
            statements=MappingProxyType({"insert": 6, "update": 2, "overwrite": 2, "truncate": 3}),
        ),
        "slow services": Profile(
            (*["writer"] * 2, "definer", "definer", "cleaner", "cleaner"), (WHOLE,), _AGAIN, chances=_SLOW_SERVICES,
            statements=MappingProxyType({"insert": 6, "overwrite": 4}),
        ),
        "partitions": Profile(
            (*["writer"] * 2, *["reader"] * 2, "definer", "definer", "cleaner"), (PARTED,), _PARTITIONS, chances=_PAUSES,
            days=("0", "1", "2"), statements=MappingProxyType({"insert": 6, "overwrite": 2}),
        ),
        "streams": Profile(
            ("streamer", "streamer", "streamer", "definer", "reader", "cleaner"), (WHOLE,), _AGAIN, chances=_SLOW_WRITERS, local=True
        ),
        "places": Profile(
            ("definer",) * 4, (WHOLE,), MappingProxyType({"take_place": 6, "rename": 1}), chances=Chances(dies=0.001)
        ),
        "frames": Profile(
            (*["reader"] * 3, "writer", "compactor", "cleaner"), (WHOLE,), chances=Chances(dies=0.001, freezes=0.001, sleeps=0.05)
        ),
    }
)  # fmt: skip
