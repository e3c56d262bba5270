"""The package's public names, each imported from its home when it is first used."""

from __future__ import annotations

import hiveacid


def test_each_public_name_is_found() -> None:
    assert dir(hiveacid) == sorted(hiveacid.__all__)
    for name in hiveacid.__all__:
        assert getattr(hiveacid, name) is not None
