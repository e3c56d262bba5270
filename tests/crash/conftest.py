"""What the tests of dying sessions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.crash.late_sessions import heartbeats_end_nothing


@pytest.fixture(autouse=True, scope="module")
def _heartbeats_end_nothing() -> Iterator[None]:
    with heartbeats_end_nothing():
        yield
