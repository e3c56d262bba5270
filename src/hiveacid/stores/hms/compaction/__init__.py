"""The compaction queue of a metastore.

``queue_port`` implements the port of the compaction queue, and refuses what only Hive's own services do. ``queue_calls`` makes
the calls. Workers of hiveacid take jobs from a metastore of Hive 4; a metastore of Hive 3 has no calls for that.
"""
