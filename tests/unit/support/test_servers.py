"""Ports of the servers that tests start."""

from __future__ import annotations

import socket
from random import SystemRandom

import pytest

from support.servers.databases import free_port


def test_a_port_is_free_and_given_to_no_outgoing_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 32768 on the system may give it away while the server is started anew."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        used, free = taken.getsockname()[1], free_port()
        monkeypatch.setattr(SystemRandom, "sample", lambda *_: [used, free])
        assert (free_port(), max(free, used) < 32_768) == (free, True)
        monkeypatch.setattr(SystemRandom, "sample", lambda *_: [used])
        with pytest.raises(RuntimeError, match="no free port"):
            free_port()
