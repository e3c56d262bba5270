"""The differences between SQLite, PostgreSQL, MariaDB and MySQL; no other module depends on the database.

``dialect.Dialect`` is the interface: engine, transactions, locks by key, ids, and the classification of driver errors.
``registry`` knows all of them, and its docstring has the recipe for a new one. ``tls`` checks the TLS options of a URL. ``pipeline`` sends several statements to PostgreSQL in one round trip.
"""

from __future__ import annotations

from hiveacid.stores.sql.dialects.dialect import Dialect, Durability, ErrorKind, database_now, joined_ids
from hiveacid.stores.sql.dialects.registry import dialect_of

__all__ = ["Dialect", "Durability", "ErrorKind", "database_now", "dialect_of", "joined_ids"]
