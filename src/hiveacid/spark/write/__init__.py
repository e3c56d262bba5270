"""Writes as native Spark plans: rows are staged as flat ORC files, then published as ACID files.

Main flow: ``column_casts`` gives new rows the table's columns; ``changed_rows`` (UPDATE, DELETE) and ``merge`` (with
``merge_narrowing`` for large targets) give changed rows an action. ``not_null`` adds constraints to the plan.
``staging`` shuffles, sorts and writes delete events and new rows in one job, and ``task_reports`` compares the counts
of the tasks with the files that the driver finds. ``publish`` rewrites the footers and moves the files to their names.
``rebalance`` and ``splicing`` serve compaction; ``stream_batches`` serves streaming queries.

Invariants: no write makes rows visible, only the commit of the write id does. The rows of a file are in key order, with
one file for each bucket and directory. No plan needs a Python worker.
"""
