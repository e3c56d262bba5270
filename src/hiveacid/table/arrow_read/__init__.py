"""Rows of a snapshot, read by Arrow in this process: for programs without Spark, and for small UPDATE, DELETE and MERGE statements.

The steps of a read:

1. `snapshot` drops partitions that the filter excludes (`pruning`), lists the others with the code of Spark's scan, and
   names the files to read.
2. `scan` reads them in order. `orc_file` reads stripes in C++, only the columns that are needed, and `pruning` skips stripes by
   their statistics. `file_values` turns stored values into the table's, `flat_files` reads the other formats.
3. `delete_matching` drops deleted rows by comparing keys as vectors. `orc.arrow_arrays` drops rows of write ids that are not
   valid. `acid_v1` keeps the newest version of each row where files have update events.

`conditions`, `comparisons`, `arithmetic` and `truth` make a filter from a condition in SQL, with the types and the order of Spark.
"""
