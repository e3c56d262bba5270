"""Reading a table: from a transaction's snapshot to a DataFrame.

A read takes these steps:

1. ``table_snapshot`` prunes the partitions, and ``visible_locations`` selects the directories that the snapshot sees.
2. ``core.snapshot.scan_plan`` tells which files are read, and how; ``footers`` reads each ORC footer once, and leaves out
   files that hold no row of a condition.
3. ``table_snapshot`` loads delete events as a bitmap where they fit into memory.
4. ``spark.read`` makes the plan.

``history_and_time_travel`` turns a write id or a timestamp into a valid write-id list. ``change_feed`` reads the changes that
were committed between two such lists. ``history_and_time_travel`` and ``inventory`` need no Spark.

Invariants: the snapshot is fixed before any directory is listed. After listing, `Transaction.require_open_in_store`
checks that the transaction is still open; otherwise the cleaner may have removed files that it reads.
"""
