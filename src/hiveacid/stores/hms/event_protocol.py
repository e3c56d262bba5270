"""Structs of what a metastore's listeners are told of files (``hive_metastore.thrift``)."""

from __future__ import annotations

from hiveacid.stores.hms.layout import BOOL, I64, TEXT, list_of, of, struct

_TEXTS = list_of(TEXT)

InsertEventRequestData = struct(
    "InsertEventRequestData",
    (1, "replace", BOOL),
    (2, "filesAdded", _TEXTS),
    (3, "filesAddedChecksum", _TEXTS),
    (4, "subDirectoryList", _TEXTS),
)
FireEventRequestData = struct("FireEventRequestData", (1, "insertData", of(InsertEventRequestData)))
FireEventRequest = struct(
    "FireEventRequest",
    (1, "successful", BOOL),
    (2, "data", of(FireEventRequestData)),
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
    (5, "fileInfo", of(InsertEventRequestData)),
    (6, "partitionVals", _TEXTS),
)
WriteNotificationLogResponse = struct("WriteNotificationLogResponse")
