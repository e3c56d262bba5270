"""Facts about the events and rows of a table, by file and by partition, computed in the JVM.

Python receives one row for each file, part of a file, or partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.acid_columns import (
    BUCKET_SHIFT,
    DELETE_EVENT,
    MAX_BUCKET,
    ROW_ID_PARTS,
    VERSION_SHIFT,
    AcidColumn,
    Range,
)
from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.check_findings import EventFacts
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.bucket_hash_expressions import bucket_number
from hiveacid.spark.formats.file_columns import ORC
from hiveacid.spark.read.acid_rows import ABSENT_FIELD, EVENT_COLUMNS, root_type, row_validity
from hiveacid.spark.read.partition_lookup import decoded_path
from hiveacid.spark.read.scan_source import STRICT_READ, escape_globs
from hiveacid.spark.session.environment import SparkEnvironment

_PLACE, _FILE, _BLOCK = "__hiveacid_partition", "__hiveacid_file", "__hiveacid_block"
_KEY = ("write_id", "property", "row_id")
_BOTH_VERSIONS = 1 + 2  # of the bucket hash: the sum minus one version is the other one
# Always true. It keeps all six root columns in the scan even if they are not used (`scan`), and is not pushed down.
_KEEP_COLUMNS = f"coalesce({EVENT_COLUMNS}, {AcidColumn.ROW}.`{ABSENT_FIELD}`, 0) > -9223372036854775807"


@dataclass(frozen=True)
class DuplicateRowIds:
    """Row ids that occur more than once in a location: their number, and one of them."""

    place: str
    ids: int
    sample: tuple[int, int, int]


# events, file by file ----------------------------------------------------------------------------


def event_facts(env: SparkEnvironment, files: Sequence[str]) -> dict[str, EventFacts]:
    """Return the facts about the events of files (Spark URIs), by their URI with decoded escapes.

    A file whose row ids ascend with the position is in order. All other files are checked row by row.
    """
    if not files:
        return {}
    parts: dict[str, list[Row]] = defaultdict(list)
    for row in _events(env, files).groupBy(_FILE, _BLOCK).agg(*_aggregates()).collect():
        parts[row[_FILE]].append(row)
    doubtful = [path for path, rows in parts.items() if not _is_sorted(rows)]
    unsorted = _count_unsorted(env, doubtful)
    return {path: replace(_merge_facts(rows), unsorted=unsorted.get(path, 0)) for path, rows in parts.items()}


def _events(env: SparkEnvironment, files: Sequence[str]) -> DataFrame:
    number = F.col(AcidColumn.BUCKET)
    frame = (
        env.spark.read.schema(root_type(T.StructType()))
        .options(**STRICT_READ)
        .format(ORC)
        .load(escape_globs(files))
    )
    return frame.where(F.expr(_KEEP_COLUMNS)).select(
        F.expr(decoded_path()).alias(_FILE),
        F.col("_metadata.file_block_start").alias(_BLOCK),
        F.monotonically_increasing_id().alias("position"),
        F.col(AcidColumn.OPERATION).alias("operation"),
        F.col(AcidColumn.ORIGINAL_WRITE_ID).alias("write_id"),
        number.alias("property"),
        F.col(AcidColumn.ROW_ID).alias("row_id"),
        F.col(AcidColumn.CURRENT_WRITE_ID).alias("current"),
        F.shiftrightunsigned(number, VERSION_SHIFT).alias("version"),
        _decode_bucket(number).alias("decoded"),
    )


def _decode_bucket(number: SparkColumn) -> SparkColumn:
    """Decode the bucket of a bucket property (``BucketCodec``: the three top bits are the version)."""
    bucket = F.shiftright(number, BUCKET_SHIFT).bitwiseAND(MAX_BUCKET)
    return F.when(F.shiftrightunsigned(number, VERSION_SHIFT) == 0, number).otherwise(bucket)


def _aggregates() -> list[SparkColumn]:
    keys = ("operation", "write_id", "property", "row_id", "current")
    ranges = {name: F.col(name) for name in (*keys, "decoded")}
    ranges["step"] = F.col("position") - F.col("row_id")
    counts = {
        "nulls": reduce(lambda left, right: left | right, [F.col(name).isNull() for name in keys]),
        "bad_codec": F.col("version") > 1,
        "borrowed": F.col("write_id") != F.col("current"),
    }
    return [
        F.count(F.lit(1)).alias("rows"),
        *(F.min(value).alias(f"low_{name}") for name, value in ranges.items()),
        *(F.max(value).alias(f"high_{name}") for name, value in ranges.items()),
        *(F.count_if(value).alias(name) for name, value in counts.items()),
    ]


def _merge_facts(rows: Sequence[Row]) -> EventFacts:
    def span(name: str) -> Range | None:
        lows = [row[f"low_{name}"] for row in rows if row[f"low_{name}"] is not None]
        highs = [row[f"high_{name}"] for row in rows if row[f"high_{name}"] is not None]
        return Range(min(lows), max(highs)) if lows else None

    def total(name: str) -> int:
        return sum(row[name] for row in rows)

    return EventFacts(
        total("rows"), span("operation"), span("write_id"), span("current"), span("decoded"),
        nulls=total("nulls"), bad_codec=total("bad_codec"), borrowed=total("borrowed"),
        properties=span("property"), row_ids=span("row_id"),
    )  # fmt: skip


def _is_sorted(rows: Sequence[Row]) -> bool:
    """Tell whether the parts of a file prove its order: each has one write id and property, and no gap in its row ids."""
    ordered = sorted(rows, key=lambda row: row[_BLOCK])
    if any(row["nulls"] or row["low_step"] != row["high_step"] for row in ordered):
        return False
    if any(row[f"low_{name}"] != row[f"high_{name}"] for row in ordered for name in ("write_id", "property")):
        return False
    return all(
        tuple(before[f"high_{name}"] for name in _KEY) <= tuple(after[f"low_{name}"] for name in _KEY)
        for before, after in pairwise(ordered)
    )


def _count_unsorted(env: SparkEnvironment, files: Sequence[str]) -> dict[str, int]:
    """Count, by file, the rows whose key is below that of the row before."""
    if not files:
        return {}
    window = Window.partitionBy(_FILE).orderBy(_BLOCK, "position")
    key = F.struct(*(F.col(name) for name in _KEY))
    seen = _events(env, files).select(_FILE, key.alias("key"), F.lag(key).over(window).alias("before"))
    unsorted = seen.where("key < before").groupBy(_FILE).count().collect()
    return {row[0]: row[1] for row in unsorted}


# rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionByFile:
    """Location of rows by the path of their file. ``files``: location by plain path (without scheme and escapes)."""

    env: SparkEnvironment
    files: Mapping[str, str]

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the row ids of a frame with `FILE_NAME` and `ROW_ID`, and their locations."""
        rows = [(path, place) for path, place in self.files.items()]
        partitions = self.env.spark.createDataFrame(rows, f"{_FILE} string, {_PLACE} string")
        path = F.regexp_replace(FILE_NAME, "^file:/+", "/")
        named = frame.select(FILE_NAME, ROW_ID, path.alias(_FILE))
        return named.join(F.broadcast(partitions), _FILE, "left").drop(_FILE)


def valid_delete_events(
    env: SparkEnvironment, files: Sequence[str], write_ids: ValidWriteIdList
) -> DataFrame:
    """Return the valid delete events of files: `ROW_ID` and `FILE_NAME`."""
    events = _events(env, files).where(f"coalesce(operation, -1) + 0 = {DELETE_EVENT}")
    events = events.where(row_validity(write_ids, "current"))
    row_id = F.struct(
        *[
            F.coalesce(F.col(name), F.lit(-1)).alias(part)
            for name, part in zip(_KEY, ROW_ID_PARTS, strict=True)
        ]
    )
    return events.select(row_id.alias(ROW_ID), F.col(_FILE).alias(FILE_NAME))


def find_duplicate_row_ids(frame: DataFrame) -> list[DuplicateRowIds]:
    """Return, for each location, the row ids that occur more than once."""
    twice = frame.groupBy(_PLACE, ROW_ID).count().where("count > 1")
    by_partition = twice.groupBy(_PLACE).agg(F.count(F.lit(1)), F.min(ROW_ID)).collect()
    return [DuplicateRowIds(row[0], row[1], (row[2][0], row[2][1], row[2][2])) for row in by_partition]


def count_orphan_deletes(inserts: DataFrame | None, deletes: DataFrame) -> dict[str, int]:
    """Count, by delete file, the events whose row does not exist."""
    lost = deletes
    if inserts is not None:
        lost = deletes.join(inserts.select(_PLACE, ROW_ID), [_PLACE, ROW_ID], "left_anti")
    return {row[0]: row[1] for row in lost.groupBy(FILE_NAME).count().collect()}


@dataclass(frozen=True)
class MisplacedRows:
    """Rows of one file whose hash belongs to another bucket.

    ``explained``: the number of them that are in the right bucket of the other bucketing version.
    """

    rows: int
    explained: int


def count_misplaced_rows(
    env: SparkEnvironment, table: TableDefinition, frame: DataFrame
) -> dict[str, MisplacedRows]:
    """Count, by file, the rows of a bucketed table whose hash belongs to the bucket of another file.

    The bucket of a file is that of its row ids (full ACID), else the number at the start of its name. Raises
    UnsupportedFeatureError for types that cannot be hashed.
    """
    bucketing = table.bucketing
    if bucketing is None:
        return {}
    kinds = {column.name: column.type for column in table.columns}
    columns = [F.col(quote_name(name)) for name in bucketing.columns]
    types = [kinds[name] for name in bucketing.columns]

    def hashed(version: int) -> SparkColumn:
        return bucket_number(env, columns, types, version, bucketing.count).bitwiseAND(MAX_BUCKET)

    wanted = hashed(table.bucketing_version)
    try:
        other_version = hashed(_BOTH_VERSIONS - table.bucketing_version)
    except UnsupportedFeatureError:
        other_version = wanted
    if ROW_ID in frame.columns:
        held = _decode_bucket(F.col(ROW_ID).getField(ROW_ID_PARTS[1]))
    else:
        held = F.regexp_extract(FILE_NAME, r"/0*([0-9]+)_[^/]*$", 1).cast("int").bitwiseAND(MAX_BUCKET)
    wrong = frame.where(wanted != held).groupBy(FILE_NAME)
    counted = wrong.agg(F.count("*"), F.count_if(other_version == held))
    return {row[0]: MisplacedRows(row[1], row[2]) for row in counted.collect()}


def decode_columns(frame: DataFrame, columns: Sequence[str]) -> None:
    """Decode every value of some columns, so that damaged values raise an error."""
    frame.select(*[quote_name(name) for name in columns]).write.format("noop").mode("overwrite").save()
