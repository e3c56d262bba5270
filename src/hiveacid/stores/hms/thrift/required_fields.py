"""Required fields of the metastore's answers: those that this package reads without a check for None."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "OpenTxnsResponse": ("txn_ids",),
        "GetOpenTxnsResponse": ("txn_high_water_mark", "open_txns"),
        "TxnInfo": ("id", "state", "user", "hostname"),
        "GetOpenTxnsInfoResponse": ("txn_high_water_mark", "open_txns"),
        "HeartbeatTxnRangeResponse": ("aborted", "nosuch"),
        "TableValidWriteIds": ("fullTableName", "writeIdHighWaterMark", "invalidWriteIds"),
        "GetValidWriteIdsResponse": ("tblValidWriteIds",),
        "TxnToWriteId": ("txnId", "writeId"),
        "AllocateTableWriteIdsResponse": ("txnToWriteIds",),
        "MaxAllocatedTableWriteIdResponse": ("maxWriteId",),
        "LockResponse": ("lockid", "state"),
        "ShowLocksResponse": ("locks",),
        "ShowLocksResponseElement": ("lockid", "dbname", "state", "type", "user", "hostname"),
        "StorageDescriptor": ("serdeInfo",),
        "Table": ("tableName", "dbName", "sd"),
        "Partition": ("values", "sd"),
        "Database": ("name",),
        "GetTableResult": ("table",),
        "ShowCompactResponse": ("compacts",),
        "ShowCompactResponseElement": ("id", "dbname", "tablename", "type", "state"),
        "CompactionResponse": ("id", "state", "accepted"),
        "CompactionInfoStruct": ("id", "dbname", "tablename", "type"),
    }
)
"""By the struct's name in ``hive_metastore.thrift``."""
