"""Read a table as a Polars frame, without Spark or Java.

    pip install 'hiveacid[polars]'
    python examples/polars.py WAREHOUSE TABLE COLUMN

Prints the rows of each value of a column. Only that column is read.
"""

from __future__ import annotations

import sys

import hiveacid

# This file has the name of the package: import the package, not this file.
sys.path = [path for path in sys.path if not path.endswith("examples")]

import polars as pl  # noqa: E402 - after the line above


def main(warehouse: str, table: str, column: str) -> None:
    """Print a count for each value."""
    with hiveacid.open(warehouse) as wh:
        rows = wh.table(table).to_polars()
        print(rows.group_by(column).agg(pl.len().alias("rows")).sort(column).collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
