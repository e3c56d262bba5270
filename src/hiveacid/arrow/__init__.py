"""Tables without Spark or Java: reads by Arrow, appends by the streaming writer.

`warehouse` opens a warehouse, and `table` has the methods of its tables. A read takes a read transaction from the leases
of the connection, or shares one; `table.arrow_read` reads the rows.

A filter is an expression of pyarrow. `table.arrow_read.conditions` makes one from SQL text, `polars_source` from a Polars
predicate; `dataset` receives one from DuckDB. The filter is applied to every row; pruning only avoids reading.
"""
