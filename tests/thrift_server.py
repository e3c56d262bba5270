"""A server of the Thrift library's own protocol, whose answers are a test's business."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from hiveacid.stores.hms.layout import Struct
from hiveacid.stores.hms.protocol import METHODS

HANG_UP = object()
Answer = Callable[[str, Struct], Any]


class Server:
    """Speaks the real protocol on a real socket; what it answers is the test's business."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[str] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def hang_up(self) -> None:
        """End all connections, as a server does that is started anew."""
        for one in self._open:
            one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                handle, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(handle)
            threading.Thread(target=self._serve, args=(handle,), daemon=True).start()

    def _serve(self, handle: socket.socket) -> None:
        plain = TSocket()
        plain.setHandle(handle)
        wire = TBinaryProtocol(TBufferedTransport(plain))
        try:
            while True:
                self._one(wire)
        except (TTransportException, OSError, EOFError):
            handle.close()

    def _one(self, wire: TBinaryProtocol) -> None:
        name, _, number = wire.readMessageBegin()
        known = METHODS[name]
        arguments = known.arguments()
        arguments.read(wire)
        wire.readMessageEnd()
        self.calls.append(name)
        said = self.answer(name, arguments)
        if said is HANG_UP:
            raise EOFError
        failed = isinstance(said, TApplicationException)
        wire.writeMessageBegin(name, TMessageType.EXCEPTION if failed else TMessageType.REPLY, number)
        (said if failed else known.answer(**said)).write(wire)
        wire.writeMessageEnd()
        wire.trans.flush()
