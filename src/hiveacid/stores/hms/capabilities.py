"""Capabilities of the two generations of metastores, in one table; no other module asks for a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import StoreVersionError

_LOCK_NUMBERS = MappingProxyType(
    {LockType.SHARED_READ: 1, LockType.SHARED_WRITE: 2, LockType.EXCLUSIVE: 3, LockType.EXCL_WRITE: 4}
)


@dataclass(frozen=True)
class Capabilities:
    """A generation of metastores.

    ``locks``: lock types as numbers on the wire. ``txn_types``: transactions say what they are for.
    ``dynamic_rows``: a lock for partitions that are not known yet keeps its transaction from being forgotten.
    ``requests``: create_table_req and alter_table_req with the client's capabilities. ``shared_inserts``: writers
    that replace rows lock out readers, so that an insert needs no more than a reader's lock.
    ``remote_workers``: its compaction queue gives jobs to workers that are other processes.
    ``write_notifications``: listeners hear of a transaction's files with its write id (``add_write_notification_log``).
    ``layout``: the ``hiveacid.layout.level`` that its Hive reads.
    """

    locks: Mapping[LockType, int]
    txn_types: bool
    dynamic_rows: bool
    requests: bool
    shared_inserts: bool
    remote_workers: bool
    write_notifications: bool
    layout: str


HIVE3 = Capabilities(
    locks=MappingProxyType({**_LOCK_NUMBERS, LockType.EXCL_WRITE: _LOCK_NUMBERS[LockType.EXCLUSIVE]}),
    txn_types=False,
    dynamic_rows=False,
    requests=False,
    shared_inserts=True,
    remote_workers=False,
    write_notifications=False,
    layout="hive3",
)
HIVE4 = Capabilities(
    locks=_LOCK_NUMBERS,
    txn_types=True,
    dynamic_rows=True,
    requests=True,
    shared_inserts=False,
    remote_workers=True,
    write_notifications=True,
    layout="hive4",
)

PROCESSOR = (
    "EXTREAD",
    "EXTWRITE",
    "HIVECACHEINVALIDATE",
    "HIVEFULLACIDREAD",
    "HIVEFULLACIDWRITE",
    "HIVEMANAGEDINSERTREAD",
    "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGESTATS",
)
"""Client capabilities that hiveacid declares: metastores of Hive 4 then show and create transactional tables."""


def capabilities_of(version: str) -> Capabilities:
    """Return the capabilities of a metastore by its answer to ``getVersion``, which is "3.0" for all Hive 3 versions.

    Raises StoreVersionError for Hive 2 and older, which have no write ids.
    """
    major = version.strip().partition(".")[0]
    if not major.isdigit():
        raise StoreVersionError(
            f"the metastore says that it is of version {version!r}; 3.1 and 4.x are supported"
        )
    if int(major) < 3:  # noqa: PLR2004 - Hive 3
        raise StoreVersionError(
            f"the metastore is of version {version}; transactional tables need 3.1 or 4.x (write ids)"
        )
    return HIVE3 if int(major) == 3 else HIVE4  # noqa: PLR2004
