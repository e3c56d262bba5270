"""Ports: Protocols for every external dependency.

The layers above call transactions, locks, the catalog, storage and the clock through these Protocols only. Adapters
in :mod:`hiveacid.stores` and :mod:`hiveacid.storage` implement them. Value types live in the module of the port that
takes or returns them.

- :class:`~hiveacid.ports.store.TransactionStore` is the union of the ports that one store implements: transactions,
  write ids, locks, compaction queue. :class:`~hiveacid.ports.store.OwnStore` is one of hiveacid's own: it also keeps the
  progress of streams, registers services, and is maintained by them.
- Every adapter of the store and of :class:`~hiveacid.ports.catalog.Catalog` passes ``tests/support/contract/suites.py``.
- Times are milliseconds since the epoch, durations are seconds; names of databases, tables and columns are lower case.
- Import from the module of the port; this package re-exports nothing.
"""
