"""Servers of Thrift calls, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.servers.thrift_server import Answer, Server


@pytest.fixture
def start() -> Iterator[Callable[[Answer], Server]]:
    started: list[Server] = []

    def run(answer: Answer) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield run
    for one in started:
        one.stop()
