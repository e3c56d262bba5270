"""The differences between SQLite, PostgreSQL, MariaDB and MySQL; no other module depends on the database.

``dialect.Dialect`` is the interface: engine, transactions, locks by key, ids, and the classification of driver errors.
``pipeline`` sends several statements to PostgreSQL in one round trip. A new dialect is a module of this package and an entry
in `dialect_of`; ``stores.sql.database`` holds the variables with passwords that its driver reads.
"""

from __future__ import annotations

from sqlalchemy import URL

from hiveacid.errors import ConfigError
from hiveacid.stores.sql.dialects.dialect import Dialect, Durability, ErrorKind, database_now, joined_ids
from hiveacid.stores.sql.dialects.mariadb_and_mysql import MariadbDialect
from hiveacid.stores.sql.dialects.postgres import PostgresDialect
from hiveacid.stores.sql.dialects.sqlite import SqliteDialect

__all__ = ["Dialect", "Durability", "ErrorKind", "database_now", "dialect_of", "joined_ids"]


def dialect_of(url: URL) -> Dialect:
    """Return the dialect of a URL. Raises ConfigError for a database we do not know."""
    dialects: dict[str, type[Dialect]] = {
        "sqlite": SqliteDialect,
        "postgresql": PostgresDialect,
        "mysql": MariadbDialect,
        "mariadb": MariadbDialect,
    }
    dialect = dialects.get(url.get_backend_name())
    if dialect is None:
        msg = f"a transaction store on {url.get_backend_name()!r} is not supported: {', '.join(dialects)}"
        raise ConfigError(msg)
    return dialect()
