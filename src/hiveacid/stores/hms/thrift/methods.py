"""Calls of the metastore's interface that hiveacid makes: arguments, answer, errors, and whether they may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hiveacid.stores.hms.thrift import queue_protocol
from hiveacid.stores.hms.thrift.protocol import (
    AbortTxnRequest,
    AddDynamicPartitions,
    AllocateTableWriteIdsRequest,
    AllocateTableWriteIdsResponse,
    AllTableConstraintsRequest,
    AllTableConstraintsResponse,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    AlterTableRequest,
    AlterTableResponse,
    CheckConstraintsResponse,
    CheckLockRequest,
    CommitTxnRequest,
    ConstraintsRequest,
    CreateTableRequest,
    Database,
    DefaultConstraintsResponse,
    EnvironmentContext,
    FireEventRequest,
    FireEventResponse,
    GetOpenTxnsInfoResponse,
    GetOpenTxnsResponse,
    GetTableRequest,
    GetTableResult,
    GetValidWriteIdsRequest,
    GetValidWriteIdsResponse,
    HeartbeatTxnRangeRequest,
    HeartbeatTxnRangeResponse,
    LockRequest,
    LockResponse,
    MaxAllocatedTableWriteIdRequest,
    MaxAllocatedTableWriteIdResponse,
    NotNullConstraintsResponse,
    OpenTxnRequest,
    OpenTxnsResponse,
    Partition,
    ReplTblWriteIdStateRequest,
    SeedTxnIdRequest,
    ShowLocksRequest,
    ShowLocksResponse,
    Table,
    UnlockRequest,
    WriteNotificationLogRequest,
    WriteNotificationLogResponse,
)
from hiveacid.stores.hms.thrift.structs import (
    BOOL,
    I16,
    I32,
    I64,
    TEXT,
    Kind,
    Method,
    ThriftStruct,
    is_empty,
    list_of,
    map_of,
    struct,
    struct_of,
)

_TEXTS = list_of(TEXT)
Said = struct("Said", (1, "message", TEXT))  # every exception of the metastore has its message in field 1


def _call(
    *arguments: tuple[int, str, Kind],
    answer: Kind | None = None,
    errors: tuple[str, ...] = (),
    first_error: int = 1,
    retryable: bool = True,
) -> Method:
    numbers = range(first_error, first_error + len(errors))
    fields = [(number, f"o{number}", struct_of(Said)) for number in numbers]
    if answer is not None:
        fields.append((0, "success", answer))
    # Java leaves out a text that is null; a struct without fields says nothing.
    answers = answer is not None and answer != TEXT and not is_empty(answer)
    return Method(
        struct("Arguments", *arguments),
        struct("Answer", *fields, required=("success",) if answers else ()),
        MappingProxyType(dict(zip(numbers, errors, strict=True))),
        retryable,
    )


_NO_TXN, _ABORTED, _NO_LOCK = "NoSuchTxnException", "TxnAbortedException", "NoSuchLockException"
_META, _NO_OBJECT, _EXISTS = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
_BAD_OBJECT, _BAD_OPERATION = "InvalidObjectException", "InvalidOperationException"
_TABLE_ERRORS = (_EXISTS, _BAD_OBJECT, _META, _NO_OBJECT)


_CONSTRAINT_CALLS: Mapping[str, tuple[type[ThriftStruct], type[ThriftStruct]]] = MappingProxyType(
    {
        "get_not_null_constraints": (ConstraintsRequest, NotNullConstraintsResponse),
        "get_default_constraints": (ConstraintsRequest, DefaultConstraintsResponse),
        "get_check_constraints": (ConstraintsRequest, CheckConstraintsResponse),
        "get_all_table_constraints": (AllTableConstraintsRequest, AllTableConstraintsResponse),  # Hive 4
    }
)
"""Request and answer of each call about constraints."""

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "getVersion": _call(answer=TEXT),
        "get_config_value": _call(
            (1, "name", TEXT), (2, "defaultValue", TEXT), answer=TEXT, errors=("ConfigValSecurityException",)
        ),
        # A lost answer to open_txns leaves transactions that time out; asking again is safe.
        "open_txns": _call((1, "rqst", struct_of(OpenTxnRequest)), answer=struct_of(OpenTxnsResponse)),
        "abort_txn": _call((1, "rqst", struct_of(AbortTxnRequest)), errors=(_NO_TXN,)),
        "commit_txn": _call(
            (1, "rqst", struct_of(CommitTxnRequest)), errors=(_NO_TXN, _ABORTED), retryable=False
        ),
        "get_open_txns": _call(answer=struct_of(GetOpenTxnsResponse)),
        "get_open_txns_info": _call(answer=struct_of(GetOpenTxnsInfoResponse)),
        "heartbeat_txn_range": _call(
            (1, "txns", struct_of(HeartbeatTxnRangeRequest)), answer=struct_of(HeartbeatTxnRangeResponse)
        ),
        "get_valid_write_ids": _call(
            (1, "rqst", struct_of(GetValidWriteIdsRequest)),
            answer=struct_of(GetValidWriteIdsResponse),
            errors=(_NO_TXN, _META),
        ),
        "add_write_ids_to_min_history": _call(
            (1, "txnId", I64), (2, "writeIds", map_of(TEXT, I64)), errors=(_META,)
        ),
        # A transaction keeps its id for a table, a second record of one partition says nothing new.
        "allocate_table_write_ids": _call(
            (1, "rqst", struct_of(AllocateTableWriteIdsRequest)),
            answer=struct_of(AllocateTableWriteIdsResponse),
            errors=(_NO_TXN, _ABORTED, _META),
        ),
        "add_dynamic_partitions": _call(
            (1, "rqst", struct_of(AddDynamicPartitions)), errors=(_NO_TXN, _ABORTED)
        ),
        "get_max_allocated_table_write_id": _call(
            (1, "rqst", struct_of(MaxAllocatedTableWriteIdRequest)),
            answer=struct_of(MaxAllocatedTableWriteIdResponse),
            errors=(_META,),
        ),
        "repl_tbl_writeid_state": _call((1, "rqst", struct_of(ReplTblWriteIdStateRequest))),
        "seed_txn_id": _call((1, "rqst", struct_of(SeedTxnIdRequest)), errors=(_META,), retryable=False),
        # A duplicate request lives as long as its transaction, which never waits for itself.
        "lock": _call(
            (1, "rqst", struct_of(LockRequest)), answer=struct_of(LockResponse), errors=(_NO_TXN, _ABORTED)
        ),
        "check_lock": _call(
            (1, "rqst", struct_of(CheckLockRequest)),
            answer=struct_of(LockResponse),
            errors=(_NO_TXN, _ABORTED, _NO_LOCK),
        ),
        "unlock": _call((1, "rqst", struct_of(UnlockRequest)), errors=(_NO_LOCK, "TxnOpenException")),
        "show_locks": _call((1, "rqst", struct_of(ShowLocksRequest)), answer=struct_of(ShowLocksResponse)),
        "compact2": _call(
            (1, "rqst", struct_of(queue_protocol.CompactionRequest)),
            answer=struct_of(queue_protocol.CompactionResponse),
            retryable=False,
        ),
        "show_compact": _call(
            (1, "rqst", struct_of(queue_protocol.ShowCompactRequest)),
            answer=struct_of(queue_protocol.ShowCompactResponse),
        ),
        # A job whose answer was lost is found by its worker's name, and marked as failed.
        "find_next_compact2": _call(
            (1, "rqst", struct_of(queue_protocol.FindNextCompactRequest)),
            answer=struct_of(queue_protocol.OptionalCompactionInfo),
            errors=(_META,),
            retryable=False,
        ),
        "update_compactor_state": _call(
            (1, "cr", struct_of(queue_protocol.CompactionInfo)), (2, "txn_id", I64)
        ),
        "set_hadoop_jobid": _call((1, "jobId", TEXT), (2, "cq_id", I64)),
        "mark_compacted": _call((1, "cr", struct_of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "mark_failed": _call((1, "cr", struct_of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "mark_refused": _call((1, "cr", struct_of(queue_protocol.CompactionInfo)), errors=(_META,)),
        "abort_Compactions": _call(
            (1, "rqst", struct_of(queue_protocol.AbortCompactionRequest)),
            answer=struct_of(queue_protocol.AbortCompactResponse),
        ),
        # Files that are told twice are the same files.
        "fire_listener_event": _call(
            (1, "rqst", struct_of(FireEventRequest)),
            answer=struct_of(FireEventResponse),
        ),
        "add_write_notification_log": _call(
            (1, "rqst", struct_of(WriteNotificationLogRequest)),
            answer=struct_of(WriteNotificationLogResponse),
        ),
        "get_all_databases": _call(answer=_TEXTS, errors=(_META,)),
        "get_database": _call((1, "name", TEXT), answer=struct_of(Database), errors=(_NO_OBJECT, _META)),
        "create_database": _call(
            (1, "database", struct_of(Database)), errors=(_EXISTS, _BAD_OBJECT, _META), retryable=False
        ),
        "drop_database": _call(
            (1, "name", TEXT),
            (2, "deleteData", BOOL),
            (3, "cascade", BOOL),
            errors=(_NO_OBJECT, _BAD_OPERATION, _META),
            retryable=False,
        ),
        "get_tables_by_type": _call(
            (1, "db_name", TEXT), (2, "pattern", TEXT), (3, "tableType", TEXT), answer=_TEXTS, errors=(_META,)
        ),
        "get_table_req": _call(
            (1, "req", struct_of(GetTableRequest)),
            answer=struct_of(GetTableResult),
            errors=(_META, _NO_OBJECT),
        ),
        **{
            name: _call(
                (1, "request", struct_of(request)), answer=struct_of(answer), errors=(_META, _NO_OBJECT)
            )
            for name, (request, answer) in _CONSTRAINT_CALLS.items()
        },
        "create_table_with_environment_context": _call(
            (1, "tbl", struct_of(Table)),
            (2, "environment_context", struct_of(EnvironmentContext)),
            errors=_TABLE_ERRORS,
            retryable=False,
        ),
        "create_table_req": _call(
            (1, "request", struct_of(CreateTableRequest)), errors=_TABLE_ERRORS, retryable=False
        ),
        "drop_table_with_environment_context": _call(
            (1, "dbname", TEXT),
            (2, "name", TEXT),
            (3, "deleteData", BOOL),
            (4, "environment_context", struct_of(EnvironmentContext)),
            errors=(_NO_OBJECT, _META),
            retryable=False,
        ),
        "alter_table_with_environment_context": _call(
            (1, "dbname", TEXT),
            (2, "tbl_name", TEXT),
            (3, "new_tbl", struct_of(Table)),
            (4, "environment_context", struct_of(EnvironmentContext)),
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "alter_table_req": _call(
            (1, "req", struct_of(AlterTableRequest)),
            answer=struct_of(AlterTableResponse),
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "add_partitions": _call(
            (1, "new_parts", list_of(struct_of(Partition))),
            answer=I32,
            errors=(_BAD_OBJECT, _EXISTS, _META),
            retryable=False,
        ),
        "get_partitions": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "max_parts", I16),
            answer=list_of(struct_of(Partition)),
            errors=(_NO_OBJECT, _META),
        ),
        "get_partitions_by_names": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "names", _TEXTS),
            answer=list_of(struct_of(Partition)),
            errors=(_META, _NO_OBJECT),
        ),
        "alter_partition_with_environment_context": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "new_part", struct_of(Partition)),
            (4, "environment_context", struct_of(EnvironmentContext)),
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "alter_partitions_req": _call(
            (1, "req", struct_of(AlterPartitionsRequest)),
            answer=struct_of(AlterPartitionsResponse),
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "drop_partition_with_environment_context": _call(
            (1, "db_name", TEXT),
            (2, "tbl_name", TEXT),
            (3, "part_vals", _TEXTS),
            (4, "deleteData", BOOL),
            (5, "environment_context", struct_of(EnvironmentContext)),
            answer=BOOL,
            errors=(_NO_OBJECT, _META),
            retryable=False,
        ),
    }
)
