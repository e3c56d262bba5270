"""Transactions, locks and write ids of a metastore.

``transactions`` makes the calls of a transaction's life and converts the answers. It also makes a metastore continue the ids
of a table that comes from another store. ``locks`` makes the calls about locks.
``before_commit`` repeats steps before a commit whose answer was lost, and sends new files to the metastore's listeners.

Invariant: what a transaction writes is recorded in the metastore before the first file exists. Without the record the
metastore looks for no conflict, and forgets an aborted write id while its files may still be there.
"""
