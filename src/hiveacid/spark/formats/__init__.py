"""File formats and types between Hive and Spark: ORC, text, Avro and Parquet as native Spark expressions.

``types`` maps and casts types strictly: a value that does not fit fails the statement.
``file_columns`` reads ORC files of older schemas, and keeps wall-clock times the same between files and session; ``flat_files``
reads and writes files without ACID columns, with ``text`` for text files. ``bucket_hash_expressions`` computes Hive's
bucket of a row. ``expressions`` builds plans from SQL text, which saves Py4J round trips. ``driver_frames`` makes
frames of rows in Arrow's memory, and evaluates constants and subqueries.

Invariant: Hive reads every stored value as the value that the session showed.
"""
