"""Structs of the metastore's compaction queue; see ``protocol.py``."""

from __future__ import annotations

from hiveacid.stores.hms.thrift.structs import (
    BOOL,
    I32,
    I64,
    TEXT,
    Kind,
    list_of,
    map_of,
    struct,
    struct_of,
)

_IDS = list_of(I64)
_PROPERTIES = map_of(TEXT, TEXT)

CompactionRequest = struct(
    "CompactionRequest",
    (1, "dbname", TEXT),
    (2, "tablename", TEXT),
    (3, "partitionname", TEXT),
    (4, "type", I32),
    (5, "runas", TEXT),
    (6, "properties", _PROPERTIES),
    (7, "initiatorId", TEXT),
    (9, "poolName", TEXT),
    (10, "numberOfBuckets", I32),
    (11, "orderByClause", TEXT),
)
CompactionResponse = struct(
    "CompactionResponse",
    (1, "id", I64),
    (2, "state", TEXT),
    (3, "accepted", BOOL),
    (4, "errormessage", TEXT),
    required=("id", "state", "accepted"),
)
ShowCompactRequest = struct("ShowCompactRequest")
ShowCompactResponseElement = struct(
    "ShowCompactResponseElement",
    (1, "dbname", TEXT),
    (2, "tablename", TEXT),
    (3, "partitionname", TEXT),
    (4, "type", I32),
    (5, "state", TEXT),
    (6, "workerid", TEXT),
    (7, "start", I64),
    (10, "metaInfo", TEXT),
    (11, "endTime", I64),
    (13, "id", I64),
    (14, "errorMessage", TEXT),
    (15, "enqueueTime", I64),
    (17, "initiatorId", TEXT),
    (20, "poolName", TEXT),
    (21, "nextTxnId", I64),
    (22, "txnId", I64),
    (23, "commitTime", I64),
    (24, "hightestWriteId", I64),
    required=("id", "dbname", "tablename", "type", "state"),
)
ShowCompactResponse = struct(
    "ShowCompactResponse", (1, "compacts", list_of(ShowCompactResponseElement)), required=("compacts",)
)
CompactionInfo = struct(
    "CompactionInfoStruct",
    (1, "id", I64),
    (2, "dbname", TEXT),
    (3, "tablename", TEXT),
    (4, "partitionname", TEXT),
    (5, "type", I32),
    (6, "runas", TEXT),
    (7, "properties", TEXT),
    (10, "workerId", TEXT),
    (12, "highestWriteId", I64),
    (13, "errorMessage", TEXT),
    (17, "poolname", TEXT),
    (18, "numberOfBuckets", I32),
    (19, "orderByClause", TEXT),
    required=("id", "dbname", "tablename", "type"),
)
OptionalCompactionInfo = struct("OptionalCompactionInfoStruct", (1, "ci", CompactionInfo))
FindNextCompactRequest = struct(
    "FindNextCompactRequest", (1, "workerId", TEXT), (2, "workerVersion", TEXT), (3, "poolName", TEXT)
)
AbortCompactionRequest = struct("AbortCompactionRequest", (1, "compactionIds", _IDS))
AbortCompactionElement = struct(
    "AbortCompactionResponseElement", (1, "compactionId", I64), (2, "status", TEXT), (3, "message", TEXT)
)
AbortCompactResponse = struct(
    "AbortCompactResponse",
    (
        1,
        "abortedcompacts",
        Kind(13, (I64.code, I64.arguments, 12, struct_of(AbortCompactionElement).arguments, False)),
    ),
)
