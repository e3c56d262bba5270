"""Streaming into transactional tables without Spark jobs (Hive's Streaming Ingest API, version 2).

A `Connection` opens a batch of transactions (`transaction_batch`). Its records become Arrow batches of the table's
columns (`records`), which are split by partition and bucket (`split_by_partition_and_bucket`, `arrow_bucket_hash`).
Each bucket is one file that all transactions of the batch append to (`growing_file`). `StreamingQueryWriter` adds
exactly-once batches of a streaming query, and `line_feeder` feeds a connection lines of files and pipes (`text_lines`).

A commit writes a footer and publishes its length in a side file (``_flush_length``) before the store commits. Readers
therefore never see rows of an open transaction, although the file grows.
"""

from hiveacid.streaming.connection import Connection, Statistics
from hiveacid.streaming.exactly_once_batches import StreamingQueryWriter

__all__ = [
    "Connection",
    "Statistics",
    "StreamingQueryWriter",
]
