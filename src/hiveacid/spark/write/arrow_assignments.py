"""New values of an UPDATE for rows in Arrow's memory, computed by Spark.

Spark takes the rows as a local relation, so that no job reads or writes files. Columns whose values could change on the way
to Spark and back (times, char, nested types) are not passed; an expression that names one raises NoSuchColumnError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.types import is_primitive, parse_type
from hiveacid.errors import NoSuchColumnError, UnsupportedFeatureError
from hiveacid.orc.stored_values import is_beyond_arrow, to_stored_values
from hiveacid.spark.formats.driver_frames import (
    ROUND_TRIP_TYPES,
    collect_within_limit,
    frame_of_arrow,
    schema_of,
)
from hiveacid.spark.formats.expressions import Expression, cast, named, selected, shows_columns
from hiveacid.spark.parser.lexer import mentions, tokenize
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.write.update_delete_merge_rows import assigned_values

ASSIGNABLE_TYPES = ROUND_TRIP_TYPES | {"char", "timestamp"}
"""Types of columns that may be set."""
_TEXT_TYPES = frozenset({"string", "varchar", "char", "binary"})
_PLAIN_VALUE = re.compile(r"[\w.`]+|'[^'\\$]{0,100}'")  # a column, a number, NULL or a short text
# Rows whose new texts may have any length: measuring them first costs a second query. A job needs as much memory for so
# few. With 200 texts of 2 MB and a heap of 1 GB, the driver ran out of memory where a job succeeds.
_FEW_ROWS = 20
_MANY_TASKS = 1000
_INDEX = "__hiveacid_index"
# Microseconds of 1582-10-15. Spark moves earlier times that its calendar does not have, such as 1582-10-10.
_GREGORIAN = -12_219_292_800_000_000
_GAP = (-141_437, -141_427)  # days of 1582-10-05 and 1582-10-15, between which that calendar has none
_FIRST_DAY = -719_162  # day of 0001-01-01


def compute_assignments(
    facts: SparkFacts,
    table: TableDefinition,
    rows: Any,
    assignments: Mapping[str, Expression],
    name: str | TableName,
) -> Any:
    """Return the new values as an Arrow table with at least the assigned columns, in the order of the rows.

    ``rows``: an Arrow table of all columns. ``name``: by which expressions call the table (`called`). Raises Spark's errors,
    and UnsupportedFeatureError or ArrowException for rows that Arrow would write otherwise than Spark, or that take too much memory.
    """
    types = {column.name: column.type for column in table.columns}
    text = " ".join(str(value) for value in assignments.values()).lower()
    columns = table.all_columns
    round_trip = {column.name for column in columns if is_primitive(column.type, ROUND_TRIP_TYPES)}
    # Spark would take the name of a column that is not passed for a variable, or a function such as ``user``.
    hidden = [_INDEX, *(column.name for column in columns if column.name not in round_trip)]
    not_passed = mentions(tokenize(text), hidden)
    if not_passed or not all(map(shows_columns, assignments.values())):
        raise NoSuchColumnError(f"the new values may use columns that are not passed to Spark: {text}")
    passed = [column for column in columns if column.name in round_trip and may_mention(column.name, text)]
    numbered = rows.select([column.name for column in passed]).append_column(
        _INDEX, pa.array(np.arange(rows.num_rows))
    )
    schema = T.StructType([*schema_of(passed).fields, T.StructField(_INDEX, T.LongType())])
    frame = frame_of_arrow(facts, numbered, schema)
    grown = columns_that_grow(table, [assignments], rows.num_rows)
    if grown:  # else Spark's optimizer would compute the values of a local relation in the driver's memory
        frame = frame.coalesce(_MANY_TASKS)
    valued, values = assigned_values(table, called(facts, frame, name), assignments)
    # A file holds the wall clock that the session shows.
    new = [
        named(cast(value, T.TimestampNTZType()) if types[name] == "timestamp" else value, name)
        for name, value in values.items()
    ]
    computed: Any = selected(valued, [_INDEX, *new])  # its analysis finds the errors of expressions
    if not rows.num_rows:
        return rows  # none, with all columns
    result = collect_within_limit(facts, computed, [column.name for column in grown])
    if result is None:
        raise UnsupportedFeatureError("the new values take too much of the driver's memory")
    result = result.sort_by(_INDEX)
    for column in table.columns:
        require_writable(column, (result if column.name in assignments else rows).column(column.name))
    return result


def columns_that_grow(
    table: TableDefinition, assignments: Iterable[Mapping[str, Expression]], rows: int
) -> list[Column]:
    """Return the columns whose new texts may be much longer than all texts of the rows, of which there are ``rows``."""
    if rows <= _FEW_ROWS:
        return []
    computed = {
        name
        for values in assignments
        for name, value in values.items()
        if not (isinstance(value, str) and _PLAIN_VALUE.fullmatch(value.strip()))
    }
    return [c for c in table.columns if c.name in computed and is_primitive(c.type, _TEXT_TYPES)]


def require_writable(column: Column, values: Any) -> None:
    """Check that Arrow writes the values of a column, a chunked array, as a job would.

    Raises UnsupportedFeatureError for times that Spark may move or Arrow stores wrongly; ArrowException for texts whose
    bytes Arrow cannot cut.
    """
    kind = parse_type(column.type)
    for chunk in values.chunks:
        to_stored_values(chunk, kind)  # only for its errors
        if is_beyond_arrow(chunk, kind, in_slices=True):
            raise UnsupportedFeatureError(f"{column.name} has values that Arrow's ORC writer stores wrongly")
    if pa.types.is_timestamp(values.type) and (pc.min(values.cast(pa.int64())).as_py() or 0) < _GREGORIAN:
        raise UnsupportedFeatureError(f"{column.name} has a time before 1582-10-15")
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32())
        in_gap = pc.and_(pc.greater_equal(days, _GAP[0]), pc.less(days, _GAP[1]))
        if pc.any(pc.or_(in_gap, pc.less(days, _FIRST_DAY))).as_py():
            raise UnsupportedFeatureError(f"{column.name} has a day that Spark stores as another one")


def may_mention(column: str, text: str) -> bool:
    """Tell whether a text of expressions may name a column: by its name, or with escapes between back-quotes."""
    return column.lower() in text or not column.isidentifier()
