"""Writes as native Spark plans: rows are staged as flat ORC files, then published as ACID files.

Main flow: ``column_casts`` gives new rows the table's columns, and adds NOT NULL constraints to the plan.
``update_delete_merge_rows`` (with ``merge_narrowing`` for MERGE into large targets) gives changed rows an action;
``changes_of_arrow_rows`` judges the rows of small statements, and computes their new values. ``sort_and_stage`` shuffles, sorts and writes
delete events and new rows in one job. ``merge_cardinality`` is MERGE's check in this job. ``task_reports`` writes
by Spark and counts, ``staged_files`` compares the counts with the files that the driver finds. ``table.write.publish``
gives the files their names. ``distribution`` chooses the tasks of an INSERT. ``rebalance_compaction`` and ``splice_task_files`` serve
compaction; ``last_change_per_key`` serves streaming queries.

Invariants: no write makes rows visible, only the commit of the write id does. The rows of a file are in key order, with
one file for each bucket and directory. No plan needs a Python worker.
"""
