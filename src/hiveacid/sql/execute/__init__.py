"""Executors: one function for each type of statement, found by ``dispatch``.

An executor takes an ``ExecutionContext`` (connection, transaction, snapshot, callables of the session) and the
statement's value. It resolves names, has pieces of text bound, and calls a verb of `hiveacid.table` or
`hiveacid.catalog`. It returns a DataFrame: Hive's columns for SHOW and DESCRIBE, one row of counts for changes, no
columns for definitions (``context.small_frame``).

``dispatch`` also refuses statements that cannot be part of a transaction, and writes inside a snapshot.
"""
