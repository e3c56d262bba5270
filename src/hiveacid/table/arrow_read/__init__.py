"""Rows of a snapshot, read by Arrow in this process: for programs without Spark, and for changes of few rows.

The steps of a read:

1. `condition_grammar` parses a condition in SQL into a predicate, and `filters` makes an expression of Arrow of it that
   selects the rows that Spark would select.
2. `files_to_open` drops partitions that the filter excludes, lists the others by the code that Spark's scan
   also uses, and plans the files to read (``core.snapshot.scan_plan``).
3. `record_batches` reads the files in order, and drops the rows that the filter does not select. For ORC, `files_to_open`
   skips stripes by their statistics, and `orc_file` reads the needed columns of the others. `stored_to_table_types` corrects
   values that Arrow reads differently from Hive. `parquet_file` reads Parquet files.
4. Of a full ACID table, `live_rows` drops rows of write ids that are not valid, and deleted rows, whose keys it looks up.
   If files have update events (Hive 2 and older), it finds the newest version of each row.
"""
