"""Tables without Spark or Java: reads by Arrow, appends by the streaming writer.

`warehouse` opens a warehouse, and `table` has the methods of its tables. The steps of a read:

1. `table` takes a read transaction from the leases of the connection, or shares one.
2. `snapshot` drops partitions that the filter excludes (`pruning`), lists the others with the code of Spark's scan, and
   names the files to read.
3. `scan` reads them in order. `orc_file` reads stripes in C++, only the columns that are needed, and `pruning` skips stripes by
   their statistics. `file_values` turns stored values into the table's, `flat_files` reads the other formats.
4. `delete_matching` drops deleted rows by comparing keys as vectors. `orc.arrow_arrays` drops rows of write ids that are not
   valid. `acid_v1` keeps the newest version of each row where files have update events.

A filter is an expression of pyarrow. `conditions` makes one from SQL text, `polars_source` from a Polars predicate;
`scan.TableDataset` receives one from DuckDB. The filter is applied to every row; pruning only avoids reading.
"""
