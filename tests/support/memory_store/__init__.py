"""The reference store: every rule in its plainest form, in one process.

One class for each large port, composed by ``store``: ``catalog``, ``compaction_queue``, ``locks``. Transactions, write
ids, commit records and streams are in ``store`` itself. ``state`` holds the plain lists and dictionaries and the
lock that every verb takes (:func:`~support.memory_store.state.synchronized`), so that each verb is atomic.

Nothing survives the process. The contract tests and the simulation compare the other stores with this one.
"""
