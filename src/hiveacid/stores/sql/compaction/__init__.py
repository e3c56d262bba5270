"""The compaction queue in a SQL database.

``queue`` implements the verbs of the port. ``job_states`` reads, locks and updates single rows, and moves jobs on when
transactions end and when time passes. ``candidates`` lists the partitions that the initiator should look at.

Invariants: a job changes its state only by the transitions of :mod:`hiveacid.core.transactions.states`, and only
while its row is locked. The commit of a job's transaction makes it ready for cleaning in the same database transaction.
"""
