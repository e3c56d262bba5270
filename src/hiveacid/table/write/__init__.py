"""Writing a table: INSERT, UPDATE, DELETE, MERGE, LOAD DATA and batches of streams.

Every statement locks the table, takes a write id, and stages files below the table. It then publishes them under their
final names (``output_directories``), records the changes in the transaction, and commits. ``conflict_retry`` repeats
UPDATE and MERGE with a new snapshot after a write conflict.

Three modules do without a Spark job that scans or writes: ``small_changes`` for UPDATE and DELETE, ``merge_in_driver``, and
``insert_in_driver`` for listed rows. ``driver_reads`` reads for them, ``arrow_staging`` writes. ``conflict_checks`` finds
conflicts that the store cannot see.

Invariants: no file of a statement is visible before its commit. Each statement of a transaction has its own statement
ids, because a delete event hits only rows of smaller ones.
"""
