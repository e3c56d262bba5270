"""Transactions as their owner sees them, their heartbeats, and the leases of readers.

`Transactions.scope` runs one statement: it begins a transaction, takes locks and the snapshot, and commits at the end.
`Transaction` is the handle of an open one, and `PendingCommit` collects what its commit writes.
`Heartbeats` keeps open transactions alive from a background thread. `ReadLeases` keeps the transaction of a snapshot open as
long as a DataFrame made from it can run, so that the cleaner leaves its files.

Invariants: files are published before the commit, and the commit in the store comes last. A transaction that a
heartbeat finds aborted raises TransactionAbortedError at its next step.
"""
