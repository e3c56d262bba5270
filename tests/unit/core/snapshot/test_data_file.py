"""Identity of a data file by path, size and time, on which caches rely."""

from __future__ import annotations

import pytest

from hiveacid.core.snapshot.directory_listing import DataFile

NOW = 1_700_000_100_000


@pytest.mark.parametrize(
    ("modified", "identified"),
    [
        (NOW - 1, True),  # milliseconds, as on local disks: cached at once
        (NOW - 5_000, False),
        (NOW - 6_000, True),
        (NOW + 60_000, False),  # a store whose clock is ahead
        (0, False),
    ],
)
def test_whole_seconds_identify_only_an_old_file(modified: int, identified: bool) -> None:  # noqa: FBT001
    assert DataFile("bucket_00000", 1, modified=modified).is_identified(NOW) is identified
