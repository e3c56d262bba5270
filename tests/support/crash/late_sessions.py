"""Sessions whose clock is an hour late: once they die, others find that they have been silent for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hiveacid.transactions.heartbeats import Heartbeats


@contextmanager
def heartbeats_end_nothing() -> Iterator[None]:
    """Leave the transactions of a late session to those who wait for them.

    A heartbeat of the living session, due every 150 seconds, would end them before the point at which the late session
    is to die.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heartbeats, "pause", lambda _: 3600.0)
        yield
