"""A wire between a client and a server that counts round trips, can be cut at any of them, and can fall silent."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from enum import StrEnum

_QUIET = 0.05  # seconds without another byte: the server has answered
_PIECE = 1 << 16


class Cut(StrEnum):
    """Where a round trip breaks: before the server hears of it, or after it did all and before its answer comes."""

    BEFORE = "before"
    AFTER = "after"


class Wire:
    """Listens on a free port and passes everything on to another port of this machine.

    ``turns``: how often a client spoke after the server had, which is a round trip.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self.turns = 0
        self.cuts = 0
        self._planned: tuple[int, Cut] | None = None
        self._open: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def start(self) -> None:
        """Count from nought again."""
        with self._lock:
            self.turns, self.cuts, self._planned = 0, 0, None

    def cut_at(self, turn: int, where: Cut) -> None:
        """Break the connection that makes this round trip (from 1, counted by :meth:`start`); later ones work."""
        with self._lock:
            self._planned = (turn, where)

    def freeze(self) -> None:
        """Take everything and pass nothing on, as a host that hangs; connections can still be opened."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Pass on what was held back, and everything later."""
        self._flowing.set()

    def refuse(self) -> None:
        """Take no new connections."""
        _shut(self._listener)

    def close(self) -> None:
        """Break everything and listen no more."""
        self.refuse()
        self.thaw()
        with self._lock:
            left, self._open = self._open, set()
        for one in left:
            _shut(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:  # the server is away: so are we
                _shut(client)
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        server_spoke = True
        try:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(_PIECE)
                    self._flowing.wait()
                    if not data:
                        return
                    if ready is server:
                        server_spoke = True
                        client.sendall(data)
                        continue
                    where = self._turn() if server_spoke else None
                    server_spoke = False
                    if where is Cut.BEFORE:
                        return
                    server.sendall(data)
                    if where is Cut.AFTER:
                        _wait_for_answer(client, server)
                        return
        except (OSError, ValueError):  # broken, or closed by us while we waited
            return
        finally:
            for one in (client, server):
                _shut(one)

    def _turn(self) -> Cut | None:
        with self._lock:
            self.turns += 1
            if self._planned is None or self._planned[0] != self.turns:
                return None
            where, self._planned = self._planned[1], None
            self.cuts += 1
            return where


def _wait_for_answer(client: socket.socket, server: socket.socket) -> None:
    """Pass on what the client still has to say, until the server has said all and the client got none of it."""
    patience = 5.0
    while True:
        ready = select.select([client, server], [], [], patience)[0]
        if not ready:
            return
        for one in ready:
            data = one.recv(_PIECE)
            if not data:
                return
            if one is client:
                server.sendall(data)
            else:
                patience = _QUIET


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
