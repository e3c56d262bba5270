"""Transaction store and catalog in a SQL database: SQLite, PostgreSQL, MariaDB or MySQL.

``store.SqlStore`` inherits the verbs of the ports, one base class for each module that implements some.
``database`` runs the statements: the URL, connections, transactions of the database, retries with back-off while a server is
away, the expiry of a client's transactions, and errors without passwords. ``dialects`` holds all that differs between
the databases. ``schema`` declares the tables, and the texts of definitions; ``store`` creates and upgrades them.

- begin: ``begin_and_commit`` → ``txns_and_locks``, ``snapshots_and_write_ids``
- commit: ``begin_and_commit`` → conflicts (:mod:`hiveacid.core.transactions.locks_and_conflicts`), catalog changes,
  ``commit_records`` (a table's history, and the progress of streams)
- ``begin_commit_pipelined`` joins the statements of the usual begin and of the usual commit for one round trip on PostgreSQL.
- ``compaction_queue``: the queue, its history and the jobs of lost workers.
- ``housekeeping``: heartbeats, the end without a commit, the register of services, and the removal of old rows.
- ``catalog``: databases, tables, partitions, views.

Invariants:

- A transaction's row is locked while a verb changes what belongs to it, so that it cannot end in between.
- A commit with updates or deletes holds the counter of the commit sequence until its end: sequence numbers become
  visible in order, and the next committer sees all earlier changes.
- A transaction id below the highest one whose row is not visible counts as open.
- A verb is one transaction of the database, or one statement. Its rows are locked before a rule is applied to them.
- A verb whose answer was lost is safe to repeat, or leaves a mark (``database.write_exactly_once``) that shows it was done.
- Times come from the database where it is a server, and from the client's clock for SQLite.
"""
