"""A SQLite store with very many tables, which nobody would create one by one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from support.samples import ORC

_COPY = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ? - 1)
INSERT INTO hiveacid_tables (database_name, name, definition, location)
SELECT database_name, printf('t%05d', n), replace(definition, 't00000', printf('t%05d', n)),
       replace(location, 't00000', printf('t%05d', n))
FROM hiveacid_tables, numbers WHERE name = 't00000'
"""


def store_of_many_tables(root: Path, count: int) -> SqlStore:
    """Return a store whose database ``big`` has tables ``t00000``, ``t00001`` …; their directories are missing."""
    file = root / "store.db"
    store = SqlStore(sqlite_url(file))
    store.create_database(DatabaseDefinition("big", str(root / "big")))
    name = TableName("big", "t00000")
    columns = (Column("id", "bigint"),)
    location = str(root / "big" / name.name)
    store.create_table(TableDefinition(name, columns, ORC, location, properties=(("transactional", "true"),)))
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(_COPY, (count,))
    connection.close()
    return store
