"""Apply a column mapping (``core.schema.evolution``): the fields to request from Spark's ORC reader, and the columns.

Files whose columns have no usable names are read by position. Inside an ACID file's ``row`` Spark must then request
every field. If it left some out, it would read the values of other fields (see ``spark.read.acid_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column
from hiveacid.core.schema.evolution import ColumnMapping, ColumnSource
from hiveacid.core.schema.types import parse_type, quote_name
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named
from hiveacid.spark.formats.time_zones import from_file
from hiveacid.spark.formats.types import cut_to_length, spark_type
from hiveacid.spark.session.capabilities import SparkEnvironment

ORC = "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat"
"""Spark's own ORC reader and writer, by the name that ``spark.sql.orc.impl`` and the list of V1 sources can't turn."""
POSITIONAL = {"orc.force.positional.evolution": "true"}


def requested_fields(mapping: ColumnMapping, path: str) -> T.StructType:
    """Return the fields to request from the reader; ``path``: one of the files, for errors. Raises BadFileError."""
    if mapping.positional is None:
        asked = [(source.name, source.type) for source in mapping.columns if source.name is not None]
    else:
        asked = [(f"c{index}", kind) for index, kind in enumerate(mapping.positional)]
    try:
        return T.StructType([T.StructField(name, spark_type(kind)) for name, kind in asked])
    except UnsupportedFeatureError as error:
        raise BadFileError(f"a column cannot be read by position: {error}", path=path) from error


def reader_options(mapping: ColumnMapping) -> dict[str, str]:
    """Return the reader options that a mapping needs."""
    return {} if mapping.positional is None else dict(POSITIONAL)


def table_columns(
    env: SparkEnvironment,
    mapping: ColumnMapping,
    columns: Sequence[Column],
    prefix: str,
    path: str,
    keep: str | None = None,
) -> list[Expression]:
    """Return the table's columns; ``prefix``: text before the names of the requested fields (``row.``).

    ``keep``: an expression that is never NULL, and that each column needs.

    ORC would look for a pushed ``row.id`` inside the struct ``row`` of an ACID file, and skip rows by the statistics of the
    field ``id`` of a user's own column ``row``. Beside such a column no field is a plain path, so that no session, whatever
    its settings are when the plan runs, pushes a comparison of one down.
    """
    misread = prefix and any(f"{source.name}.".lower() == prefix for source in mapping.columns)

    def value(source: ColumnSource, column: Column) -> Expression:
        field = prefix + quote_name(source.name or "")
        if keep is not None:
            field = f"CASE WHEN {keep} IS NOT NULL THEN {field} END"
        elif misread:
            field = f"coalesce({field}, {field})"
        return _value(env, source, column, field, path)

    return [
        named(value(source, column), column.name)
        for source, column in zip(mapping.columns, columns, strict=True)
    ]


def _value(
    env: SparkEnvironment, source: ColumnSource, column: Column, field: Expression, path: str
) -> Expression:
    want = parse_type(column.type)
    if source.problem is not None:  # an error only if the column is used: the other columns can be read
        return F.raise_error(F.lit(f"[HIVEACID_FORMAT] {source.problem}: {path}")).cast(spark_type(want))
    if source.name is None:
        return cast("NULL", spark_type(want))
    value = field
    if source.type != want:
        value = cast(value, spark_type(want))  # names of fields only: structs are cast by position
    if source.cut:
        value = cut_to_length(as_column(value), want)
    return from_file(env, value, column.type)
