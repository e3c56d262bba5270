"""Databases, tables, partitions and views in a SQL database.

Each definition is one JSON text (``definitions``), so that a new field needs no migration. ``tables`` also applies the
catalog changes of a commit, in the commit's own transaction of the database.

Invariants: tables and views share their names; no location of a table or partition meets another one's, and none holds a
database's (``places``). A verb that records a name or a location holds the key ``locations``, so that two clients do so
one after the other.
"""
