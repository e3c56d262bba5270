"""``format("hiveacid")`` on Spark's Python Data Source API (Spark 4.0 and later).

`register` makes the format known to a session; `hiveacid.connect` calls it where the session can take it.

- Batch (`batch`): the tasks stage Arrow files or read one file each; the driver writes all staged files in one transaction.
- Streaming sink (`sink`): the same for each batch of a query. The transaction carries the batch's id, so that a repeated
  batch is written once.
- Streaming source (`stream_source`): offsets and files are found in a process of the driver, the tasks read the files.

Spark starts Python processes for all of this and pickles the objects between them. They therefore hold options only, and
open the store where they use it.
"""

from hiveacid.datasource.registration import can_register, register

__all__ = ["can_register", "register"]
