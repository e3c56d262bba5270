"""Query tables by DuckDB's SQL, without Spark or Java.

    pip install 'hiveacid[duckdb]'
    python examples/query_by_duckdb.py WAREHOUSE "SELECT item, sum(qty) FROM sales GROUP BY item"

Every table of the database default has its name in the query. Only the columns and stripes that it needs are read.
"""

from __future__ import annotations

import sys

import duckdb

import hiveacid


def main(warehouse: str, query: str) -> None:
    """Print the result of a query."""
    with hiveacid.open(warehouse) as wh, duckdb.connect() as connection:
        for name in wh.tables():
            connection.register(name, wh.table(name).to_dataset())
        print(connection.sql(query))


if __name__ == "__main__":
    match sys.argv[1:]:
        case [warehouse, query]:
            main(warehouse, query)
        case _:
            sys.exit(f"usage: {sys.argv[0]} WAREHOUSE QUERY")
