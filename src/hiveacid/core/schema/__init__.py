"""Definitions of tables: types, columns and their evolution, partitions, bucket hashes, storage formats.

``types`` parses Hive, Spark and Trino type texts. ``evolution`` maps a table's columns to those of an older file.
``partitions`` formats partition names; ``bucket_hash`` is the reference of Hive's bucket hash. ``location_overlap``,
``storage_formats`` and ``show_create`` hold one rule set each.

Invariants: a type or partition text has one canonical form, and parsing what was printed returns the same value.
"""
