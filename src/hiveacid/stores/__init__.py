"""Adapters of the store ports: transactions, locks, write ids, compaction queue and catalog.

- ``sql``: SQLite inside a warehouse, PostgreSQL, MariaDB and MySQL as servers.
- ``hms``: a Hive Metastore 3.1 or 4.x over Thrift.

Each adapter implements :class:`hiveacid.ports.store.WarehouseStore` in one class and passes
``tests/support/contract/suites.py``. ``refusals`` validates arguments before a store looks at its state, and
contains the errors; ``limits`` has the settings that a store applies, and the time for which calls are repeated: all stores share
both. The tests compare them with a store in memory (``tests/support/memory_store``), which has every rule in its plainest form.

Invariants: the rules (lock compatibility, write conflicts, state transitions) are those of :mod:`hiveacid.core`.
No store relies on remembered state that another client may have changed.
"""
