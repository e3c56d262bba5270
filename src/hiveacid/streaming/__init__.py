"""Rows into transactional tables without Spark: Hive's Streaming Ingest API (version 2) in Python."""

from hiveacid.streaming.connection import Connection, Statistics
from hiveacid.streaming.query import QueryStream
from hiveacid.streaming.records import (
    ArrowWriter,
    DelimitedWriter,
    DictWriter,
    JsonWriter,
    RecordWriter,
    RegexWriter,
    Reject,
)

__all__ = [
    "ArrowWriter",
    "Connection",
    "DelimitedWriter",
    "DictWriter",
    "JsonWriter",
    "QueryStream",
    "RecordWriter",
    "RegexWriter",
    "Reject",
    "Statistics",
]
