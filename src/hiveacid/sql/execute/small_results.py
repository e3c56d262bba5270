"""Small results as DataFrames, built on the driver and, if possible, readable without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.table.write.report import WriteReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Cell = str | int | bool | None
Row = Sequence[Cell]

# Rows as parameters of an inline table are read without a job; each parameter costs about a millisecond.
_MAX_PARAMETERS = 500

WRITTEN = (
    ("num_affected_rows", "bigint"),
    ("num_inserted_rows", "bigint"),
    ("num_updated_rows", "bigint"),
    ("num_deleted_rows", "bigint"),
    ("write_id", "bigint"),
    ("num_retries", "bigint"),
)


def small_frame(facts: SparkFacts, columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> DataFrame:
    """Return rows as a DataFrame; ``columns`` are names with Spark's type texts."""
    if len(columns) * len(rows) > _MAX_PARAMETERS:
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        return facts.spark.createDataFrame([tuple(row) for row in rows], schema)
    names = [f"c{index}" for index in range(len(columns))]
    casts = [f"CAST({own} AS {kind}) AS `{name}`" for own, (name, kind) in zip(names, columns, strict=True)]
    # A first row, filtered away again, gives NULLs and no rows at all their types.
    marked: list[Row] = [[*[None] * len(columns), False], *[[*row, True] for row in rows]]
    values = ", ".join(f"({', '.join(map(_literal_or_mark, row))})" for row in marked)
    text = f"SELECT {', '.join(casts)} FROM VALUES {values} AS t({', '.join(names)}, kept) WHERE kept"
    texts = [cell for row in rows for cell in row if isinstance(cell, str)]
    return facts.spark.sql(text, args=texts) if texts else facts.spark.sql(text)


def _literal_or_mark(cell: Cell) -> str:
    """Return a cell for a text: a string is a parameter, which takes three round trips; others have plain literals."""
    if isinstance(cell, str):
        return "?"
    return "NULL" if cell is None else str(cell)


def string_rows(facts: SparkFacts, columns: Sequence[str], rows: Sequence[Row]) -> DataFrame:
    """Return rows whose columns are all strings."""
    return small_frame(facts, [(name, "string") for name in columns], rows)


def empty_result(facts: SparkFacts) -> DataFrame:
    """Return a DataFrame without columns and rows, for statements without a result."""
    return facts.spark.sql("SELECT 1 WHERE false").select()


def write_result(facts: SparkFacts, *reports: WriteReport) -> DataFrame:
    """Return the counts of a statement's changes as one row; ``write_id`` is NULL if nothing was written."""
    ids = [int(report.write_id) for report in reports if report.write_id is not None]
    row = (
        sum(report.affected for report in reports),
        sum(report.inserted for report in reports),
        sum(report.updated for report in reports),
        sum(report.deleted for report in reports),
        max(ids, default=None),
        sum(report.retries for report in reports),
    )
    return small_frame(facts, WRITTEN, [row])
