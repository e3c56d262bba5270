"""Structs of HiveServer2's interface (``TCLIService.thrift``): the fields that this server reads or sets."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.stores.hms.thrift.structs import (
    BOOL,
    BYTES,
    I16,
    I32,
    I64,
    TEXT,
    Kind,
    ThriftStruct,
    list_of,
    map_of,
    struct,
    struct_of,
)

_DOUBLE = Kind(4)
_TEXTS = map_of(TEXT, TEXT)

SUCCESS, ERROR, INVALID_HANDLE = 0, 3, 4  # TStatusCode
INITIALIZED, RUNNING, FINISHED, CANCELED, CLOSED, FAILED = 0, 1, 2, 3, 4, 5  # TOperationState
PENDING = 7
PROTOCOL_V6, PROTOCOL_V10 = 5, 9
FETCH_NEXT, FETCH_FIRST = 0, 4
EXECUTE_STATEMENT = 0  # TOperationType

Status = struct(
    "TStatus",
    (1, "statusCode", I32),
    (2, "infoMessages", list_of(TEXT)),
    (3, "sqlState", TEXT),
    (4, "errorCode", I32),
    (5, "errorMessage", TEXT),
)
HandleIdentifier = struct("THandleIdentifier", (1, "guid", BYTES), (2, "secret", BYTES))
SessionHandle = struct("TSessionHandle", (1, "sessionId", HandleIdentifier))
OperationHandle = struct(
    "TOperationHandle",
    (1, "operationId", HandleIdentifier),
    (2, "operationType", I32),
    (3, "hasResultSet", BOOL),
    (4, "modifiedRowCount", _DOUBLE),
)
_OF_SESSION = (1, "sessionHandle", SessionHandle)
_OF_OPERATION = (1, "operationHandle", OperationHandle)
_STATUS = (1, "status", Status)

OpenSessionReq = struct(
    "TOpenSessionReq",
    (1, "client_protocol", I32),
    (2, "username", TEXT),
    (3, "password", TEXT),
    (4, "configuration", _TEXTS),
)
OpenSessionResp = struct(
    "TOpenSessionResp",
    _STATUS,
    (2, "serverProtocolVersion", I32),
    (3, "sessionHandle", SessionHandle),
    (4, "configuration", _TEXTS),
)
SessionReq = struct("TSessionReq", _OF_SESSION)
StatusResp = struct("TStatusResp", _STATUS)
GetInfoReq = struct("TGetInfoReq", _OF_SESSION, (2, "infoType", I32))
GetInfoValue = struct(
    "TGetInfoValue", (1, "stringValue", TEXT), (2, "smallIntValue", I16), (6, "lenValue", I64)
)
GetInfoResp = struct("TGetInfoResp", _STATUS, (2, "infoValue", GetInfoValue))
ExecuteStatementReq = struct(
    "TExecuteStatementReq",
    _OF_SESSION,
    (2, "statement", TEXT),
    (3, "confOverlay", _TEXTS),
    (4, "runAsync", BOOL),
    (5, "queryTimeout", I64),
)
OperationResp = struct("TOperationResp", _STATUS, (2, "operationHandle", OperationHandle))
MetadataReq = struct(
    "TMetadataReq",
    _OF_SESSION,
    (2, "catalogName", TEXT),
    (3, "schemaName", TEXT),
    (4, "tableName", TEXT),  # the name of functions in GetFunctions
    (5, "columnName", TEXT),
)
GetTablesReq = struct(
    "TGetTablesReq",
    _OF_SESSION,
    (2, "catalogName", TEXT),
    (3, "schemaName", TEXT),
    (4, "tableName", TEXT),
    (5, "tableTypes", list_of(TEXT)),
)
OperationReq = struct("TOperationReq", _OF_OPERATION)
GetOperationStatusResp = struct(
    "TGetOperationStatusResp",
    _STATUS,
    (2, "operationState", I32),
    (3, "sqlState", TEXT),
    (4, "errorCode", I32),
    (5, "errorMessage", TEXT),
    (6, "taskStatus", TEXT),
    (7, "operationStarted", I64),
    (8, "operationCompleted", I64),
    (9, "hasResultSet", BOOL),
    (11, "numModifiedRows", I64),
)
TypeQualifierValue = struct("TTypeQualifierValue", (1, "i32Value", I32), (2, "stringValue", TEXT))
TypeQualifiers = struct("TTypeQualifiers", (1, "qualifiers", map_of(TEXT, struct_of(TypeQualifierValue))))
PrimitiveTypeEntry = struct("TPrimitiveTypeEntry", (1, "type", I32), (2, "typeQualifiers", TypeQualifiers))
TypeEntry = struct("TTypeEntry", (1, "primitiveEntry", PrimitiveTypeEntry))
TypeDesc = struct("TTypeDesc", (1, "types", list_of(TypeEntry)))
ColumnDesc = struct(
    "TColumnDesc",
    (1, "columnName", TEXT),
    (2, "typeDesc", TypeDesc),
    (3, "position", I32),
    (4, "comment", TEXT),
)
TableSchema = struct("TTableSchema", (1, "columns", list_of(ColumnDesc)))
GetResultSetMetadataResp = struct("TGetResultSetMetadataResp", _STATUS, (2, "schema", TableSchema))
FetchResultsReq = struct(
    "TFetchResultsReq", _OF_OPERATION, (2, "orientation", I32), (3, "maxRows", I64), (4, "fetchType", I16)
)
Row = struct("TRow", (1, "colVals", list_of(TEXT)))
Column = struct("TColumn")
RowSet = struct(
    "TRowSet", (1, "startRowOffset", I64), (2, "rows", list_of(Row)), (3, "columns", list_of(Column))
)
FetchResultsResp = struct("TFetchResultsResp", _STATUS, (2, "hasMoreRows", BOOL), (3, "results", RowSet))
GetQueryIdResp = struct("TGetQueryIdResp", (1, "queryId", TEXT))


@dataclass(frozen=True)
class Call:
    """A method: its argument and its answer."""

    request: type[ThriftStruct]
    answer: type[ThriftStruct]


CALLS = {
    "OpenSession": Call(OpenSessionReq, OpenSessionResp),
    "CloseSession": Call(SessionReq, StatusResp),
    "GetInfo": Call(GetInfoReq, GetInfoResp),
    "SetClientInfo": Call(SessionReq, StatusResp),
    "ExecuteStatement": Call(ExecuteStatementReq, OperationResp),
    "GetTypeInfo": Call(MetadataReq, OperationResp),
    "GetCatalogs": Call(MetadataReq, OperationResp),
    "GetSchemas": Call(MetadataReq, OperationResp),
    "GetTables": Call(GetTablesReq, OperationResp),
    "GetTableTypes": Call(MetadataReq, OperationResp),
    "GetColumns": Call(MetadataReq, OperationResp),
    "GetFunctions": Call(MetadataReq, OperationResp),
    "GetPrimaryKeys": Call(MetadataReq, OperationResp),
    "GetCrossReference": Call(MetadataReq, OperationResp),
    "GetOperationStatus": Call(OperationReq, GetOperationStatusResp),
    "CancelOperation": Call(OperationReq, StatusResp),
    "CloseOperation": Call(OperationReq, StatusResp),
    "GetResultSetMetadata": Call(OperationReq, GetResultSetMetadataResp),
    "FetchResults": Call(FetchResultsReq, FetchResultsResp),
    "GetQueryId": Call(OperationReq, GetQueryIdResp),
}
"""Methods of the interface. Delegation tokens and data transfer are unknown methods."""
