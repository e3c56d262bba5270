"""Cardinality check of MERGE: a target row that matches more than one source row fails the staging job."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

_MESSAGE = (
    "[HIVEACID_CARDINALITY] a target row matches more than one source row: "
    "make the source unique on the ON condition"
)


def check_merge_cardinality(
    events: DataFrame, row: Sequence[str], *, inserted: str, changed: str
) -> DataFrame:
    """Return the events that are ``changed``; running the frame raises MergeCardinalityError for a second match.

    ``row``: columns that identify the event of a target row; events that agree in them lie in one task, so that the window
    needs no shuffle. ``inserted``: condition of events without a target row.
    """
    unmatched = f"CASE WHEN {inserted} THEN monotonically_increasing_id() END AS __unmatched"
    same_row = ", ".join([*row, "__unmatched"])
    numbered = events.selectExpr(
        "*", unmatched
    ).selectExpr(
        "*",
        f"row_number() OVER (PARTITION BY {same_row} ORDER BY __unmatched) AS __match_number",  # any order will do
    )
    failure = f"CAST(raise_error('{_MESSAGE}') AS BOOLEAN)"
    return numbered.where(f"CASE WHEN __match_number > 1 THEN {failure} ELSE {changed} END")
