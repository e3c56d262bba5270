"""A wire that breaks: forwards connections to a server and cuts them, sometimes while an answer is under way."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # close with a reset, as a machine that is gone


@dataclass
class _Line:
    """A connection: the client's end, the server's end, and from when on answers are held back."""

    client: socket.socket
    server: socket.socket
    mute_since: float | None = None


@dataclass
class Wire:
    """Listens on a free port and forwards to ``address``. About ``cuts`` connections a second are cut.

    Half of them hear nothing for a moment first: what the server answered meanwhile, a commit perhaps, is lost.
    """

    address: tuple[str, int]
    seed: int
    cuts: float = 1.0
    _lines: dict[socket.socket, _Line] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin to listen."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def run(self) -> None:
        """Forward until the process is killed."""
        random = Random(self.seed)
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._listener, selectors.EVENT_READ)
        next_cut = time.monotonic() + random.expovariate(self.cuts)
        while True:
            for key, _ in self._waiting.select(0.02):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._lines:
                    assert isinstance(key.fileobj, socket.socket)
                    self._forward(key.fileobj)
            self._cut_mute()
            if time.monotonic() >= next_cut:
                next_cut += random.expovariate(self.cuts)
                self._strike(random)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            line = _Line(client, socket.create_connection(self.address))
        except OSError:
            client.close()
            return
        for end in (line.client, line.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines[end] = line
            self._waiting.register(end, selectors.EVENT_READ)

    def _forward(self, source: socket.socket) -> None:
        line = self._lines[source]
        try:
            data = source.recv(_CHUNK)
            if not data:
                self._cut(line)
            elif source is line.client:
                line.server.sendall(data)
            elif line.mute_since is None:
                line.client.sendall(data)
        except OSError:
            self._cut(line)

    def _strike(self, random: Random) -> None:
        lines = list({id(line): line for line in self._lines.values()}.values())
        if not lines:
            return
        line = random.choice(lines)
        if random.random() < 0.5:
            self._cut(line)
        else:
            line.mute_since = time.monotonic()

    def _cut_mute(self) -> None:
        late = time.monotonic() - 0.2
        for line in [one for one in self._lines.values() if one.mute_since is not None]:
            if line.mute_since is not None and line.mute_since < late and line.client in self._lines:
                self._cut(line)

    def _cut(self, line: _Line) -> None:
        for end in (line.client, line.server):
            self._lines.pop(end, None)
            self._waiting.unregister(end)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()


def address_of(url: str) -> tuple[str, int] | None:
    """Return host and port of a server's URL; None for an embedded store."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port) if parts.hostname and parts.port else None


def through(url: str, port: int) -> str:
    """Return the URL with the wire's port on this machine in place of the server's."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{port}"))
