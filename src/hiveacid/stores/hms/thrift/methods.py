"""Calls of the metastore's interface that hiveacid makes: arguments, answer, errors, and whether they may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hiveacid.stores.hms.thrift import protocol, queue_protocol
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
    kind_of,
    list_of,
    map_of,
    struct,
)

_TEXTS = list_of(TEXT)
# every exception of the metastore has its message in field 1
ExceptionMessage = struct("ExceptionMessage", (1, "message", TEXT))


def _method(
    *,
    answer: Kind | type[ThriftStruct] | None = None,
    errors: tuple[str, ...] = (),
    retryable: bool = True,
    **arguments: Kind | type[ThriftStruct],
) -> Method:
    """Declare a method. The interface numbers the arguments, and the errors, from 1 in their order."""
    numbers = range(1, len(errors) + 1)
    fields: list[tuple[int, str, Kind | type[ThriftStruct]]]
    fields = [(number, f"o{number}", ExceptionMessage) for number in numbers]
    if answer is not None:
        fields.append((0, "success", answer))
    # Not required are a text, which Java leaves out if it is null, and a struct without fields.
    is_answer_required = answer is not None and answer != TEXT and not is_empty(kind_of(answer))
    return Method(
        struct("Arguments", *((number, *argument) for number, argument in enumerate(arguments.items(), 1))),
        struct("Answer", *fields, required=("success",) if is_answer_required else ()),
        MappingProxyType(dict(zip(numbers, errors, strict=True))),
        retryable,
    )


_NO_TXN, _ABORTED, _NO_LOCK = "NoSuchTxnException", "TxnAbortedException", "NoSuchLockException"
_META, _NO_OBJECT, _EXISTS = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
_BAD_OBJECT, _BAD_OPERATION = "InvalidObjectException", "InvalidOperationException"
_TABLE_ERRORS = (_EXISTS, _BAD_OBJECT, _META, _NO_OBJECT)


_CONSTRAINT_CALLS: Mapping[str, tuple[type[ThriftStruct], type[ThriftStruct]]] = MappingProxyType(
    {
        "get_not_null_constraints": (protocol.ConstraintsRequest, protocol.NotNullConstraintsResponse),
        "get_default_constraints": (protocol.ConstraintsRequest, protocol.DefaultConstraintsResponse),
        "get_check_constraints": (protocol.ConstraintsRequest, protocol.CheckConstraintsResponse),
        "get_all_table_constraints": (
            protocol.AllTableConstraintsRequest,
            protocol.AllTableConstraintsResponse,
        ),  # Hive 4
    }
)
"""Request and answer of each call about constraints."""

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "getVersion": _method(answer=TEXT),
        "get_config_value": _method(
            name=TEXT, defaultValue=TEXT, answer=TEXT, errors=("ConfigValSecurityException",)
        ),
        # A lost answer to open_txns leaves transactions that time out; a repeated call is safe.
        "open_txns": _method(rqst=protocol.OpenTxnRequest, answer=protocol.OpenTxnsResponse),
        "abort_txn": _method(rqst=protocol.AbortTxnRequest, errors=(_NO_TXN,)),
        "commit_txn": _method(rqst=protocol.CommitTxnRequest, errors=(_NO_TXN, _ABORTED), retryable=False),
        "get_open_txns": _method(answer=protocol.GetOpenTxnsResponse),
        "get_open_txns_info": _method(answer=protocol.GetOpenTxnsInfoResponse),
        "heartbeat_txn_range": _method(
            txns=protocol.HeartbeatTxnRangeRequest, answer=protocol.HeartbeatTxnRangeResponse
        ),
        "get_valid_write_ids": _method(
            rqst=protocol.GetValidWriteIdsRequest,
            answer=protocol.GetValidWriteIdsResponse,
            errors=(_NO_TXN, _META),
        ),
        "add_write_ids_to_min_history": _method(txnId=I64, writeIds=map_of(TEXT, I64), errors=(_META,)),
        # Both can be repeated: a transaction keeps its write id of a table, and a partition that is recorded twice counts once.
        "allocate_table_write_ids": _method(
            rqst=protocol.AllocateTableWriteIdsRequest,
            answer=protocol.AllocateTableWriteIdsResponse,
            errors=(_NO_TXN, _ABORTED, _META),
        ),
        "add_dynamic_partitions": _method(rqst=protocol.AddDynamicPartitions, errors=(_NO_TXN, _ABORTED)),
        "repl_tbl_writeid_state": _method(rqst=protocol.ReplTblWriteIdStateRequest),
        "seed_txn_id": _method(rqst=protocol.SeedTxnIdRequest, errors=(_META,), retryable=False),
        # It can be repeated: locks of a repeated request end with the transaction, which never waits for its own.
        "lock": _method(rqst=protocol.LockRequest, answer=protocol.LockResponse, errors=(_NO_TXN, _ABORTED)),
        "check_lock": _method(
            rqst=protocol.CheckLockRequest, answer=protocol.LockResponse, errors=(_NO_TXN, _ABORTED, _NO_LOCK)
        ),
        "unlock": _method(rqst=protocol.UnlockRequest, errors=(_NO_LOCK, "TxnOpenException")),
        "show_locks": _method(rqst=protocol.ShowLocksRequest, answer=protocol.ShowLocksResponse),
        "compact2": _method(
            rqst=queue_protocol.CompactionRequest, answer=queue_protocol.CompactionResponse, retryable=False
        ),
        "show_compact": _method(
            rqst=queue_protocol.ShowCompactRequest, answer=queue_protocol.ShowCompactResponse
        ),
        # A job whose answer was lost is found by its worker's name, and marked as failed.
        "find_next_compact2": _method(
            rqst=queue_protocol.FindNextCompactRequest,
            answer=queue_protocol.OptionalCompactionInfo,
            errors=(_META,),
            retryable=False,
        ),
        "update_compactor_state": _method(cr=queue_protocol.CompactionInfo, txn_id=I64),
        "set_hadoop_jobid": _method(jobId=TEXT, cq_id=I64),
        "mark_compacted": _method(cr=queue_protocol.CompactionInfo, errors=(_META,)),
        "mark_failed": _method(cr=queue_protocol.CompactionInfo, errors=(_META,)),
        "mark_refused": _method(cr=queue_protocol.CompactionInfo, errors=(_META,)),
        "abort_Compactions": _method(
            rqst=queue_protocol.AbortCompactionRequest, answer=queue_protocol.AbortCompactResponse
        ),
        # Files that are sent twice count once.
        "fire_listener_event": _method(rqst=protocol.FireEventRequest, answer=protocol.FireEventResponse),
        "add_write_notification_log": _method(
            rqst=protocol.WriteNotificationLogRequest, answer=protocol.WriteNotificationLogResponse
        ),
        "get_all_databases": _method(answer=_TEXTS, errors=(_META,)),
        "get_database": _method(name=TEXT, answer=protocol.Database, errors=(_NO_OBJECT, _META)),
        "create_database": _method(
            database=protocol.Database, errors=(_EXISTS, _BAD_OBJECT, _META), retryable=False
        ),
        "drop_database": _method(
            name=TEXT,
            deleteData=BOOL,
            cascade=BOOL,
            errors=(_NO_OBJECT, _BAD_OPERATION, _META),
            retryable=False,
        ),
        "get_tables_by_type": _method(
            db_name=TEXT, pattern=TEXT, tableType=TEXT, answer=_TEXTS, errors=(_META,)
        ),
        "get_table_req": _method(
            req=protocol.GetTableRequest, answer=protocol.GetTableResult, errors=(_META, _NO_OBJECT)
        ),
        **{
            name: _method(request=request, answer=answer, errors=(_META, _NO_OBJECT))
            for name, (request, answer) in _CONSTRAINT_CALLS.items()
        },
        "create_table_with_environment_context": _method(
            tbl=protocol.Table,
            environment_context=protocol.EnvironmentContext,
            errors=_TABLE_ERRORS,
            retryable=False,
        ),
        "create_table_req": _method(
            request=protocol.CreateTableRequest, errors=_TABLE_ERRORS, retryable=False
        ),
        "drop_table_with_environment_context": _method(
            dbname=TEXT,
            name=TEXT,
            deleteData=BOOL,
            environment_context=protocol.EnvironmentContext,
            errors=(_NO_OBJECT, _META),
            retryable=False,
        ),
        "alter_table_with_environment_context": _method(
            dbname=TEXT,
            tbl_name=TEXT,
            new_tbl=protocol.Table,
            environment_context=protocol.EnvironmentContext,
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "alter_table_req": _method(
            req=protocol.AlterTableRequest,
            answer=protocol.AlterTableResponse,
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "add_partitions": _method(
            new_parts=list_of(protocol.Partition),
            answer=I32,
            errors=(_BAD_OBJECT, _EXISTS, _META),
            retryable=False,
        ),
        "get_partitions": _method(
            db_name=TEXT,
            tbl_name=TEXT,
            max_parts=I16,
            answer=list_of(protocol.Partition),
            errors=(_NO_OBJECT, _META),
        ),
        "get_partitions_by_names": _method(
            db_name=TEXT,
            tbl_name=TEXT,
            names=_TEXTS,
            answer=list_of(protocol.Partition),
            errors=(_META, _NO_OBJECT),
        ),
        "alter_partition_with_environment_context": _method(
            db_name=TEXT,
            tbl_name=TEXT,
            new_part=protocol.Partition,
            environment_context=protocol.EnvironmentContext,
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "alter_partitions_req": _method(
            req=protocol.AlterPartitionsRequest,
            answer=protocol.AlterPartitionsResponse,
            errors=(_BAD_OPERATION, _META),
            retryable=False,
        ),
        "drop_partition_with_environment_context": _method(
            db_name=TEXT,
            tbl_name=TEXT,
            part_vals=_TEXTS,
            deleteData=BOOL,
            environment_context=protocol.EnvironmentContext,
            answer=BOOL,
            errors=(_NO_OBJECT, _META),
            retryable=False,
        ),
    }
)
