"""A server of the Thrift library's own protocol, whose answers are a test's business."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.thrift_structs import ThriftStruct

HANG_UP = object()
Answer = Callable[[str, ThriftStruct], Any]


class Server:
    """Speaks the real protocol on a real socket; what it answers is the test's business.

    ``tls``: speaks TLS. ``terse``: says good-bye after each answer, as a server does to who was silent for long.
    ``sasl``: negotiates first, and believes everybody.
    """

    def __init__(
        self,
        answer: Answer,
        tls: ssl.SSLContext | None = None,
        *,
        terse: bool = False,
        sasl: bool = False,
    ) -> None:
        self.answer, self._tls, self._terse, self._sasl = answer, tls, terse, sasl
        self.goodbyes = threading.Semaphore(0)
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
            threading.Thread(target=self._serve, args=(handle,), daemon=True).start()

    def _serve(self, handle: socket.socket) -> None:
        try:
            handle = handle if self._tls is None else self._tls.wrap_socket(handle, server_side=True)
        except OSError:
            return
        self._open.append(handle)
        plain = TSocket()
        plain.setHandle(handle)
        wire = TBinaryProtocol(TFramedTransport(plain) if self._sasl else TBufferedTransport(plain))
        try:
            if self._sasl:
                _negotiate(plain)
            self._one(wire)
            while not self._terse:
                self._one(wire)
            _say_goodbye(handle)
        except (TTransportException, OSError, EOFError, ValueError):
            handle.close()
        except BaseException:  # of the test's answer: a client would wait for it
            handle.close()
            raise
        self.goodbyes.release()

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


def _negotiate(plain: TSocket) -> None:
    """Take any token for good, and offer signatures, which nobody looks at."""
    for answer in (None, b"\x02\x00\x00\x00\x04\x02\x00\x00\x00", b"\x05\x00\x00\x00\x00"):
        plain.readAll(int.from_bytes(plain.readAll(5)[1:], "big"))
        if answer is not None:
            plain.write(answer)


def _say_goodbye(handle: socket.socket) -> None:
    handle.settimeout(0)
    try:
        if isinstance(handle, ssl.SSLSocket):
            handle.unwrap()
    except ssl.SSLWantReadError:  # it is said, and not answered
        pass
    finally:
        handle.close()
