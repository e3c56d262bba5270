"""Read a table as a Polars frame, without Spark or Java.

    pip install 'hiveacid[polars]'
    python examples/query_by_polars.py WAREHOUSE TABLE COLUMN

Prints the rows of each value of a column. Only that column is read.
"""

from __future__ import annotations

import sys

import polars as pl

import hiveacid


def main(warehouse: str, table: str, column: str) -> None:
    """Print a count for each value."""
    with hiveacid.open(warehouse) as wh:
        rows = wh.table(table).to_polars()
        print(rows.group_by(column).agg(pl.len().alias("rows")).sort(column).collect())


if __name__ == "__main__":
    match sys.argv[1:]:
        case [warehouse, table, column]:
            main(warehouse, table, column)
        case _:
            sys.exit(f"usage: {sys.argv[0]} WAREHOUSE TABLE COLUMN")
