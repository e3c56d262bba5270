"""Transactions, locks and write ids in a SQL database; a module per method or small group of methods.

- begin: ``begin_txn`` → ``txn_rows``, ``lock_queue``, ``snapshots``, ``write_ids``
- commit: ``commit_txn`` → conflicts (:mod:`hiveacid.core.transactions.locks_and_conflicts`), catalog changes,
  ``commit_records``
- heartbeats, and the end without a commit: ``heartbeats_and_aborts``
- ``begin_commit_pipelined`` carries out the usual begin and the usual commit in one round trip on PostgreSQL.

Invariants:

- A transaction's row is locked while a verb changes what belongs to it, so that it cannot end in between.
- A commit with updates or deletes holds the counter of the commit sequence until its end: sequence numbers become
  visible in order, and the next committer sees all earlier changes.
- A transaction id below the highest one whose row is not visible counts as open.
"""
