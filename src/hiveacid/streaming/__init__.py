"""Streaming into transactional tables without Spark jobs (Hive's Streaming Ingest API, version 2).

A `Connection` begins transactions (`stream_transaction`). Its records become Arrow batches of the table's
columns (`records`), which are split by partition and bucket (`table.write.partitions_and_buckets`).
Each transaction stages one file for each bucket (`table.write.publish`), on any file system. `StreamingQueryWriter` adds
exactly-once batches of a streaming query, and `text_lines.Feeder` feeds a connection lines of files and pipes.

A commit moves the files into directories of its own before the store commits. Files that grow, with a flushed length in a
side file, are read only: Hive's own streaming writes them.
"""

from hiveacid.streaming.connection import Connection, Statistics, StreamingQueryWriter

__all__ = ["Connection", "Statistics", "StreamingQueryWriter"]
