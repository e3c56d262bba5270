"""Entries of an ACID file's ORC footer: the last key of each stripe, counts of events, the version.

Rules: Hive's ``OrcRecordUpdater``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hiveacid.core.format.record_keys import RecordKey
from hiveacid.core.model import WriteId
from hiveacid.errors import BadFileError

KEY_INDEX = "hive.acid.key.index"
"""Footer entry: the last key of each stripe."""
STATISTICS = "hive.acid.stats"
"""Footer entry: how many inserts, updates and deletes a file holds."""
FORMAT_VERSION = "hive.acid.version"
"""Footer entry: always ``2``."""

# as many digits as a signed 64-bit number has
_KEY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,19}),(-?[0-9]{1,19})")
_STATISTICS = re.compile(r"([0-9]{1,19}),([0-9]{1,19}),([0-9]{1,19})")


@dataclass(frozen=True)
class AcidStatistics:
    """Number of events of each kind in a file; ``updates`` is 0 since updates are split."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def to_string(self) -> str:
        """Return the text of the footer entry. Hive 3.1 ignores a delete delta whose entry is missing or wrong."""
        return f"{self.inserts},{self.updates},{self.deletes}"


def parse_key_index(text: str) -> tuple[RecordKey, ...]:
    """Read a key index. Raises BadFileError.

    A reader must not rely on it: Trino writes one entry for any number of stripes, and other writers write wrong
    entries. An index is of no use unless it has one entry for each stripe.
    """
    keys: list[RecordKey] = []
    for part in text.removesuffix(";").split(";") if text else ():
        match = _KEY.fullmatch(part)
        if match is None:
            raise BadFileError(f"not a {KEY_INDEX} (write id,bucket,row id;...): {text[:200]!r}")
        keys.append(RecordKey(WriteId(int(match[1])), int(match[2]), int(match[3])))
    return tuple(keys)


def parse_statistics(text: str) -> AcidStatistics:
    """Read ``inserts,updates,deletes``. Raises BadFileError."""
    match = _STATISTICS.fullmatch(text)
    if match is None:
        raise BadFileError(f"not {STATISTICS} (inserts,updates,deletes): {text[:200]!r}")
    return AcidStatistics(int(match[1]), int(match[2]), int(match[3]))
