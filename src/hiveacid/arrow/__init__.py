"""Tables without Spark or Java: reads by Arrow, appends by the streaming writer.

`warehouse` opens a warehouse, and `table` has the methods of its tables. A read takes a read transaction from the
connection's read leases, or shares one of them; `table.arrow_read` reads the rows.

A filter is an expression of pyarrow. `table.arrow_read.condition_grammar` makes it from SQL text, and `query_sources` from a
Polars predicate; DuckDB passes one to its data set. The filter is applied to every row, so pruning only has to save reads.
"""
