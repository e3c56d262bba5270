"""A TCP proxy before a metastore that cuts all connections at one call: before it goes out, or before its answer."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from support.servers.databases import free_port

_STRICT = b"\x80\x01\x00\x01"  # how a call of Thrift's binary protocol begins; the method's name follows


@dataclass(frozen=True)
class Cut:
    """Where to cut: at a call, before it or ``after`` the server has carried it out.

    ``call`` is its number (from 1) or its method, of which the first call is meant: a heartbeat in between changes the
    numbers. ``blink``: the server can be reached again at once; else not before :meth:`CuttingProxy.mend`. ``also`` is called
    while nobody is connected: it may kill the server itself.
    """

    call: int | str
    after: bool
    blink: bool = True
    also: Callable[[], None] | None = None


class CuttingProxy:
    """Listens on a free port of 127.0.0.1.

    ``calls`` are the methods called since :meth:`arm`, ``struck`` the one that was cut. ``unanswered`` are those that the
    server was carrying out at that moment, of all connections: a client's threads call beside each other.
    """

    def __init__(self, target: int) -> None:
        self.calls: list[str] = []
        self.struck: str | None = None
        self.unanswered: tuple[str, ...] = ()
        self.cuts = 0
        self._target = target
        self._cut: Cut | None = None
        self._lock = threading.RLock()
        self._open: set[socket.socket] = set()
        self._under_way: dict[socket.socket, str] = {}
        self._listener = self._listening(free_port())
        self.port: int = self._listener.getsockname()[1]
        self._serve()

    def arm(self, cut: Cut | None) -> None:
        """Count calls from here, and cut once."""
        with self._lock:
            self.calls, self.struck, self.unanswered, self._cut = [], None, (), cut

    def mend(self) -> None:
        """Let clients come again."""
        with self._lock:
            self._cut = None
            if self._listener.fileno() < 0:
                self._listener = self._listening(self.port)
                self._serve()

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _listening(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(50)
        return made

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if listener.fileno() < 0:
                    return
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        mine: Cut | None = None  # the cut that the answer under way falls to
        try:
            while True:
                ready = select.select([client, server], [], [])[0]
                source = client if client in ready else server
                data = source.recv(1 << 16)
                if not data:
                    break
                if source is client and data.startswith(_STRICT):
                    mine = self._called(client, data)
                    if mine is not None and not mine.after:
                        self._trip(mine)
                        return
                if source is server and mine is not None:
                    self._trip(mine)
                    return
                (server if source is client else client).sendall(data)
                if source is server:
                    with self._lock:
                        self._under_way.pop(client, None)
        except (OSError, ValueError):
            pass  # cut by another call
        finally:
            for one in (client, server):
                _hang_up(one)
                with self._lock:
                    self._open.discard(one)
                    self._under_way.pop(one, None)

    def _called(self, client: socket.socket, data: bytes) -> Cut | None:
        length = int.from_bytes(data[4:8], "big")
        with self._lock:
            method = data[8 : 8 + length].decode()
            self.calls.append(method)
            due = self._cut is not None and self._cut.call in (len(self.calls), method)
            if due:
                self.struck = method
            cut = self._cut if due else None
            if cut is None or cut.after:
                self._under_way[client] = method
            return cut

    def _trip(self, cut: Cut) -> None:
        with self._lock:
            self._cut = None
            self.cuts += 1
            self.unanswered = tuple(self._under_way.values())
            self._stop()
            if cut.also is not None:
                cut.also()
            if cut.blink:
                self.mend()

    def _stop(self) -> None:
        _hang_up(self._listener)
        for one in self._open:
            _hang_up(one)


def _hang_up(one: socket.socket) -> None:
    with suppress(OSError):  # it may not be connected
        one.shutdown(socket.SHUT_RDWR)
    one.close()
