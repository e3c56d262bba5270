"""File formats and types between Hive and Spark: ORC, text, Avro and Parquet as native Spark expressions.

``types`` maps and casts types strictly: a value that does not fit fails the statement.
``time_zones`` keeps wall-clock times the same between files and session. ``schema_evolution`` reads ORC files of older
schemas; ``flat_files`` reads and writes files without ACID columns, with ``text`` for text files.
``bucket_hash_expressions`` computes Hive's bucket of a row, on ``java_hash_arithmetic`` where Hive's own class is out of reach.
``expressions`` builds plans from SQL text, which saves Py4J round trips. ``driver_frames`` makes frames of rows in Arrow's
memory.

Invariant: Hive reads every stored value as the value that the session showed.
"""
