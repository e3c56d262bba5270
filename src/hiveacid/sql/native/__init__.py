"""Native sessions: Spark's own ``spark.sql`` on transactional tables.

``session.configure(native=True)`` makes a ``NativeSession``, whose ``sql`` and ``table`` ask `sql.binding.statement_owner`
first. A statement on a table of the hiveacid catalog runs on the ``NativeConnection`` of that session and thread; Spark
runs all others as they are. ``NativeParser`` is injected into the JVM. It sees the statements of streams and of JVM
code, which do not come from Python's session.

``Gateway`` holds the state that all sessions of one application share: the connection to the store and Spark's own
parsers. It also knows the texts that `NativeParser` lets through, because their owner is decided already.
"""
