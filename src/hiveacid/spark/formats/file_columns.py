"""Columns of files and directory names as columns of the table, and back.

It applies column mappings (``core.schema.evolution``), and converts time zones and texts.

Files whose columns have no usable names are read by position. Inside an ACID file's ``row`` Spark must then request
every field. If it left some out, it would read the values of other fields (see ``spark.read.acid_rows``).

Hive's TIMESTAMP is a wall-clock reading without a zone; Spark's TIMESTAMP is an instant shown in
``spark.sql.session.timeZone``. ORC files keep the wall clock of the writing JVM, an executor's. If the time zones of
session and JVM differ, values are moved so that the wall clock stays the same: Hive shows what the session shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import DEFAULT_PARTITION, Column, partition_value
from hiveacid.core.schema.evolution import ColumnMapping, ColumnSource
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    LOCAL_TIMESTAMP,
    HiveType,
    Primitive,
    has_primitive,
    parse_type,
    quote_name,
)
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named
from hiveacid.spark.formats.types import convert_primitives, cut_to_length, spark_type, store_cast
from hiveacid.spark.session.environment import SparkEnvironment

ORC = "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat"
"""Spark's own ORC reader and writer, by the name that ``spark.sql.orc.impl`` and the list of V1 sources do not change."""
POSITIONAL = {"orc.force.positional.evolution": "true"}
_ORC_EPOCH_MILLIS = 1_420_070_400_000  # 2015-01-01: ORC timestamps count from there, in the writer's zone
_WALL_CLOCK = "timestamp"
_NOT_PUSHED = frozenset({"float", "double", "string", "varchar", _WALL_CLOCK, LOCAL_TIMESTAMP})
"""Types whose comparisons Spark must not push down to ORC, which decides some otherwise (``spark.predicates.search_argument``)."""

_SCIENTIFIC, _LARGEST_SCALE = 6, 36  # scales from which Java writes exponents, and to which 1 can be added


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
    its settings are when the plan runs, pushes a comparison of one down. Nor is a column of a flat file that has values
    of another type: Spark would cast the value that it is compared with to that type (``OrcFilters.castLiteralValue``),
    which fails for texts. Nor is one of the types `_NOT_PUSHED`: rows would be lost.
    """
    misread = prefix and any(f"{source.name}.".lower() == prefix for source in mapping.columns)

    def value(source: ColumnSource, column: Column) -> Expression:
        field = prefix + quote_name(source.name or "")
        if keep is not None:
            field = f"CASE WHEN {keep} IS NOT NULL THEN {field} END"
        elif misread or (not prefix and (source.converted or _is_not_pushed(source.type))):
            field = f"coalesce({field}, {field})"
        return _value(env, source, column, field, path)

    return [
        named(value(source, column), column.name)
        for source, column in zip(mapping.columns, columns, strict=True)
    ]


def _is_not_pushed(kind: HiveType) -> bool:
    return isinstance(kind, Primitive) and kind.name in _NOT_PUSHED


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


def from_file(env: SparkEnvironment, value: Expression, hive: str) -> Expression:
    """Return a stored value as the session shows it; char is padded as in Hive.

    Returns ``value`` itself if no conversion is needed.
    """
    kind = parse_type(hive)
    zones = _zones(env, kind)
    stored, session = zones or ("", "")

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == "char":
            return F.rpad(item, kind.args[0], " ")
        return F.to_utc_timestamp(F.from_utc_timestamp(item, stored), session)

    kinds = {"char", _WALL_CLOCK} if zones else {"char"}
    return convert_primitives(as_column(value), kind, kinds, leaf) if has_primitive(kind, kinds) else value


def to_file(env: SparkEnvironment, value: Expression, hive: str) -> Expression:
    """Return a session's value converted so that Hive reads the same value from the file that Spark writes.

    Returns ``value`` itself if no conversion is needed.
    """
    kind = parse_type(hive)
    zones, shift = _zones(env, kind), _instant_shift(env, hive)
    stored, session = zones or ("", "")

    def leaf(item: SparkColumn, kind: Primitive) -> SparkColumn:
        if kind.name == LOCAL_TIMESTAMP:
            return F.timestamp_micros(F.unix_micros(item) - F.lit(shift * 1000))
        return F.to_utc_timestamp(F.from_utc_timestamp(item, session), stored)

    kinds = ({_WALL_CLOCK} if zones else set()) | ({LOCAL_TIMESTAMP} if shift else set())
    return convert_primitives(as_column(value), kind, kinds, leaf) if has_primitive(kind, kinds) else value


def _zones(env: SparkEnvironment, kind: HiveType) -> tuple[str, str] | None:
    """Return the zones of files and session; None if the type has no wall clock, or both zones show the same."""
    if env.copies_timestamps or not has_primitive(kind, {_WALL_CLOCK}):
        return None
    stored, session = env.stored_time_zone, env.session_time_zone
    return None if env.zones.are_alike(env.spark, stored, session) else (stored, session)


def _instant_shift(env: SparkEnvironment, hive: str) -> int:
    # A TIMESTAMP_INSTANT counts from 2015 in UTC. Spark writes a TIMESTAMP, which counts from 2015 in the JVM's zone.
    if LOCAL_TIMESTAMP not in hive:
        return 0
    zone = env.spark._jvm.java.util.TimeZone.getTimeZone(env.stored_time_zone)  # type: ignore[union-attr] # noqa: SLF001
    return int(zone.getOffset(_ORC_EPOCH_MILLIS))


def value_text(column: Column) -> str:
    """Return the text that a partition column's value has in directory names, as an expression."""
    name, hive = quote_name(column.name), parse_type(column.type)
    text = f"CAST({name} AS STRING)"
    if isinstance(hive, Primitive) and hive.name == "char":
        return f"rtrim({name})"
    if (
        isinstance(hive, Primitive)
        and hive.name == "decimal"
        and _SCIENTIFIC < hive.args[1] <= _LARGEST_SCALE
    ):
        # Without ANSI mode, a cast makes 0E-8 of 0.00000000. 1 is added, and its digit replaced by 0.
        scale = hive.args[1]
        larger = f"CAST(CAST(abs({name}) AS DECIMAL({scale + 1},{scale})) + 1BD AS STRING)"
        plain = f"concat(if({name} < 0, '-', ''), '0', substring({larger}, 2))"
        return f"if(abs({name}) < 0.000001BD, {plain}, {text})"
    return text


def partition_text(column: Column) -> str:
    """Return a partition column as Hive writes it in directory names (NULL and '' are the default partition)."""
    text = value_text(column)
    return f"if(coalesce({text}, '') = '', '{DEFAULT_PARTITION}', {text})"


def _plain_text(value: object, hive: str) -> str | None:
    """Return the text of a value that Spark would not change: a text, or a canonical whole number; None for any other."""
    if type(value) is str and hive == "string":  # a member of an enum may be printed as another text
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str)) or hive not in INTEGER_TYPES:
        return None
    text = str(value)
    return text if canonical_text(text, hive) == text else None


def _literal(value: object) -> SparkColumn:
    """Return a Python value as a Column; PySpark would read a wall clock in the time zone of this process, not of the session."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return F.lit(str(value)).cast("timestamp_ntz")
    return F.lit(value)


def partition_values_as_text(
    env: SparkEnvironment, columns: Mapping[str, Column], values: Mapping[str, object]
) -> dict[str, str | None]:
    """Return partition values as canonical texts ('01' for an INT column becomes '1').

    None: NULL, the empty text, and the name of the default partition that SHOW PARTITIONS prints. Raises
    SchemaMismatchError, or Spark's error, for a value that is not of its type.
    """
    values = {name: None if value == DEFAULT_PARTITION else value for name, value in values.items()}
    plain = {name: _plain_text(value, columns[name].type) for name, value in values.items()}
    if all(text is not None for text in plain.values()):  # a query takes a job
        return {name: partition_value(text) for name, text in plain.items()}
    single_row = env.spark.sql("SELECT 1")
    given = {name: _literal(value) for name, value in values.items()}
    literals = single_row.select(*[value.alias(name) for name, value in given.items()])
    types = {field.name: field.dataType for field in literals.schema.fields}
    typed = single_row.select(
        *[
            as_column(store_cast(value, types[name], parse_type(columns[name].type), name)).alias(name)
            for name, value in given.items()
        ]
    )
    row = typed.selectExpr(*[f"{value_text(columns[name])} AS {quote_name(name)}" for name in values]).first()
    assert row is not None  # noqa: S101 - one row in, one row out
    texts = {}
    for name in values:
        text = row[name]
        if text is not None and columns[name].type.startswith("char("):
            text = text.rstrip(" ")  # directory names have no padding
        texts[name] = partition_value(text)
    return texts
