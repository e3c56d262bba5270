"""Messages of HiveServer2's interface (``TCLIService.thrift``): declared structs and calls, and a codec with bounds for them.

Declared are the fields that this server reads or sets; requests and answers of the same fields share one struct. Delegation
tokens and data transfer are unknown calls. Whole messages in memory are decoded: the decoder checks an announced length
against the bytes of the message before it reads, and refuses deep nesting. It uses the declarations of
`stores.hms.thrift_structs`, but not the Thrift library, whose limits are for clients of trusted servers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hiveacid.errors import ClientProtocolError
from hiveacid.stores.hms.thrift_structs import Method, ThriftStruct, parse_interface

SUCCESS, ERROR, INVALID_HANDLE = 0, 3, 4  # TStatusCode
INITIALIZED, RUNNING, FINISHED, CANCELED, CLOSED, FAILED = 0, 1, 2, 3, 4, 5  # TOperationState
PENDING = 7
PROTOCOL_V6, PROTOCOL_V10 = 5, 9
FETCH_NEXT, FETCH_FIRST = 0, 4
EXECUTE_STATEMENT = 0  # TOperationType

_INTERFACE = parse_interface("""
struct TStatus {
    1: i32 statusCode, 2: list<string> infoMessages, 3: string sqlState, 4: i32 errorCode,
    5: string errorMessage
}
struct THandleIdentifier { 1: binary guid, 2: binary secret }
struct TSessionHandle { 1: THandleIdentifier sessionId }
struct TOperationHandle {
    1: THandleIdentifier operationId, 2: i32 operationType, 3: bool hasResultSet,
    4: double modifiedRowCount
}
struct TOpenSessionReq {
    1: i32 client_protocol, 2: string username, 3: string password, 4: map<string,string> configuration
}
struct TOpenSessionResp {
    1: TStatus status, 2: i32 serverProtocolVersion, 3: TSessionHandle sessionHandle,
    4: map<string,string> configuration
}
struct TSessionReq { 1: TSessionHandle sessionHandle }
struct TStatusResp { 1: TStatus status }
struct TGetInfoReq { 1: TSessionHandle sessionHandle, 2: i32 infoType }
struct TGetInfoValue { 1: string stringValue, 2: i16 smallIntValue, 6: i64 lenValue }
struct TGetInfoResp { 1: TStatus status, 2: TGetInfoValue infoValue }
struct TExecuteStatementReq {
    1: TSessionHandle sessionHandle, 2: string statement, 3: map<string,string> confOverlay,
    4: bool runAsync, 5: i64 queryTimeout
}
struct TOperationResp { 1: TStatus status, 2: TOperationHandle operationHandle }
struct TMetadataReq {
    1: TSessionHandle sessionHandle, 2: string catalogName, 3: string schemaName, 4: string tableName,  # or of a function
    5: string columnName
}
struct TGetTablesReq {
    1: TSessionHandle sessionHandle, 2: string catalogName, 3: string schemaName, 4: string tableName,
    5: list<string> tableTypes
}
struct TOperationReq { 1: TOperationHandle operationHandle }
struct TGetOperationStatusResp {
    1: TStatus status, 2: i32 operationState, 3: string sqlState, 4: i32 errorCode,
    5: string errorMessage, 6: string taskStatus, 7: i64 operationStarted, 8: i64 operationCompleted,
    9: bool hasResultSet, 11: i64 numModifiedRows
}
struct TTypeQualifierValue { 1: i32 i32Value, 2: string stringValue }
struct TTypeQualifiers { 1: map<string,TTypeQualifierValue> qualifiers }
struct TPrimitiveTypeEntry { 1: i32 type, 2: TTypeQualifiers typeQualifiers }
struct TTypeEntry { 1: TPrimitiveTypeEntry primitiveEntry }
struct TTypeDesc { 1: list<TTypeEntry> types }
struct TColumnDesc { 1: string columnName, 2: TTypeDesc typeDesc, 3: i32 position, 4: string comment }
struct TTableSchema { 1: list<TColumnDesc> columns }
struct TGetResultSetMetadataResp { 1: TStatus status, 2: TTableSchema schema }
struct TFetchResultsReq {
    1: TOperationHandle operationHandle, 2: i32 orientation, 3: i64 maxRows, 4: i16 fetchType
}
struct TRow { 1: list<string> colVals }
struct TColumn {}
struct TRowSet { 1: i64 startRowOffset, 2: list<TRow> rows, 3: list<TColumn> columns }
struct TFetchResultsResp { 1: TStatus status, 2: bool hasMoreRows, 3: TRowSet results }
struct TGetQueryIdResp { 1: string queryId }

TOpenSessionResp OpenSession(1: TOpenSessionReq req)
TStatusResp CloseSession(1: TSessionReq req)
TGetInfoResp GetInfo(1: TGetInfoReq req)
TStatusResp SetClientInfo(1: TSessionReq req)
TOperationResp ExecuteStatement(1: TExecuteStatementReq req)
TOperationResp GetTypeInfo(1: TMetadataReq req)
TOperationResp GetCatalogs(1: TMetadataReq req)
TOperationResp GetSchemas(1: TMetadataReq req)
TOperationResp GetTables(1: TGetTablesReq req)
TOperationResp GetTableTypes(1: TMetadataReq req)
TOperationResp GetColumns(1: TMetadataReq req)
TOperationResp GetFunctions(1: TMetadataReq req)
TOperationResp GetPrimaryKeys(1: TMetadataReq req)
TOperationResp GetCrossReference(1: TMetadataReq req)
TGetOperationStatusResp GetOperationStatus(1: TOperationReq req)
TStatusResp CancelOperation(1: TOperationReq req)
TStatusResp CloseOperation(1: TOperationReq req)
TGetResultSetMetadataResp GetResultSetMetadata(1: TOperationReq req)
TFetchResultsResp FetchResults(1: TFetchResultsReq req)
TGetQueryIdResp GetQueryId(1: TOperationReq req)
""")


CALLS = _INTERFACE.calls


def __getattr__(name: str) -> type[ThriftStruct]:
    """Return a struct by its name."""
    try:
        declared: type[ThriftStruct] = _INTERFACE.structs[name]
    except KeyError:
        raise AttributeError(name) from None
    return declared


class HandleIdentifier(Protocol):
    """Name and secret of a session or operation."""

    guid: bytes | None
    secret: bytes | None


class Handle(Protocol):
    """Handle of a session or of an operation."""

    sessionId: HandleIdentifier | None
    operationId: HandleIdentifier | None


class Request(Protocol):
    """Fields of all requests; None where the client left one out. Each request has those of its struct."""

    sessionHandle: Handle | None
    operationHandle: Handle | None
    client_protocol: int | None
    configuration: Mapping[str, str] | None
    infoType: int | None
    statement: str | None
    confOverlay: Mapping[str, str] | None
    queryTimeout: int | None
    runAsync: bool | None
    schemaName: str | None
    tableName: str | None
    tableTypes: Sequence[str] | None
    columnName: str | None
    fetchType: int | None
    orientation: int | None
    maxRows: int | None


CALL, REPLY, EXCEPTION = 1, 2, 3
_VERSION, _VERSION_MASK = 0x80010000, 0xFFFF0000
_MAX_DEPTH = 16  # the deepest argument of the interface has 4 levels
_LONGEST_NAME = 128
_BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64 = 2, 3, 4, 6, 8, 10
_BINARY, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
_FIXED = {
    code: struct.Struct(f">{form}")
    for code, form in zip((_BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64), "?bdhiq", strict=True)
}
_LENGTH = struct.Struct(">i")
_FIELD = struct.Struct(">bh")
_ITEMS = struct.Struct(">bi")
_PAIRS = struct.Struct(">bbi")
_APPLICATION_ERROR = parse_interface(
    "struct TApplicationException { 1: string message, 2: i32 type }"
).structs["TApplicationException"]


@dataclass(frozen=True)
class Message:
    """A call: method, sequence number, and a decoder placed before its arguments."""

    method: str
    kind: int
    number: int
    body: Decoder


class Decoder:
    """Reads values from one message. Raises ClientProtocolError for anything that is not a message of the protocol."""

    def __init__(self, data: bytes, most_values: int | None = None) -> None:
        """Begin at the first byte. ``most_values``: fields and items of a message from a client; None: no bound."""
        self._data = data
        self._offset = 0
        self._values_left = len(data) if most_values is None else most_values

    def message(self) -> Message:
        """Read the head of a message."""
        (head,) = struct.unpack(">I", self._take(4))
        if head & _VERSION_MASK != _VERSION:
            raise ClientProtocolError("the data is not a message of Thrift's binary protocol")
        name = self._text(_LONGEST_NAME)
        (number,) = _LENGTH.unpack(self._take(4))
        return Message(name, head & 0xFF, number, self)

    def arguments(self, call: Method) -> Request:
        """Read the only argument of a call, a struct; an argument that is absent counts as empty."""
        arguments = self.struct(call.arguments)
        if self._offset != len(self._data):
            raise ClientProtocolError("bytes follow the message")
        request: Request = arguments.req or call.request()
        return request

    def struct(self, declared: type[ThriftStruct], depth: int = 0) -> Any:
        """Read a struct; undeclared fields, and fields of another type, are skipped."""
        _require_shallow(depth)
        value = declared()
        spec = declared.thrift_spec
        for code, number in self._fields():
            field = spec[number] if 0 <= number < len(spec) else None
            if field is None or field[1] != code:
                self._skip(code, depth + 1)
            else:
                setattr(value, field[2], self._value(code, field[3], depth + 1))
        return value

    def _fields(self) -> Iterator[tuple[int, int]]:
        while code := self._take(1)[0]:
            (number,) = struct.unpack(">h", self._take(2))
            self._count(1)
            yield code, number

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise ClientProtocolError("the message has too many values")

    def _value(self, code: int, arguments: Any, depth: int) -> object:
        if code in _FIXED:
            return _FIXED[code].unpack(self._take(_FIXED[code].size))[0]
        if code == _BINARY:
            return self._text() if arguments == "UTF8" else self._take(self._length())
        if code == _STRUCT:
            return self.struct(arguments[0], depth)
        _require_shallow(depth)
        if code == _MAP:
            key, value, count = self._head_of_map()
            if count and (key, value) != (arguments[0], arguments[2]):
                raise ClientProtocolError("a map has other types than its field")
            self._count(count)
            return {
                self._value(key, arguments[1], depth + 1): self._value(value, arguments[3], depth + 1)
                for _ in range(count)
            }
        item, count = self._head_of_items()
        if count and item != arguments[0]:
            raise ClientProtocolError("a list has other items than its field")
        self._count(count)
        return [self._value(item, arguments[1], depth + 1) for _ in range(count)]

    def _skip(self, code: int, depth: int) -> None:
        _require_shallow(depth)
        if code in _FIXED:
            self._take(_FIXED[code].size)
        elif code == _BINARY:
            self._take(self._length())
        elif code == _STRUCT:
            for inner, _ in self._fields():
                self._skip(inner, depth + 1)
        elif code == _MAP:
            key, value, count = self._head_of_map()
            self._count(count)
            for _ in range(count):
                self._skip(key, depth + 1)
                self._skip(value, depth + 1)
        elif code in (_LIST, _SET):
            item, count = self._head_of_items()
            if item in _FIXED:
                self._take(_FIXED[item].size * count)
                return
            self._count(count)
            for _ in range(count):
                self._skip(item, depth + 1)
        else:
            raise ClientProtocolError(f"unknown type {code}")

    def _head_of_items(self) -> tuple[int, int]:
        item, count = _ITEMS.unpack(self._take(_ITEMS.size))
        return item, self._bounded(count)

    def _head_of_map(self) -> tuple[int, int, int]:
        key, value, count = _PAIRS.unpack(self._take(_PAIRS.size))
        return key, value, self._bounded(count)

    def _text(self, longest: int | None = None) -> str:
        length = self._length()
        if longest is not None and length > longest:
            raise ClientProtocolError("the name of a method is too long")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise ClientProtocolError("a text is not UTF-8") from error

    def _length(self) -> int:
        return self._bounded(_LENGTH.unpack(self._take(_LENGTH.size))[0])

    def _bounded(self, count: int) -> int:
        """Return a length or number of items, each of which takes a byte at least."""
        if not 0 <= count <= len(self._data) - self._offset:
            raise ClientProtocolError(f"a length of {count} is beyond the end of the message")
        return int(count)

    def _take(self, size: int) -> bytes:
        end = self._offset + size
        if end > len(self._data):
            raise ClientProtocolError("the message ends too early")
        data, self._offset = self._data[self._offset : end], end
        return data


def _require_shallow(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ClientProtocolError(f"more than {_MAX_DEPTH} levels of nesting")


def encode_message(method: str, kind: int, number: int, body: bytes) -> bytes:
    """Return a message; ``body``: its encoded struct."""
    name = method.encode()
    return struct.pack(f">Ii{len(name)}si", _VERSION | kind, len(name), name, number) + body


def encode_struct(value: ThriftStruct) -> bytes:
    """Return an encoded struct; absent fields are left out. A field may hold the bytes of a struct instead of one."""
    out = bytearray()
    _write(out, _STRUCT, None, value)
    return bytes(out)


def _write(out: bytearray, code: int, arguments: Any, value: Any) -> None:
    if code in _FIXED:
        out += _FIXED[code].pack(value)
    elif code == _BINARY:
        data = value.encode() if isinstance(value, str) else value
        out += _LENGTH.pack(len(data)) + data
    elif code == _STRUCT and isinstance(value, bytes):
        out += value
    elif code == _STRUCT:
        for field in filter(None, value.thrift_spec):
            member = getattr(value, field[2])
            if member is not None:
                out += _FIELD.pack(field[1], field[0])
                _write(out, field[1], field[3], member)
        out += b"\0"
    elif code == _MAP:
        out += _PAIRS.pack(arguments[0], arguments[2], len(value))
        for key, item in value.items():
            _write(out, arguments[0], arguments[1], key)
            _write(out, arguments[2], arguments[3], item)
    else:
        out += _ITEMS.pack(arguments[0], len(value))
        for item in value:
            _write(out, arguments[0], arguments[1], item)


def encode_exception(message: str, kind: int) -> bytes:
    """Return Thrift's ``TApplicationException``; ``kind``: 1 unknown method, 6 internal error, 7 protocol error."""
    return encode_struct(_APPLICATION_ERROR(message=message, type=kind))
