"""Structs of the metastore's interface: field numbers, names and types.

Recorded from servers of 3.1.3 and 4.0.1. An older server skips fields that only newer ones know. Fields that would
change what an older server does are only set where ``capabilities.py`` says so.
"""

from __future__ import annotations

from hiveacid.stores.hms.thrift.structs import (
    BOOL,
    BYTES,
    I32,
    I64,
    TEXT,
    key_list_of,
    list_of,
    map_of,
    set_of,
    struct,
)

_TEXTS = list_of(TEXT)
_IDS = list_of(I64)
_PROPERTIES = map_of(TEXT, TEXT)

# --- transactions ---------------------------------------------------------------------------------
OpenTxnRequest = struct(
    "OpenTxnRequest",
    (1, "num_txns", I32),
    (2, "user", TEXT),
    (3, "hostname", TEXT),
    (4, "agentInfo", TEXT),
    (7, "txn_type", I32),
)
OpenTxnsResponse = struct("OpenTxnsResponse", (1, "txn_ids", _IDS), required=("txn_ids",))
AbortTxnRequest = struct("AbortTxnRequest", (1, "txnid", I64))
CommitTxnRequest = struct(
    "CommitTxnRequest", (1, "txnid", I64), (6, "exclWriteEnabled", BOOL), (7, "txn_type", I32)
)
GetOpenTxnsResponse = struct(
    "GetOpenTxnsResponse",
    (1, "txn_high_water_mark", I64),
    (2, "open_txns", _IDS),
    (3, "min_open_txn", I64),
    (4, "abortedBits", BYTES),
    required=("txn_high_water_mark", "open_txns"),
)
TxnInfo = struct(
    "TxnInfo",
    (1, "id", I64),
    (2, "state", I32),
    (3, "user", TEXT),
    (4, "hostname", TEXT),
    (5, "agentInfo", TEXT),
    (8, "startedTime", I64),
    (9, "lastHeartbeatTime", I64),
    required=("id", "state", "user", "hostname"),
)
GetOpenTxnsInfoResponse = struct(
    "GetOpenTxnsInfoResponse",
    (1, "txn_high_water_mark", I64),
    (2, "open_txns", list_of(TxnInfo)),
    required=("txn_high_water_mark", "open_txns"),
)
HeartbeatTxnRangeRequest = struct("HeartbeatTxnRangeRequest", (1, "min", I64), (2, "max", I64))
HeartbeatTxnRangeResponse = struct(
    "HeartbeatTxnRangeResponse",
    (1, "aborted", set_of(I64)),
    (2, "nosuch", set_of(I64)),
    required=("aborted", "nosuch"),
)

# --- write ids ------------------------------------------------------------------------------------
GetValidWriteIdsRequest = struct(
    "GetValidWriteIdsRequest", (1, "fullTableNames", _TEXTS), (2, "validTxnList", TEXT)
)
TableValidWriteIds = struct(
    "TableValidWriteIds",
    (1, "fullTableName", TEXT),
    (2, "writeIdHighWaterMark", I64),
    (3, "invalidWriteIds", _IDS),
    (4, "minOpenWriteId", I64),
    (5, "abortedBits", BYTES),
    required=("fullTableName", "writeIdHighWaterMark", "invalidWriteIds"),
)
GetValidWriteIdsResponse = struct(
    "GetValidWriteIdsResponse",
    (1, "tblValidWriteIds", list_of(TableValidWriteIds)),
    required=("tblValidWriteIds",),
)
AllocateTableWriteIdsRequest = struct(
    "AllocateTableWriteIdsRequest", (1, "dbName", TEXT), (2, "tableName", TEXT), (3, "txnIds", _IDS)
)
TxnToWriteId = struct("TxnToWriteId", (1, "txnId", I64), (2, "writeId", I64), required=("txnId", "writeId"))
AllocateTableWriteIdsResponse = struct(
    "AllocateTableWriteIdsResponse", (1, "txnToWriteIds", list_of(TxnToWriteId)), required=("txnToWriteIds",)
)
AddDynamicPartitions = struct(
    "AddDynamicPartitions",
    (1, "txnid", I64),
    (2, "writeid", I64),
    (3, "dbname", TEXT),
    (4, "tablename", TEXT),
    (5, "partitionnames", _TEXTS),
    (6, "operationType", I32),
)
ReplTblWriteIdStateRequest = struct(
    "ReplTblWriteIdStateRequest",
    (1, "validWriteIdlist", TEXT),
    (2, "user", TEXT),
    (3, "hostName", TEXT),
    (4, "dbName", TEXT),
    (5, "tableName", TEXT),
)
SeedTxnIdRequest = struct("SeedTxnIdRequest", (1, "seedTxnId", I64))

# --- locks ----------------------------------------------------------------------------------------
LockComponent = struct(
    "LockComponent",
    (1, "type", I32),
    (2, "level", I32),
    (3, "dbname", TEXT),
    (4, "tablename", TEXT),
    (5, "partitionname", TEXT),
    (6, "operationType", I32),
    (7, "isTransactional", BOOL),
    (8, "isDynamicPartitionWrite", BOOL),
)
LockRequest = struct(
    "LockRequest",
    (1, "component", list_of(LockComponent)),
    (2, "txnid", I64),
    (3, "user", TEXT),
    (4, "hostname", TEXT),
    (5, "agentInfo", TEXT),
)
LockResponse = struct(
    "LockResponse",
    (1, "lockid", I64),
    (2, "state", I32),
    (3, "errorMessage", TEXT),
    required=("lockid", "state"),
)
CheckLockRequest = struct("CheckLockRequest", (1, "lockid", I64), (2, "txnid", I64), (3, "elapsed_ms", I64))
UnlockRequest = struct("UnlockRequest", (1, "lockid", I64))
ShowLocksRequest = struct(
    "ShowLocksRequest",
    (1, "dbname", TEXT),
    (2, "tablename", TEXT),
    (3, "partname", TEXT),
    (4, "isExtended", BOOL),
)
ShowLocksResponseElement = struct(
    "ShowLocksResponseElement",
    (1, "lockid", I64),
    (2, "dbname", TEXT),
    (3, "tablename", TEXT),
    (4, "partname", TEXT),
    (5, "state", I32),
    (6, "type", I32),
    (7, "txnid", I64),
    (8, "lastheartbeat", I64),
    (9, "acquiredat", I64),
    (10, "user", TEXT),
    (11, "hostname", TEXT),
    (13, "agentInfo", TEXT),
    (14, "blockedByExtId", I64),
    (15, "blockedByIntId", I64),
    (16, "lockIdInternal", I64),
    required=("lockid", "dbname", "state", "type", "user", "hostname"),
)
ShowLocksResponse = struct(
    "ShowLocksResponse", (1, "locks", list_of(ShowLocksResponseElement)), required=("locks",)
)

# --- catalog --------------------------------------------------------------------------------------
FieldSchema = struct("FieldSchema", (1, "name", TEXT), (2, "type", TEXT), (3, "comment", TEXT))
Order = struct("Order", (1, "col", TEXT), (2, "order", I32))
SerDeInfo = struct(
    "SerDeInfo",
    (1, "name", TEXT),
    (2, "serializationLib", TEXT),
    (3, "parameters", _PROPERTIES),
    (4, "description", TEXT),
    (5, "serializerClass", TEXT),
    (6, "deserializerClass", TEXT),
    (7, "serdeType", I32),
)
SkewedInfo = struct(
    "SkewedInfo",
    (1, "skewedColNames", _TEXTS),
    (2, "skewedColValues", list_of(_TEXTS)),
    (3, "skewedColValueLocationMaps", map_of(key_list_of(TEXT), TEXT)),
)
StorageDescriptor = struct(
    "StorageDescriptor",
    (1, "cols", list_of(FieldSchema)),
    (2, "location", TEXT),
    (3, "inputFormat", TEXT),
    (4, "outputFormat", TEXT),
    (5, "compressed", BOOL),
    (6, "numBuckets", I32),
    (7, "serdeInfo", SerDeInfo),
    (8, "bucketCols", _TEXTS),
    (9, "sortCols", list_of(Order)),
    (10, "parameters", _PROPERTIES),
    (11, "skewedInfo", SkewedInfo),
    (12, "storedAsSubDirectories", BOOL),
    required=("serdeInfo",),
)
ObjectDictionary = struct("ObjectDictionary", (1, "values", map_of(TEXT, list_of(BYTES))))
Table = struct(
    "Table",
    (1, "tableName", TEXT),
    (2, "dbName", TEXT),
    (3, "owner", TEXT),
    (4, "createTime", I32),
    (5, "lastAccessTime", I32),
    (6, "retention", I32),
    (7, "sd", StorageDescriptor),
    (8, "partitionKeys", list_of(FieldSchema)),
    (9, "parameters", _PROPERTIES),
    (10, "viewOriginalText", TEXT),
    (11, "viewExpandedText", TEXT),
    (12, "tableType", TEXT),
    (14, "temporary", BOOL),
    (15, "rewriteEnabled", BOOL),
    (17, "catName", TEXT),
    (18, "ownerType", I32),
    (19, "writeId", I64),
    (27, "dictionary", ObjectDictionary),
    required=("tableName", "dbName", "sd"),
)
Partition = struct(
    "Partition",
    (1, "values", _TEXTS),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "createTime", I32),
    (5, "lastAccessTime", I32),
    (6, "sd", StorageDescriptor),
    (7, "parameters", _PROPERTIES),
    (9, "catName", TEXT),
    (10, "writeId", I64),
    required=("values", "sd"),
)
Database = struct(
    "Database",
    (1, "name", TEXT),
    (2, "description", TEXT),
    (3, "locationUri", TEXT),
    (4, "parameters", _PROPERTIES),
    (6, "ownerName", TEXT),
    (7, "ownerType", I32),
    (8, "catalogName", TEXT),
    (10, "managedLocationUri", TEXT),
    required=("name",),
)
EnvironmentContext = struct("EnvironmentContext", (1, "properties", _PROPERTIES))
ClientCapabilities = struct("ClientCapabilities", (1, "values", list_of(I32)))
GetTableRequest = struct(
    "GetTableRequest",
    (1, "dbName", TEXT),
    (2, "tblName", TEXT),
    (3, "capabilities", ClientCapabilities),
    (4, "catName", TEXT),
    (8, "processorCapabilities", _TEXTS),
    (9, "processorIdentifier", TEXT),
)
GetTableResult = struct("GetTableResult", (1, "table", Table), required=("table",))
CreateTableRequest = struct(
    "CreateTableRequest",
    (1, "table", Table),
    (2, "envContext", EnvironmentContext),
    (9, "processorCapabilities", _TEXTS),
    (10, "processorIdentifier", TEXT),
)
AlterTableRequest = struct(
    "AlterTableRequest",
    (1, "catName", TEXT),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "table", Table),
    (5, "environmentContext", EnvironmentContext),
    (6, "writeId", I64),
    (7, "validWriteIdList", TEXT),
    (8, "processorCapabilities", _TEXTS),
    (9, "processorIdentifier", TEXT),
)
AlterTableResponse = struct("AlterTableResponse")
AlterPartitionsRequest = struct(
    "AlterPartitionsRequest",
    (1, "catName", TEXT),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "partitions", list_of(Partition)),
    (5, "environmentContext", EnvironmentContext),
    (6, "writeId", I64),
    (7, "validWriteIdList", TEXT),
)
AlterPartitionsResponse = struct("AlterPartitionsResponse")

# --- constraints; fields that hiveacid does not read are left out --------------------------------
# The same request for each kind of constraint; the field ``catName`` is required.
ConstraintsRequest = struct(
    "ConstraintsRequest", (1, "catName", TEXT), (2, "db_name", TEXT), (3, "tbl_name", TEXT)
)
SQLNotNullConstraint = struct(
    "SQLNotNullConstraint", (4, "column_name", TEXT), (5, "nn_name", TEXT), (6, "enable_cstr", BOOL)
)
SQLDefaultConstraint = struct(
    "SQLDefaultConstraint",
    (4, "column_name", TEXT),
    (5, "default_value", TEXT),
    (6, "dc_name", TEXT),
    (7, "enable_cstr", BOOL),
)
SQLCheckConstraint = struct(
    "SQLCheckConstraint",
    (4, "column_name", TEXT),
    (5, "check_expression", TEXT),
    (6, "dc_name", TEXT),
    (7, "enable_cstr", BOOL),
)
NotNullConstraintsResponse = struct(
    "NotNullConstraintsResponse", (1, "notNullConstraints", list_of(SQLNotNullConstraint))
)
DefaultConstraintsResponse = struct(
    "DefaultConstraintsResponse", (1, "defaultConstraints", list_of(SQLDefaultConstraint))
)
CheckConstraintsResponse = struct(
    "CheckConstraintsResponse", (1, "checkConstraints", list_of(SQLCheckConstraint))
)
AllTableConstraintsRequest = struct(
    "AllTableConstraintsRequest", (1, "dbName", TEXT), (2, "tblName", TEXT), (3, "catName", TEXT)
)
SQLAllTableConstraints = struct(
    "SQLAllTableConstraints",
    (4, "notNullConstraints", list_of(SQLNotNullConstraint)),
    (5, "defaultConstraints", list_of(SQLDefaultConstraint)),
    (6, "checkConstraints", list_of(SQLCheckConstraint)),
)
AllTableConstraintsResponse = struct(
    "AllTableConstraintsResponse", (1, "allTableConstraints", SQLAllTableConstraints)
)

# --- events about files, for listeners -----------------------------------------------------------
InsertEventRequestData = struct(
    "InsertEventRequestData",
    (1, "replace", BOOL),
    (2, "filesAdded", _TEXTS),
    (3, "filesAddedChecksum", _TEXTS),
    (4, "subDirectoryList", _TEXTS),
)
FireEventRequestData = struct("FireEventRequestData", (1, "insertData", InsertEventRequestData))
FireEventRequest = struct(
    "FireEventRequest",
    (1, "successful", BOOL),
    (2, "data", FireEventRequestData),
    (3, "dbName", TEXT),
    (4, "tableName", TEXT),
    (5, "partitionVals", _TEXTS),
)
FireEventResponse = struct("FireEventResponse")
WriteNotificationLogRequest = struct(
    "WriteNotificationLogRequest",
    (1, "txnId", I64),
    (2, "writeId", I64),
    (3, "db", TEXT),
    (4, "table", TEXT),
    (5, "fileInfo", InsertEventRequestData),
    (6, "partitionVals", _TEXTS),
)
WriteNotificationLogResponse = struct("WriteNotificationLogResponse")
