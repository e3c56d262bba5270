"""Last change of each key in the batch of a streaming query, and the id of that query."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hiveacid.core.model import Column
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import (
    as_column,
)
from hiveacid.spark.formats.types import DATA_ERROR, assignment_cast

OP = "__hiveacid_op"
"""Column: `UPSERT` or `DELETE`."""
UPSERT, DELETE = "u", "d"

_UPSERTS = ("insert", "i", "c", "r", "update", "u", "update_after", "update_postimage", "upsert")
_DELETES = ("delete", "d")
_IGNORED = ("update_before", "update_preimage")
_RANK, _TIE = "__hiveacid_rank", "__hiveacid_tie"


def query_id(frame: DataFrame) -> str | None:
    """Return the id of the streaming query of a batch, which the checkpoint keeps; None outside a streaming query."""
    identifier: str | None = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return identifier


def last_changes(
    frame: DataFrame,
    keys: Sequence[str],
    change_type: str | None,
    sequence_by: str | None,
    stored: Column | None = None,
) -> DataFrame:
    """Return the last change of each key, with the column `OP`.

    ``change_type``: the column with the kind of change; None if all rows are upserts. ``sequence_by``: the column that
    orders the changes of a key. ``stored``: the table's column of that name, whose type orders them first, as it does across
    batches: 9 comes before 10 even if the frame has texts. Reading the rows raises DataError for an unknown kind of
    change, and for several changes of one key without an order.
    """
    action: SparkColumn = F.lit(UPSERT)
    if change_type is not None:
        kind = F.lower(F.trim(F.col(quote_name(change_type)).cast("string")))
        frame = frame.where(F.coalesce(~kind.isin(*_IGNORED), F.lit(True)))  # noqa: FBT003
        unknown = _error(
            F.lit(f"{change_type} = "),
            F.coalesce(kind, F.lit("NULL")),
            F.lit(" is not a kind of change: use insert, update or delete"),
        )
        action = F.when(kind.isin(*_UPSERTS), UPSERT).when(kind.isin(*_DELETES), DELETE).otherwise(unknown)
    columns = [F.col(quote_name(key)) for key in keys]
    window = Window.partitionBy(*columns)
    if sequence_by is None:
        rank, tie = F.row_number().over(window.orderBy(*columns)), F.count(F.lit(1)).over(window) > 1
        how = "it is unknown which is the last: pass sequence_by=COLUMN"
    else:
        orders = [F.col(quote_name(sequence_by))]
        if stored is not None:
            have = frame.select(orders[0]).schema[0].dataType
            orders.insert(0, as_column(assignment_cast(orders[0], have, stored)))
        ordered, place = window.orderBy(*(order.desc_nulls_last() for order in orders)), F.struct(*orders)
        rank, follows = F.row_number().over(ordered), F.lead(place).over(ordered)
        tie = follows.isNotNull() & follows.eqNullSafe(place)
        how = f"{sequence_by} is the same in the last two"
    key = F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), _as_text(name)) for name in keys))
    ambiguous = _error(F.lit("several changes of "), key, F.lit(f" in one batch, and {how}"))
    numbered = frame.select("*", rank.alias(_RANK), tie.alias(_TIE)).where(F.col(_RANK) == 1)
    return numbered.withColumn(OP, F.when(F.col(_TIE), ambiguous).otherwise(action)).drop(_RANK, _TIE)


def _as_text(name: str) -> SparkColumn:
    return F.coalesce(F.col(quote_name(name)).cast("string"), F.lit("NULL"))


def _error(*message: SparkColumn) -> SparkColumn:
    return F.raise_error(F.concat(F.lit(DATA_ERROR), *message)).cast("string")
