"""``format("hiveacid")`` on Spark's Python Data Source API (Spark 4.0 and later).

`register` makes the format known to a session; `hiveacid.connect` calls it if the session supports it.

- Batch (`batch_read_write`): a task of a read reads one file; a task of a write stages one Arrow file. The driver then
  writes all staged files in one transaction.
- Streaming sink (`stream_sink`): the same for each batch of a query. The transaction carries the batch's id, so that a repeated
  batch is written once.
- Streaming source (`stream_source`): a process of the driver finds offsets and files (`stream_offsets`). The tasks read the
  files with the reader of `hiveacid.open` (`change_feed_task`), and `stream_source` pairs deletes and inserts of one key.

Spark starts Python processes for all of this and pickles the objects between them. The objects therefore hold options
only, and each process opens the store itself.
"""

from hiveacid.datasource.registration import can_register, register

__all__ = ["can_register", "register"]
