"""The compaction queue in a SQL database.

``queue`` implements the verbs of the port. ``job_states`` reads, locks and updates rows.
``lost_workers`` queues the jobs of lost workers again, or lets them fail. ``candidates`` lists the partitions that the initiator should look at.

Invariants: a job changes its state only by the transitions of :mod:`hiveacid.core.transactions.states`, and only
while its row is locked. The commit of a job's transaction makes it ready for cleaning in the same database transaction.
"""
