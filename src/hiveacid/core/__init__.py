"""Decisions as pure functions: standard library only, no clock, no files, no Spark, no SQL.

- ``model``: identifiers and definitions
- ``format``: names and texts of Hive's layout, parsed and formatted
- ``schema``: types, partitions, bucket hashes
- ``snapshot``: the directories and files of a listing that a snapshot reads
- ``transactions``: lock rules, write conflicts, states, commit records
- ``compaction``: when and what to compact, and what may be deleted
- ``read_costs``: who reads the rows that a statement changes
- ``predicates``: conditions on columns as trees of comparisons, and what bounds of values say about them

Invariants: a function's result depends on its arguments only, so that every rule is tested without a store or Spark.
Rules that follow Hive name Hive's class.
"""
