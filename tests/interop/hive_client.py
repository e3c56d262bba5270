"""Statements to HiveServer2, over our own Thrift layer.

The few calls of its interface that are needed, in its oldest form, which sends rows as rows.
"""

from __future__ import annotations

import json
import time
from types import MappingProxyType
from typing import Any

from hiveacid.stores.hms.address import MetastoreAddress
from hiveacid.stores.hms.thrift.connection import ThriftConnection
from hiveacid.stores.hms.thrift.structs import (
    BOOL,
    BYTE,
    BYTES,
    I16,
    I32,
    I64,
    TEXT,
    Kind,
    Method,
    list_of,
    map_of,
    struct,
    struct_of,
)

_DOUBLE = Kind(4)
_Status = struct(
    "TStatus",
    (1, "statusCode", I32),
    (2, "infoMessages", list_of(TEXT)),
    (3, "sqlState", TEXT),
    (5, "errorMessage", TEXT),
)
_Identifier = struct("THandleIdentifier", (1, "guid", BYTES), (2, "secret", BYTES))
_Session = struct("TSessionHandle", (1, "sessionId", struct_of(_Identifier)))
_OpenReq = struct(
    "TOpenSessionReq",
    (1, "client_protocol", I32),
    (2, "username", TEXT),
    (4, "configuration", map_of(TEXT, TEXT)),
)
_OpenResp = struct(
    "TOpenSessionResp", (1, "status", struct_of(_Status)), (3, "sessionHandle", struct_of(_Session))
)
_CloseReq = struct("TCloseSessionReq", (1, "sessionHandle", struct_of(_Session)))
_OnlyStatus = struct("TResp", (1, "status", struct_of(_Status)))
_ExecuteReq = struct(
    "TExecuteStatementReq",
    (1, "sessionHandle", struct_of(_Session)),
    (2, "statement", TEXT),
    (4, "runAsync", BOOL),
)
_Operation = struct(
    "TOperationHandle",
    (1, "operationId", struct_of(_Identifier)),
    (2, "operationType", I32),
    (3, "hasResultSet", BOOL),
)
_ExecuteResp = struct(
    "TExecuteStatementResp",
    (1, "status", struct_of(_Status)),
    (2, "operationHandle", struct_of(_Operation)),
)
_StateReq = struct("TGetOperationStatusReq", (1, "operationHandle", struct_of(_Operation)))
_StateResp = struct(
    "TGetOperationStatusResp",
    (1, "status", struct_of(_Status)),
    (2, "operationState", I32),
    (5, "errorMessage", TEXT),
)
_FetchReq = struct(
    "TFetchResultsReq",
    (1, "operationHandle", struct_of(_Operation)),
    (2, "orientation", I32),
    (3, "maxRows", I64),
)
_KINDS = (BOOL, BYTE, I16, I32, I64, _DOUBLE, TEXT)
_Value = struct(
    "TColumnValue",
    *(
        (place, f"v{place}", struct_of(struct("TValue", (1, "value", kind))))
        for place, kind in enumerate(_KINDS, 1)
    ),
)
_Row = struct("TRow", (1, "colVals", list_of(struct_of(_Value))))
_RowSet = struct("TRowSet", (1, "startRowOffset", I64), (2, "rows", list_of(struct_of(_Row))))
_FetchResp = struct(
    "TFetchResultsResp",
    (1, "status", struct_of(_Status)),
    (2, "hasMoreRows", BOOL),
    (3, "results", struct_of(_RowSet)),
)
_FINISHED, _LAST_WAITING = 2, 1


def _method(request: Any, answer: Any) -> Method:
    return Method(
        struct("Arguments", (1, "req", struct_of(request))),
        struct("Answer", (0, "success", struct_of(answer))),
        MappingProxyType({}),
        retryable=False,
    )


_METHODS = MappingProxyType(
    {
        "OpenSession": _method(_OpenReq, _OpenResp),
        "CloseSession": _method(_CloseReq, _OnlyStatus),
        "ExecuteStatement": _method(_ExecuteReq, _ExecuteResp),
        "GetOperationStatus": _method(_StateReq, _StateResp),
        "FetchResults": _method(_FetchReq, _FetchResp),
        "CloseOperation": _method(_StateReq, _OnlyStatus),
    }
)


class HiveError(Exception):
    """What Hive said."""


class Hive:
    """One session. Numbers come as numbers; decimals, dates and nested values as Hive's texts."""

    def __init__(self, port: int) -> None:
        server = ("127.0.0.1", port)
        self._wire = ThriftConnection(server, MetastoreAddress((server,), timeout=300), _METHODS)
        answer = self._wire.call("OpenSession", _OpenReq(client_protocol=0, username="interop"))
        _check(answer.status)
        self._session = answer.sessionHandle

    def close(self) -> None:
        self._wire.call("CloseSession", _CloseReq(sessionHandle=self._session))
        self._wire.close()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, none if it has no result. Raises HiveError."""
        request = _ExecuteReq(sessionHandle=self._session, statement=statement, runAsync=True)
        answer = self._wire.call("ExecuteStatement", request)
        _check(answer.status)
        handle = answer.operationHandle
        try:
            self._wait(handle, statement)
            return self._rows(handle) if handle.hasResultSet else []
        finally:
            self._wire.call("CloseOperation", _StateReq(operationHandle=handle))

    def _wait(self, handle: Any, statement: str) -> None:
        while True:
            state = self._wire.call("GetOperationStatus", _StateReq(operationHandle=handle))
            _check(state.status)
            if state.operationState == _FINISHED:
                return
            if state.operationState > _LAST_WAITING and state.operationState != 7:  # 7: pending
                raise HiveError(f"{statement}: {state.errorMessage}")
            time.sleep(0.03)

    def _rows(self, handle: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        while True:
            answer = self._wire.call(
                "FetchResults", _FetchReq(operationHandle=handle, orientation=0, maxRows=10_000)
            )
            _check(answer.status)
            if not answer.results.rows:
                return rows
            rows += [tuple(_value(one) for one in row.colVals) for row in answer.results.rows]


def _value(one: Any) -> Any:
    held = next(
        (v for place in range(1, len(_KINDS) + 1) if (v := getattr(one, f"v{place}")) is not None), None
    )
    return None if held is None else held.value


def row_id(text: str) -> tuple[int, ...]:
    """Return Hive's ``row__id``, which comes as JSON."""
    return tuple(json.loads(text).values())


def _check(status: Any) -> None:
    if status.statusCode not in (0, 1):
        raise HiveError(status.errorMessage or str(status.infoMessages))
