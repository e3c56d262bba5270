"""Writing a table: INSERT, UPDATE, DELETE, MERGE, LOAD DATA and batches of streams.

Every statement locks the table, takes a write id, and stages files below the table. It then publishes them under their
final names (``output_directories``, ``publish``), records the changes in the transaction, and commits. ``write_conflicts``
finds conflicts that the store cannot see, and repeats UPDATE and MERGE with a new snapshot after a conflict.

Small statements need no Spark job that scans or writes: an UPDATE or DELETE of few rows, a ``merge`` with a small source, and
an ``insert`` of listed rows. They read by ``driver_reads`` (a MERGE by ``merge_in_driver``, and ``merge_of_copies``
joins by Arrow) and write by ``arrow_staging``.

Invariants: no file of a statement is visible before its commit. Each statement of a transaction has its own statement
ids, because a delete event hits only rows of smaller ones.
"""
