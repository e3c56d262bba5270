"""Decisions about compactions: when, what, in which order, and what may be deleted afterwards.

``initiation_and_retry_policy`` decides whether a location is compacted (Hive's ``Initiator``), ``plan`` which
directories a job reads and writes (``Worker``), ``cleaning_plan`` what may be deleted (``Cleaner``). ``queue_records``:
those of the compaction queue, with the ORDER BY of a rebalance.

Invariants: a compaction covers no write id at or above the lowest open one. Nothing is deleted that an open
transaction may read.
"""
