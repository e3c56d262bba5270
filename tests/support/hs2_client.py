"""A client of HiveServer2's protocol without manners: tests send what drivers would not."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import struct
from typing import Any, Self

from hiveacid.serve import hs2_messages
from hiveacid.serve.hs2_messages import CALL, EXCEPTION, Decoder, encode_message, encode_struct
from hiveacid.stores.hms.thrift_structs import ThriftStruct, parse_interface

PATIENCE = 120.0  # seconds, on a machine that is busy
_KINDS = ("bool", "byte", "i16", "i32", "i64", "double", "string", "binary")
_COLUMNS = "".join(
    f"struct C{number} {{ 1: list<{kind}> values, 2: binary nulls }}\n"
    for number, kind in enumerate(_KINDS, 1)
)
_MEMBERS = ", ".join(f"{number}: C{number} c{number}" for number in range(1, len(_KINDS) + 1))
_FETCHED = (
    parse_interface(f"""
{_COLUMNS}
struct TColumn {{ {_MEMBERS} }}
struct TRowSet {{ 1: i64 startRowOffset, 3: list<TColumn> columns }}
struct TStatus {{ 1: i32 statusCode, 3: string sqlState, 4: i32 errorCode, 5: string errorMessage }}
struct TFetchResultsResp {{ 1: TStatus status, 2: bool hasMoreRows, 3: TRowSet results }}
TFetchResultsResp FetchResults()
""")
    .calls["FetchResults"]
    .answer
)


class CallError(Exception):
    """An answer whose status is not a success, or a refusal of the negotiation."""

    def __init__(self, status: Any) -> None:
        """Keep the status."""
        self.status = status
        super().__init__(str(status))


class Hs2Client:
    """A connection, after SASL's negotiation, with a session if ``opened``."""

    def __init__(
        self,
        port: int,
        user: str = "ann",
        word: str = "x",
        *,
        opened: bool = True,
        tls: ssl.SSLContext | None = None,
        **configuration: str,
    ) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.session: Any = None
        self.negotiate(b"PLAIN", f"\0{user}\0{word}".encode())
        if opened:
            names = {
                name.replace("__", ":").replace("_", "."): value for name, value in configuration.items()
            }
            answer = self.call("OpenSession", client_protocol=9, username=user, configuration=names)
            self.session = answer.sessionHandle

    def negotiate(self, mechanism: bytes, response: bytes) -> None:
        """Negotiate SASL. Raises CallError with the server's text."""
        self.message(1, mechanism)
        self.message(5, response)
        self.reply(5)

    def message(self, status: int, payload: bytes) -> None:
        """Send a message of the negotiation."""
        self.socket.sendall(struct.pack(">BI", status, len(payload)) + payload)

    def reply(self, wanted: int) -> bytes:
        """Return the server's message of the negotiation. Raises CallError with its text if it refuses."""
        status, size = struct.unpack(">BI", self.exactly(5))
        payload = self.exactly(size)
        if status != wanted:
            raise CallError(payload.decode())
        return payload

    def call(self, method: str, **fields: Any) -> Any:
        """Call a method with the session's handle; return the answer. Raises CallError."""
        declared = hs2_messages.CALLS[method]
        if self.session is not None and "sessionHandle" in vars(declared.request):
            fields.setdefault("sessionHandle", self.session)
        body = encode_struct(declared.arguments(req=declared.request(**fields)))
        self.send(encode_message(method, CALL, 1, body))
        message = Decoder(self.frame()).message()
        if message.kind == EXCEPTION:
            raise CallError(method)
        result: type[ThriftStruct] = _FETCHED if method == "FetchResults" else declared.answer
        answer = message.body.struct(result).success
        if getattr(answer, "status", None) is not None and answer.status.statusCode != hs2_messages.SUCCESS:
            raise CallError(answer.status)
        return answer

    def start(self, text: str) -> Any:
        """Start a statement; return its handle."""
        return self.call("ExecuteStatement", statement=text, runAsync=True).operationHandle

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        handle = self.call("ExecuteStatement", statement=text).operationHandle
        rows = self.rows(handle) if handle.hasResultSet else []
        self.call("CloseOperation", operationHandle=handle)
        return rows

    def state(self, handle: Any) -> Any:
        """Return the status of an operation."""
        return self.call("GetOperationStatus", operationHandle=handle)

    def wait(self, handle: Any) -> Any:
        """Return the status of an operation when it has ended."""
        while (status := self.state(handle)).operationState in (0, 1, 7):
            pass
        return status

    def rows(self, handle: Any, most: int = 1000) -> list[tuple[Any, ...]]:
        """Fetch all rows."""
        found: list[tuple[Any, ...]] = []
        while True:
            answer = self.call("FetchResults", operationHandle=handle, orientation=0, maxRows=most)
            found += _rows(answer.results.columns)
            if not answer.hasMoreRows:
                return found

    def metadata(self, method: str, **fields: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a metadata call."""
        return self.rows(self.call(method, **fields).operationHandle)

    def send(self, data: bytes) -> None:
        """Send a frame."""
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def frame(self) -> bytes:
        """Read a frame."""
        return self.exactly(struct.unpack(">I", self.exactly(4))[0])

    def exactly(self, size: int) -> bytes:
        """Read ``size`` bytes. Raises EOFError."""
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def close(self) -> None:
        """Hang up, without closing the session."""
        self.socket.close()

    def __enter__(self) -> Self:
        """Use it in a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()


def raw_client(port: int) -> Hs2Client:
    """Connect without a negotiation."""
    client = Hs2Client.__new__(Hs2Client)
    client.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return client


class HttpClient(Hs2Client):
    """A client over HTTP; every call is a request of its own connection."""

    def __init__(self, port: int, user: str = "ann") -> None:
        """Open a session."""
        token = base64.b64encode(f"{user}:x".encode()).decode()
        self._headers = {"Authorization": f"Basic {token}", "Content-Type": "application/x-thrift"}
        self._port = port
        self.session = None
        self.session = self.call("OpenSession", client_protocol=9).sessionHandle

    def send(self, data: bytes) -> None:
        """Send a request."""
        self.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self.connection.request("POST", "/cliservice", data, self._headers)

    def frame(self) -> bytes:
        """Read the answer."""
        try:
            return self.connection.getresponse().read()
        finally:
            self.connection.close()

    def close(self) -> None:
        """Do nothing: there is no connection between two calls."""


def _rows(columns: list[Any]) -> list[tuple[Any, ...]]:
    values = []
    for column in columns:
        held = next(
            getattr(column, name) for name in vars(type(column)) if name[0] == "c" and getattr(column, name)
        )
        nulls = held.nulls
        values.append(
            [
                None if at >> 3 < len(nulls) and nulls[at >> 3] >> (at & 7) & 1 else value
                for at, value in enumerate(held.values)
            ]
        )
    return list(zip(*values, strict=True))
