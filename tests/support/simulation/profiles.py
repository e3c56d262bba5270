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
# One kind of process stops before the calls that matter; the others go on, so that a table is made again meanwhile.
_ONE_IS_LATE = replace(_PAUSES, dies=0.0005, freezes=0.002, sleeps=0.0, longest=4.0)
_LATE_WRITERS = replace(
    _ONE_IS_LATE, paused=("writer",), before=MappingProxyType(
        {"fs.write_bytes": 0.3, "fs.claim_directory": 0.3, "store.commit_txn": 0.2, "fs.delete_listed": 0.4, "fs.delete_tree": 0.4}
    ),
)  # fmt: skip
_LATE_CLEANERS = replace(
    _ONE_IS_LATE,
    longest=6.0,
    paused=("cleaner",),
    before=MappingProxyType({"fs.delete_listed": 0.6, "fs.delete_tree": 0.6}),
)
_LATE_DROPS = replace(
    _ONE_IS_LATE,
    paused=("definer",),
    before=MappingProxyType({"fs.delete_listed": 0.5, "fs.delete_tree": 0.5}),
)
_LATE_STREAMS = replace(
    _ONE_IS_LATE, paused=("streamer",), before=MappingProxyType(
        {"fs.claim_directory": 0.3, "fs.replace_tail": 0.2, "fs.write_bytes": 0.2, "store.commit_txn": 0.1}
    ),
)  # fmt: skip
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
        "late writers": Profile(
            (*["writer"] * 3, "definer"), (WHOLE,), _AGAIN, chances=_LATE_WRITERS,
            statements=MappingProxyType({"insert": 3, "overwrite": 2}),
        ),
        "late cleaners": Profile(
            ("writer", "writer", "definer", "compactor", "cleaner", "cleaner"), (WHOLE,),
            MappingProxyType({"make_again": 1, "add": 2}), chances=_LATE_CLEANERS,
            statements=MappingProxyType({"insert": 1}),
        ),
        "late drops": Profile(
            ("writer", "writer", "definer", "definer"), (WHOLE,), _AGAIN, chances=_LATE_DROPS,
            statements=MappingProxyType({"insert": 1, "overwrite": 1}),
        ),
        "late streams": Profile(
            (*["streamer"] * 3, "definer", "reader"), (WHOLE,), _AGAIN, chances=_LATE_STREAMS, local=True
        ),
        "late partitions": Profile(
            ("writer", "writer", "definer", "cleaner", "reaper"), (PARTED,), _PARTITIONS, days=("0", "1"), local=False,
            chances=replace(_ONE_IS_LATE, longest=8.0, paused=("writer",), before=MappingProxyType({"fs.write_bytes": 0.3})),
            statements=MappingProxyType({"insert": 1, "overwrite": 1}),
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
