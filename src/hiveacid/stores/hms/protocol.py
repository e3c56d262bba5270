"""The part of the metastore's interface that we speak: method names, field numbers and types.

Written down from the protocol as servers of 3.1.3 and 4.0.1 speak it. Fields that only newer servers know are passed
over by older ones; those that would change what an older server does are only filled in where ``versions.py`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hiveacid.stores.hms import event_protocol, queue_protocol
from hiveacid.stores.hms.layout import (
    BOOL,
    BYTES,
    I16,
    I32,
    I64,
    TEXT,
    Kind,
    Method,
    key_list_of,
    list_of,
    map_of,
    of,
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
OpenTxnsResponse = struct("OpenTxnsResponse", (1, "txn_ids", _IDS))
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
)
GetOpenTxnsInfoResponse = struct(
    "GetOpenTxnsInfoResponse", (1, "txn_high_water_mark", I64), (2, "open_txns", list_of(of(TxnInfo)))
)
HeartbeatTxnRangeRequest = struct("HeartbeatTxnRangeRequest", (1, "min", I64), (2, "max", I64))
HeartbeatTxnRangeResponse = struct(
    "HeartbeatTxnRangeResponse", (1, "aborted", set_of(I64)), (2, "nosuch", set_of(I64))
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
)
GetValidWriteIdsResponse = struct(
    "GetValidWriteIdsResponse", (1, "tblValidWriteIds", list_of(of(TableValidWriteIds)))
)
AllocateTableWriteIdsRequest = struct(
    "AllocateTableWriteIdsRequest", (1, "dbName", TEXT), (2, "tableName", TEXT), (3, "txnIds", _IDS)
)
TxnToWriteId = struct("TxnToWriteId", (1, "txnId", I64), (2, "writeId", I64))
AllocateTableWriteIdsResponse = struct(
    "AllocateTableWriteIdsResponse", (1, "txnToWriteIds", list_of(of(TxnToWriteId)))
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
MaxAllocatedTableWriteIdRequest = struct(
    "MaxAllocatedTableWriteIdRequest", (1, "dbName", TEXT), (2, "tableName", TEXT)
)
MaxAllocatedTableWriteIdResponse = struct("MaxAllocatedTableWriteIdResponse", (1, "maxWriteId", I64))

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
    (1, "component", list_of(of(LockComponent))),
    (2, "txnid", I64),
    (3, "user", TEXT),
    (4, "hostname", TEXT),
    (5, "agentInfo", TEXT),
)
LockResponse = struct("LockResponse", (1, "lockid", I64), (2, "state", I32), (3, "errorMessage", TEXT))
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
)
ShowLocksResponse = struct("ShowLocksResponse", (1, "locks", list_of(of(ShowLocksResponseElement))))

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
    (1, "cols", list_of(of(FieldSchema))),
    (2, "location", TEXT),
    (3, "inputFormat", TEXT),
    (4, "outputFormat", TEXT),
    (5, "compressed", BOOL),
    (6, "numBuckets", I32),
    (7, "serdeInfo", of(SerDeInfo)),
    (8, "bucketCols", _TEXTS),
    (9, "sortCols", list_of(of(Order))),
    (10, "parameters", _PROPERTIES),
    (11, "skewedInfo", of(SkewedInfo)),
    (12, "storedAsSubDirectories", BOOL),
)
Table = struct(
    "Table",
    (1, "tableName", TEXT),
    (2, "dbName", TEXT),
    (3, "owner", TEXT),
    (4, "createTime", I32),
    (5, "lastAccessTime", I32),
    (6, "retention", I32),
    (7, "sd", of(StorageDescriptor)),
    (8, "partitionKeys", list_of(of(FieldSchema))),
    (9, "parameters", _PROPERTIES),
    (10, "viewOriginalText", TEXT),
    (11, "viewExpandedText", TEXT),
    (12, "tableType", TEXT),
    (14, "temporary", BOOL),
    (15, "rewriteEnabled", BOOL),
    (17, "catName", TEXT),
    (18, "ownerType", I32),
    (19, "writeId", I64),
)
Partition = struct(
    "Partition",
    (1, "values", _TEXTS),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "createTime", I32),
    (5, "lastAccessTime", I32),
    (6, "sd", of(StorageDescriptor)),
    (7, "parameters", _PROPERTIES),
    (9, "catName", TEXT),
    (10, "writeId", I64),
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
)
EnvironmentContext = struct("EnvironmentContext", (1, "properties", _PROPERTIES))
ClientCapabilities = struct("ClientCapabilities", (1, "values", list_of(I32)))
GetTableRequest = struct(
    "GetTableRequest",
    (1, "dbName", TEXT),
    (2, "tblName", TEXT),
    (3, "capabilities", of(ClientCapabilities)),
    (4, "catName", TEXT),
    (8, "processorCapabilities", _TEXTS),
    (9, "processorIdentifier", TEXT),
)
GetTableResult = struct("GetTableResult", (1, "table", of(Table)))
CreateTableRequest = struct(
    "CreateTableRequest",
    (1, "table", of(Table)),
    (2, "envContext", of(EnvironmentContext)),
    (9, "processorCapabilities", _TEXTS),
    (10, "processorIdentifier", TEXT),
)
AlterTableRequest = struct(
    "AlterTableRequest",
    (1, "catName", TEXT),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "table", of(Table)),
    (5, "environmentContext", of(EnvironmentContext)),
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
    (4, "partitions", list_of(of(Partition))),
    (5, "environmentContext", of(EnvironmentContext)),
    (6, "writeId", I64),
    (7, "validWriteIdList", TEXT),
)
AlterPartitionsResponse = struct("AlterPartitionsResponse")

# --- calls ----------------------------------------------------------------------------------------
_Said = struct("Said", (1, "message", TEXT))  # every exception of the metastore has its message in field 1


def _call(
    *arguments: tuple[int, str, Kind],
    answer: Kind | None = None,
    errors: tuple[str, ...] = (),
    first_error: int = 1,
    again: bool = True,
) -> Method:
    numbers = range(first_error, first_error + len(errors))
    fields = [(number, f"o{number}", of(_Said)) for number in numbers]
    if answer is not None:
        fields.append((0, "success", answer))
    return Method(
        struct("Arguments", *arguments),
        struct("Answer", *fields),
        MappingProxyType(dict(zip(numbers, errors, strict=True))),
        again,
    )


_NO_TXN, _ABORTED, _NO_LOCK = "NoSuchTxnException", "TxnAbortedException", "NoSuchLockException"
_META, _NO_OBJECT, _EXISTS = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
_BAD_OBJECT, _BAD_OPERATION = "InvalidObjectException", "InvalidOperationException"
_TABLE_ERRORS = (_EXISTS, _BAD_OBJECT, _META, _NO_OBJECT)

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "getVersion": _call(answer=TEXT),
        "get_config_value": _call(
            (1, "name", TEXT), (2, "defaultValue", TEXT), answer=TEXT, errors=("ConfigValSecurityException",)
        ),
        # A lost answer to open_txns leaves transactions that time out; asking again is safe.
        "open_txns": _call((1, "rqst", of(OpenTxnRequest)), answer=of(OpenTxnsResponse)),
        "abort_txn": _call((1, "rqst", of(AbortTxnRequest)), errors=(_NO_TXN,)),
        "commit_txn": _call((1, "rqst", of(CommitTxnRequest)), errors=(_NO_TXN, _ABORTED), again=False),
        "get_open_txns": _call(answer=of(GetOpenTxnsResponse)),
        "get_open_txns_info": _call(answer=of(GetOpenTxnsInfoResponse)),
        "heartbeat_txn_range": _call(
            (1, "txns", of(HeartbeatTxnRangeRequest)), answer=of(HeartbeatTxnRangeResponse)
        ),
        "get_valid_write_ids": _call(
            (1, "rqst", of(GetValidWriteIdsRequest)),
            answer=of(GetValidWriteIdsResponse),
            errors=(_NO_TXN, _META),
        ),
        "add_write_ids_to_min_history": _call(
            (1, "txnId", I64), (2, "writeIds", map_of(TEXT, I64)), errors=(_META,)
        ),
        # A transaction keeps its id for a table, a second record of one partition says nothing new.
        "allocate_table_write_ids": _call(
            (1, "rqst", of(AllocateTableWriteIdsRequest)),
            answer=of(AllocateTableWriteIdsResponse),
            errors=(_NO_TXN, _ABORTED, _META),
        ),
        "add_dynamic_partitions": _call((1, "rqst", of(AddDynamicPartitions)), errors=(_NO_TXN, _ABORTED)),
        "get_max_allocated_table_write_id": _call(
            (1, "rqst", of(MaxAllocatedTableWriteIdRequest)),
            answer=of(MaxAllocatedTableWriteIdResponse),
            errors=(_META,),
        ),
        "repl_tbl_writeid_state": _call((1, "rqst", of(ReplTblWriteIdStateRequest))),
        "seed_txn_id": _call((1, "rqst", of(SeedTxnIdRequest)), errors=(_META,), again=False),
        # A request that came twice blocks nobody longer than its transaction, which never waits for itself.
        "lock": _call((1, "rqst", of(LockRequest)), answer=of(LockResponse), errors=(_NO_TXN, _ABORTED)),
        "check_lock": _call(
            (1, "rqst", of(CheckLockRequest)), answer=of(LockResponse), errors=(_NO_TXN, _ABORTED, _NO_LOCK)
        ),
        "unlock": _call((1, "rqst", of(UnlockRequest)), errors=(_NO_LOCK, "TxnOpenException")),
        "show_locks": _call((1, "rqst", of(ShowLocksRequest)), answer=of(ShowLocksResponse)),
        "compact2": _call(
            (1, "rqst", of(queue_protocol.CompactionRequest)),
            answer=of(queue_protocol.CompactionResponse),
            again=False,
        ),
        "show_compact": _call(
            (1, "rqst", of(queue_protocol.ShowCompactRequest)), answer=of(queue_protocol.ShowCompactResponse)
        ),
        # A job that was given to nobody who heard of it is found by its worker's name, and has failed.
        "find_next_compact2": _call(
            (1, "rqst", of(queue_protocol.FindNextCompactRequest)),
            answer=of(queue_protocol.OptionalCompactionInfo),
            errors=(_META,),
            again=False,
        ),
        "update_compactor_state": _call((1, "cr", of(queue_protocol.CompactionInfo)), (2, "txn_id", I64)),
        "set_hadoop_jobid": _call((1, "jobId", TEXT), (2, "cq_id", I64)),
        "mark_compacted": _call((1, "cr", of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "mark_failed": _call((1, "cr", of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "mark_refused": _call((1, "cr", of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "abort_Compactions": _call(
            (1, "rqst", of(queue_protocol.AbortCompactionRequest)),
            answer=of(queue_protocol.AbortCompactResponse),
        ),
        # Files that are told twice are the same files.
        "fire_listener_event": _call(
            (1, "rqst", of(event_protocol.FireEventRequest)), answer=of(event_protocol.FireEventResponse)
        ),
        "add_write_notification_log": _call(
            (1, "rqst", of(event_protocol.WriteNotificationLogRequest)),
            answer=of(event_protocol.WriteNotificationLogResponse),
        ),
        "get_all_databases": _call(answer=_TEXTS, errors=(_META,)),
        "get_database": _call((1, "name", TEXT), answer=of(Database), errors=(_NO_OBJECT, _META)),
        "create_database": _call(
            (1, "database", of(Database)), errors=(_EXISTS, _BAD_OBJECT, _META), again=False
        ),
        "drop_database": _call(
            (1, "name", TEXT),
            (2, "deleteData", BOOL),
            (3, "cascade", BOOL),
            errors=(_NO_OBJECT, _BAD_OPERATION, _META),
            again=False,
        ),
        "get_tables_by_type": _call(
            (1, "db_name", TEXT), (2, "pattern", TEXT), (3, "tableType", TEXT), answer=_TEXTS, errors=(_META,)
        ),
        "get_table_req": _call(
            (1, "req", of(GetTableRequest)), answer=of(GetTableResult), errors=(_META, _NO_OBJECT)
        ),
        "create_table_with_environment_context": _call(
            (1, "tbl", of(Table)),
            (2, "environment_context", of(EnvironmentContext)),
            errors=_TABLE_ERRORS,
            again=False,
        ),
        "create_table_req": _call((1, "request", of(CreateTableRequest)), errors=_TABLE_ERRORS, again=False),
        "drop_table_with_environment_context": _call(
            (1, "dbname", TEXT),
            (2, "name", TEXT),
            (3, "deleteData", BOOL),
            (4, "environment_context", of(EnvironmentContext)),
            errors=(_NO_OBJECT, _META),
            again=False,
        ),
        "alter_table_with_environment_context": _call(
            (1, "dbname", TEXT),
            (2, "tbl_name", TEXT),
            (3, "new_tbl", of(Table)),
            (4, "environment_context", of(EnvironmentContext)),
            errors=(_BAD_OPERATION, _META),
            again=False,
        ),
        "alter_table_req": _call(
            (1, "req", of(AlterTableRequest)),
            answer=of(AlterTableResponse),
            errors=(_BAD_OPERATION, _META),
            again=False,
        ),
        "add_partitions": _call(
            (1, "new_parts", list_of(of(Partition))),
            answer=I32,
            errors=(_BAD_OBJECT, _EXISTS, _META),
            again=False,
        ),
        "get_partitions": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "max_parts", I16),
            answer=list_of(of(Partition)),
            errors=(_NO_OBJECT, _META),
        ),
        "get_partitions_by_names": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "names", _TEXTS),
            answer=list_of(of(Partition)),
            errors=(_META, _NO_OBJECT),
        ),
        "alter_partition_with_environment_context": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "new_part", of(Partition)),
            (4, "environment_context", of(EnvironmentContext)),
            errors=(_BAD_OPERATION, _META),
            again=False,
        ),
        "alter_partitions_req": _call(
            (1, "req", of(AlterPartitionsRequest)),
            answer=of(AlterPartitionsResponse),
            errors=(_BAD_OPERATION, _META),
            again=False,
        ),
        "drop_partition_with_environment_context": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "part_vals", _TEXTS),
            (4, "deleteData", BOOL),
            (5, "environment_context", of(EnvironmentContext)),
            answer=BOOL,
            errors=(_NO_OBJECT, _META),
            again=False,
        ),
    }
)
