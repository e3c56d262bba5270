"""Writes as native Spark plans: rows are staged as flat ORC files, then published as ACID files.

Main flow: ``column_casts`` gives new rows the table's columns, and adds NOT NULL and CHECK constraints to the plan.
``update_delete_merge_rows`` gives changed rows an action, and narrows large targets of MERGE; ``last_changes`` prepares
a streaming query's batch of changes by key for it. ``changes_of_arrow_rows`` judges the rows of small statements, and
computes their new values. ``sort_and_stage`` shuffles, sorts and writes delete events and new rows in one job.
``write_tasks`` chooses the tasks of an INSERT, writes by Spark and counts; ``staged_files`` compares the counts with
the files that the driver finds, and joins files of tasks. ``table.write.publish`` gives the files their names.
``rebalance_compaction`` serves compaction.

Invariants: no write makes rows visible, only the commit of the write id does. The rows of a file are in key order, with
one file for each bucket and directory. No plan needs a Python worker.
"""
