"""Transaction store and catalog in a SQL database: SQLite, PostgreSQL, MariaDB or MySQL.

``store.SqlStore`` inherits the verbs of the ports, one base class for each module that implements some.
``database`` runs the statements: connections, transactions of the database, retries with back-off while a server is
away, the expiry of a client's transactions, and errors without passwords. ``dialects`` holds all that differs between
the databases. ``schema`` declares the tables, ``migrations`` creates and upgrades them.

- ``transactions``: begin, snapshots, locks, write ids, commit, abort, commit records, stream progress.
- ``compaction_queue``: the queue, its history and the jobs of lost workers.
- ``maintenance``: the register of services, the partitions with changes, and the removal of old rows.
- ``catalog``: databases, tables, partitions, views; ``stored_definitions``: their texts and locations.

Invariants:

- A verb is one transaction of the database, or one statement. Its rows are locked before a rule is applied to them.
- A verb whose answer was lost is safe to repeat, or leaves a mark (``database.write_exactly_once``) that shows it was done.
- Times come from the database where it is a server, and from the client's clock for SQLite.
"""
