"""Writing a table: INSERT, UPDATE, DELETE, MERGE, LOAD DATA and batches of streams.

Every statement takes these steps: lock, write id, stage files below the table, publish them under their final names
(``output_directories``), note what was written in the transaction, commit. ``update`` and ``merge`` retry with a new
snapshot after a write conflict. ``conflict_checks`` finds conflicts that the store cannot see.

Invariants: no file of a statement is visible before its commit. Each statement of a transaction has statement ids of
its own, because a delete event reaches only rows of smaller ones.
"""
