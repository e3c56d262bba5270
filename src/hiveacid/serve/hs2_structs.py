"""Structs and calls of HiveServer2's interface (``TCLIService.thrift``): the fields that this server reads or sets.

Requests and answers of the same fields share one struct. Delegation tokens and data transfer are unknown calls.
"""

from __future__ import annotations

from typing import Any

from hiveacid.stores.hms.thrift.structs import parse_interface

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


def __getattr__(name: str) -> Any:
    """Return a struct by its name."""
    try:
        return _INTERFACE.structs[name]
    except KeyError:
        raise AttributeError(name) from None
