"""What the tests of sessions that die at a chosen call share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.crash.late_sessions import heartbeats_end_nothing


@pytest.fixture(scope="module")
def without_heartbeats() -> Iterator[None]:
    """Keep the heartbeats of the living session from ending transactions of a late one (support.crash.late_sessions)."""
    with heartbeats_end_nothing():
        yield
