"""Reads as native Spark plans: the scan of a snapshot, and the change feed between two snapshots.

Main flow of `scan_frames.scan`: ``scan_source`` groups the selected files into as few Spark scans as possible. Each group is
read by ``acid_rows`` (ACID files) or ``originals`` (files without ACID columns), and ``partition_lookup`` adds the
partition columns, by the paths of files. Delete events are applied in three steps, the cheapest first:

1. ``delete_events``: data files whose key range no delete event can match are read as they are.
2. ``delete_events``: each row of the other files is looked up in a bitmap of deleted row ids.
3. ``delete_joins``: rows are joined with delete events where no bitmap can be built (very many events).

``delete_joins`` also selects the newest row versions of tables from before Hive 3. ``change_feed`` returns the rows inserted and
deleted between two snapshots. ``row_statistics`` computes the facts that ``check`` compares with the rules of the format.

Invariants: no plan needs a Python worker; every scan keeps the six ACID columns alive; a delete event outside the
bounds fails the query instead of being lost.
"""
