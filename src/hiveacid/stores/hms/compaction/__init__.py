"""The compaction queue of a metastore.

``jobs`` implements the port of the compaction queue, and refuses what only Hive's own services do. ``queue`` makes
the calls. Workers of hiveacid take jobs from a metastore of Hive 4; a metastore of Hive 3 has no calls for that.
"""
