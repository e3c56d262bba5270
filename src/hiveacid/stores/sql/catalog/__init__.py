"""Databases, tables, partitions and views in a SQL database.

Each definition is one JSON text (``definitions``), so that a new field needs no migration. ``tables`` also applies the
catalog changes of a commit, in the commit's own transaction of the database.

Invariants: tables and views share their names, and no table's location lies inside another's. A verb that
creates or renames one holds the key ``locations``, so that two clients do so one after the other.
"""
