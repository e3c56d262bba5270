"""The calls of HiveServer2's interface, from a client's bytes to the answer's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TypeVar

from hiveacid.errors import ClientProtocolError, ConfigError, UnsupportedFeatureError
from hiveacid.serve import hs2_messages
from hiveacid.serve.audit import audit
from hiveacid.serve.hs2_messages import (
    CALL,
    EXCEPTION,
    REPLY,
    Decoder,
    encode_exception,
    encode_message,
    encode_struct,
)
from hiveacid.serve.metadata import METADATA_CALLS, Metadata
from hiveacid.serve.operations import (
    INVALID_HANDLE,
    SUCCESS,
    WRITTEN_NAMES,
    ClientOperation,
    TimeLimits,
    error_status,
)
from hiveacid.serve.results import Result, ResultCursor, RowsResult, SparkResult, empty_log, table_schema
from hiveacid.serve.sessions import (
    MOST_OPERATIONS,
    Caller,
    ClientSession,
    InvalidHandleError,
    Sessions,
    require_present,
    wait_for,
)
from hiveacid.spark.parser.lexer import scan
from hiveacid.sql.cancellation import Running
from hiveacid.sql.execute.context import WRITTEN
from hiveacid.stores.hms.thrift_structs import ThriftStruct

T = TypeVar("T")
_LONG_POLL = 0.5  # seconds that GetOperationStatus waits for the end of a statement
# Statements without rows. A client asks whether a statement has rows before the statement has ended.
_VERBS_WITHOUT_RESULT = frozenset(
    {
        "CREATE",
        "DROP",
        "USE",
        "START",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "TRUNCATE",
        "LOAD",
        "MSCK",
        "REFRESH",
        "CACHE",
    }
    | {"UNCACHE", "ALTER"}
)
_READING_VERBS = frozenset(
    {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "EXPLAIN", "DESCRIBE", "DESC", "SHOW", "BEGIN"}
)
# Words of statements that change something, behind WITH, in a script or in a text that EXECUTE IMMEDIATE runs.
_CHANGE = re.compile(
    r"INSERT|EXECUTE|\b(?:UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|TRUNCATE|LOAD|CALL|REPLACE(?!\s*\())\b",
    re.IGNORECASE,
)
_LONGEST_ALTER = 1000  # words in which COMPACT is looked for: it has a result
_MAX_ROWS = 100_000
_UNKNOWN_METHOD = 1
_LARGEST_CALL = 1 << 20  # bytes; only a statement may have more
_MOST_VALUES = 5000  # of a call: settings, names, and fields that are not known
_INFO = {13: "hiveacid", 17: "Spark SQL"}  # TGetInfoType: name of the server, of the DBMS
_DBMS_VERSION = 18
# TGetInfoType: the longest names of columns, schemas and tables; 0: no limit
_LONGEST_NAMES = {30: 128, 66: 0, 34: 128, 35: 256}


class Service:
    """Carries out calls for all connections."""

    def __init__(self, sessions: Sessions, version: str) -> None:
        """``version``: Spark's, which clients show as the version of the DBMS."""
        self.sessions = sessions
        self.calls = self.failures = 0
        self._version = version
        self._limits = TimeLimits()
        self._handlers: Mapping[str, Callable[[hs2_messages.Request, Caller], ThriftStruct]] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "GetInfo": self._get_info,
            "SetClientInfo": self._set_client_info,
            "ExecuteStatement": self._execute,
            "GetOperationStatus": self._operation_status,
            "CancelOperation": self._cancel,
            "CloseOperation": self._close_operation,
            "GetResultSetMetadata": self._result_metadata,
            "FetchResults": self._fetch,
            "GetQueryId": self._query_id,
        }

    def answer(self, data: bytes, caller: Caller, send: Callable[[bytes], None]) -> None:
        """Carry out the call of a message, and ``send`` the answer. A new session whose handle cannot be sent is closed.

        Raises ClientProtocolError for bytes that are not a call, EOFError if the client has gone, and errors of ``send``.
        """
        message = Decoder(data, _MOST_VALUES).message()
        call = hs2_messages.CALLS.get(message.method)
        if message.kind != CALL:
            raise ClientProtocolError("expected a call, received another kind of message")
        if len(data) > _LARGEST_CALL and message.method != "ExecuteStatement":
            raise ClientProtocolError(
                f"a call of {message.method} has {len(data)} bytes; the limit is {_LARGEST_CALL}"
            )
        if call is None:
            body = encode_exception(f"the method {message.method} is not offered", _UNKNOWN_METHOD)
            send(encode_message(message.method, EXCEPTION, message.number, body))
            return
        request = message.body.arguments(call)
        self.calls += 1
        try:
            if message.method in METADATA_CALLS:
                answer = self._metadata(message.method, request, caller)
            else:
                answer = self._handlers[message.method](request, caller)
        except InvalidHandleError:
            answer = _failed(call.result, INVALID_HANDLE)
        except (ClientProtocolError, EOFError):
            raise
        except Exception as error:  # noqa: BLE001 - every error becomes an answer, and unexpected ones are logged
            answer = _failed(call.result, error_status(error))
        status = getattr(answer, "status", None)
        self.failures += status is not None and status.statusCode != hs2_messages.SUCCESS
        body = encode_struct(call.answer(success=answer))
        opened = getattr(answer, "sessionHandle", None)
        try:
            if opened is not None:
                require_present(caller)
            send(encode_message(message.method, REPLY, message.number, body))
        except (EOFError, OSError):
            if opened is not None:
                self.sessions.close(self.sessions.find(opened, caller), "disconnected")
            raise

    def _open_session(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        protocol = request.client_protocol if request.client_protocol is not None else -1
        if protocol < hs2_messages.PROTOCOL_V6:
            raise UnsupportedFeatureError(
                "the client's protocol is older than that of Hive 0.13 and has no results in columns: use a newer driver"
            )
        settings = request.configuration or None
        try:
            session = self.sessions.open(caller, settings or {})
        except Exception as error:
            audit(
                "session_refused",
                caller.user,
                caller.host,
                settings=settings,
                reason=str(error) or repr(error),
            )
            raise
        audit("session_opened", caller.user, caller.host, session=session.number, settings=settings)
        return hs2_messages.TOpenSessionResp(
            status=SUCCESS,
            serverProtocolVersion=min(protocol, hs2_messages.PROTOCOL_V10),
            sessionHandle=session.handle(),
            configuration={"hive.server2.thrift.resultset.default.fetch.size": "4096"},
        )

    def _close_session(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        self.sessions.close(self._find_session(request, caller), "closed")
        return _ok()

    def _find_session(self, request: hs2_messages.Request, caller: Caller) -> ClientSession:
        return self.sessions.find(request.sessionHandle, caller)

    def _get_info(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        self._find_session(request, caller)
        kind = request.infoType or 0
        if kind in _LONGEST_NAMES:
            value = hs2_messages.TGetInfoValue(lenValue=_LONGEST_NAMES[kind])
        else:
            text = self._version if kind == _DBMS_VERSION else _INFO.get(kind, "")
            value = hs2_messages.TGetInfoValue(stringValue=text)
        return hs2_messages.TGetInfoResp(status=SUCCESS, infoValue=value)

    def _set_client_info(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        self._find_session(request, caller)
        return _ok()

    def _execute(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        session = self._find_session(request, caller)
        text = (request.statement or "").strip()

        def work() -> Result | None:
            frame = session.spark.sql(text)
            if frame.columns == WRITTEN_NAMES:
                # The statement has committed: no Spark job may follow, because a cancel could make it fail. A query with
                # columns of these names may have several rows.
                rows = frame.take(2)
                if len(rows) == 1:
                    return RowsResult(WRITTEN, rows)
            return SparkResult(frame) if frame.columns else None

        operation = self._register(session, work, hs2_messages.EXECUTE_STATEMENT)
        operation.settings = session.overlaid(request.confOverlay or {})
        operation.expects_result, operation.only_reads = _expects_result(text), _only_reads(text)
        _record("statement", caller, session, operation, settings=request.confOverlay or None, text=text)
        on_timeout = partial(_cancel, caller, session, operation, "time limit")
        running = operation.start(float(request.queryTimeout or 0), on_timeout)
        if not request.runAsync:
            return self._wait_and_answer(session, operation, running, caller)
        operation.done_within(_LONG_POLL)
        return hs2_messages.TOperationResp(status=SUCCESS, operationHandle=operation.handle())

    def _wait_and_answer(
        self, session: ClientSession, operation: ClientOperation, running: Running[None], caller: Caller
    ) -> ThriftStruct:
        """Wait for an operation and return the answer of its call. A failed operation is removed."""
        self._wait(operation, running, caller)
        failure = operation.failure()
        if failure is not None:
            self._remove(session, operation, caller)
            return hs2_messages.TOperationResp(status=failure)
        return hs2_messages.TOperationResp(status=SUCCESS, operationHandle=operation.handle())

    def _metadata(self, method: str, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        session = self._find_session(request, caller)
        kind, rows = METADATA_CALLS[method]
        operation = self._register(session, lambda: rows(Metadata(session.spark), request), kind)
        return self._wait_and_answer(session, operation, operation.start(), caller)

    def _register(
        self, session: ClientSession, work: Callable[[], Result | None], kind: int
    ) -> ClientOperation:
        if len(session.operations) >= MOST_OPERATIONS:
            raise ConfigError(
                f"the session has {MOST_OPERATIONS} open operations, which is the limit: close some"
            )
        operation = ClientOperation(session.thread, work, kind, limits=self._limits)
        session.operations[operation.guid] = operation
        return operation

    def _wait(self, operation: ClientOperation, running: Running[T], caller: Caller) -> None:
        """Wait for the end of a call's work; if the client disconnects, cancel it. Raises EOFError."""
        try:
            wait_for(running, caller)
        except EOFError:
            operation.cancel()
            raise

    def _operation_status(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        _, operation = self.sessions.operation(request.operationHandle, caller)
        operation.done_within(_LONG_POLL)
        failure = operation.failure()
        return hs2_messages.TGetOperationStatusResp(
            status=SUCCESS,
            operationState=operation.state,
            **{name: getattr(failure, name, None) for name in ("sqlState", "errorCode", "errorMessage")},
            hasResultSet=operation.announce_result(),
            numModifiedRows=operation.modified_rows,
        )

    def _cancel(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        session, operation = self.sessions.operation(request.operationHandle, caller)
        _cancel(caller, session, operation, "requested")
        return _ok()

    def _close_operation(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        session, operation = self.sessions.operation(request.operationHandle, caller)
        self._remove(session, operation, caller)
        return _ok()

    def _remove(self, session: ClientSession, operation: ClientOperation, caller: Caller) -> None:
        session.operations.pop(operation.guid, None)
        if operation.busy:
            _cancel(caller, session, operation, "closed")
        operation.close()
        self.sessions.operation_ended()

    def _result_metadata(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        _, operation = self.sessions.operation(request.operationHandle, caller)
        columns = _require_cursor(operation).result.columns
        return hs2_messages.TGetResultSetMetadataResp(status=SUCCESS, schema=table_schema(columns))

    def _fetch(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        _, operation = self.sessions.operation(request.operationHandle, caller)
        if request.fetchType:  # the log of a statement, which is empty
            return _rows(0, empty_log(), more=False)
        failure = operation.failure()
        if failure is not None:
            return hs2_messages.TFetchResultsResp(status=failure)
        _require_cursor(operation)
        orientation = request.orientation or hs2_messages.FETCH_NEXT
        if orientation not in (hs2_messages.FETCH_NEXT, hs2_messages.FETCH_FIRST):
            raise UnsupportedFeatureError(
                "results are read forwards, or from the first row (FETCH_NEXT, FETCH_FIRST); other orientations are not supported"
            )
        rows = min(max(request.maxRows or 0, 1), _MAX_ROWS)
        running = operation.fetch(rows, from_first=orientation == hs2_messages.FETCH_FIRST)
        self._wait(operation, running, caller)
        first, columns, more = running.future.result()
        return _rows(first, columns, more=more)

    def _query_id(self, request: hs2_messages.Request, caller: Caller) -> ThriftStruct:
        _, operation = self.sessions.operation(request.operationHandle, caller)
        return hs2_messages.TGetQueryIdResp(queryId=f"hiveacid_{operation.guid.hex()}")


def _cancel(caller: Caller, session: ClientSession, operation: ClientOperation, reason: str) -> None:
    """Cancel an operation. ``caller``: whose call asks for it, or set the time limit. ``reason``: for the audit log."""
    _record("cancel", caller, session, operation, reason=reason)
    operation.cancel()


def _record(
    event: str,
    caller: Caller,
    session: ClientSession,
    operation: ClientOperation,
    **more: str | Mapping[str, str] | None,
) -> None:
    """Log an event of an operation, with further values, in the audit log."""
    names = {"session": session.number, "operation": operation.number}
    audit(event, caller.user, caller.host, **names, **more)


def _expects_result(text: str) -> bool:
    """Tell by its words whether a statement probably has rows."""
    words = (token.keyword for token in islice(scan(text), _LONGEST_ALTER))
    verb = next(words, "")
    return verb not in _VERBS_WITHOUT_RESULT or (verb == "ALTER" and "COMPACT" in words)


def _only_reads(text: str) -> bool:
    """Tell whether a statement surely commits nothing: by its first word, and if no word of a change is anywhere in it."""
    verb = next((token.keyword for token in scan(text)), "")
    return verb in _READING_VERBS and _CHANGE.search(text) is None


def _require_cursor(operation: ClientOperation) -> ResultCursor:
    if operation.cursor is None:
        raise ConfigError("the operation has no result, or has not ended yet: ask GetOperationStatus first")
    return operation.cursor


def _rows(first: int, columns: list[bytes], *, more: bool) -> ThriftStruct:
    rows = hs2_messages.TRowSet(startRowOffset=first, rows=[], columns=columns)
    return hs2_messages.TFetchResultsResp(status=SUCCESS, hasMoreRows=more, results=rows)


def _ok() -> ThriftStruct:
    return hs2_messages.TStatusResp(status=SUCCESS)


def _failed(declared: type[ThriftStruct], status: ThriftStruct) -> ThriftStruct:
    """Return an answer with a status, and with the other fields that clients require."""
    if declared is hs2_messages.TGetQueryIdResp:
        return declared(queryId="")
    if declared is hs2_messages.TOpenSessionResp:
        return declared(status=status, serverProtocolVersion=hs2_messages.PROTOCOL_V10)
    if declared is hs2_messages.TGetInfoResp:
        return declared(status=status, infoValue=hs2_messages.TGetInfoValue(stringValue=""))
    return declared(status=status)
