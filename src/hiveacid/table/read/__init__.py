"""Reading a table: from a transaction's snapshot to a DataFrame.

A read takes these steps:

1. ``scan.list_snapshot`` lists the partitions and selects the directories that the snapshot sees.
2. ``core.snapshot.scan_plan`` tells which files are read, and how; ``footers`` reads each ORC footer once.
3. ``file_skipping`` leaves out files that hold no row of a condition.
4. ``load_delete_bitmap`` loads delete events as a bitmap where they fit into memory.
5. ``spark.read`` makes the plan.

``time_travel`` turns a write id or a timestamp into a valid write-id list. ``change_feed`` reads the changes that were
committed between two such lists. ``table_history`` and ``inventory`` need no Spark.

Invariants: the snapshot is fixed before any directory is listed. After listing, `Transaction.require_open_in_store`
checks that the transaction is still open; otherwise the cleaner may have removed files that it reads.
"""
