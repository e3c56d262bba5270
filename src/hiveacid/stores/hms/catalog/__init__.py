"""Databases, tables, partitions, views and constraints of a metastore.

``tables`` implements the catalog port. ``definitions`` converts between the metastore's structs and this project's
values; fields that it does not know survive a change. It also removes the row counts that Hive would answer
``count(*)`` from. ``partitions`` works on many partitions per call.
"""
