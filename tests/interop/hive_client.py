"""Statements to HiveServer2, over our own Thrift layer.

The few calls of its interface that are needed, in its oldest form, which sends rows as rows.
"""

from __future__ import annotations

import json
import time
from typing import Any

from hiveacid.stores.hms.client import ThriftConnection
from hiveacid.stores.hms.metastores import MetastoreAddress
from hiveacid.stores.hms.thrift_structs import parse_interface

_INTERFACE = parse_interface("""
struct TStatus { 1: i32 statusCode, 2: list<string> infoMessages, 3: string sqlState, 5: string errorMessage }
struct THandleIdentifier { 1: binary guid, 2: binary secret }
struct TSessionHandle { 1: THandleIdentifier sessionId }
struct TOpenSessionReq { 1: i32 client_protocol, 2: string username, 4: map<string,string> configuration }
struct TOpenSessionResp { 1: TStatus status, 3: TSessionHandle sessionHandle }
struct TCloseSessionReq { 1: TSessionHandle sessionHandle }
struct TResp { 1: TStatus status }
struct TExecuteStatementReq { 1: TSessionHandle sessionHandle, 2: string statement, 4: bool runAsync }
struct TOperationHandle { 1: THandleIdentifier operationId, 2: i32 operationType, 3: bool hasResultSet }
struct TExecuteStatementResp { 1: TStatus status, 2: TOperationHandle operationHandle }
struct TGetOperationStatusReq { 1: TOperationHandle operationHandle }
struct TGetOperationStatusResp { 1: TStatus status, 2: i32 operationState, 5: string errorMessage }
struct TFetchResultsReq { 1: TOperationHandle operationHandle, 2: i32 orientation, 3: i64 maxRows }
struct TBoolValue { 1: bool value }
struct TByteValue { 1: byte value }
struct TI16Value { 1: i16 value }
struct TI32Value { 1: i32 value }
struct TI64Value { 1: i64 value }
struct TDoubleValue { 1: double value }
struct TStringValue { 1: string value }
struct TColumnValue {
    1: TBoolValue v1, 2: TByteValue v2, 3: TI16Value v3, 4: TI32Value v4, 5: TI64Value v5,
    6: TDoubleValue v6, 7: TStringValue v7
}
struct TRow { 1: list<TColumnValue> colVals }
struct TRowSet { 1: i64 startRowOffset, 2: list<TRow> rows }
struct TFetchResultsResp { 1: TStatus status, 2: bool hasMoreRows, 3: TRowSet results }
TOpenSessionResp OpenSession(1: TOpenSessionReq req)
TResp CloseSession(1: TCloseSessionReq req)
TExecuteStatementResp ExecuteStatement(1: TExecuteStatementReq req)
TGetOperationStatusResp GetOperationStatus(1: TGetOperationStatusReq req)
TFetchResultsResp FetchResults(1: TFetchResultsReq req)
TResp CloseOperation(1: TGetOperationStatusReq req)
""")
_STRUCTS = _INTERFACE.structs
_FINISHED, _LAST_WAITING = 2, 1


class HiveError(Exception):
    """What Hive said."""


class Hive:
    """One session. Numbers come as numbers; decimals, dates and nested values as Hive's texts."""

    def __init__(self, port: int) -> None:
        server = ("127.0.0.1", port)
        self._wire = ThriftConnection(server, MetastoreAddress((server,), timeout=300), _INTERFACE.calls)
        answer = self._wire.call(
            "OpenSession", _STRUCTS["TOpenSessionReq"](client_protocol=0, username="interop")
        )
        _check(answer.status)
        self._session = answer.sessionHandle

    def close(self) -> None:
        self._wire.call("CloseSession", _STRUCTS["TCloseSessionReq"](sessionHandle=self._session))
        self._wire.close()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, none if it has no result. Raises HiveError."""
        request = _STRUCTS["TExecuteStatementReq"](
            sessionHandle=self._session, statement=statement, runAsync=True
        )
        answer = self._wire.call("ExecuteStatement", request)
        _check(answer.status)
        handle = answer.operationHandle
        try:
            self._wait(handle, statement)
            return self._rows(handle) if handle.hasResultSet else []
        finally:
            self._wire.call("CloseOperation", _STRUCTS["TGetOperationStatusReq"](operationHandle=handle))

    def _wait(self, handle: Any, statement: str) -> None:
        while True:
            state = self._wire.call(
                "GetOperationStatus", _STRUCTS["TGetOperationStatusReq"](operationHandle=handle)
            )
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
                "FetchResults",
                _STRUCTS["TFetchResultsReq"](operationHandle=handle, orientation=0, maxRows=10_000),
            )
            _check(answer.status)
            if not answer.results.rows:
                return rows
            rows += [tuple(_value(one) for one in row.colVals) for row in answer.results.rows]


def _value(one: Any) -> Any:
    held = next((v for place in range(1, 8) if (v := getattr(one, f"v{place}")) is not None), None)
    return None if held is None else held.value


def row_id(text: str) -> tuple[int, ...]:
    """Return Hive's ``row__id``, which comes as JSON."""
    return tuple(json.loads(text).values())


def _check(status: Any) -> None:
    if status.statusCode not in (0, 1):
        raise HiveError(status.errorMessage or str(status.infoMessages))
