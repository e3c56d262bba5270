"""Refusal of Parquet timestamps without a zone, which Spark reads right only where its JVM runs in UTC.

Hive and Spark store an instant. pandas, DuckDB and TIMESTAMP_NTZ store a wall clock (``isAdjustedToUTC=false``). Both
come out of Spark's reader as TIMESTAMP, so the conversion from the JVM's zone would shift the wall clock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pyarrow as pa
from pyarrow import parquet

from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import has_primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.file_range import FileRange
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.read.scan_source import ScanSource, row_files
from hiveacid.storage.snapshot_locations import Location, map_in_threads


def refuse_wall_clocks(source: ScanSource, locations: Sequence[Location]) -> None:
    """Refuse Parquet files whose timestamps Spark would shift. Raises UnsupportedFeatureError with the file's name.

    Reads all footers, but only if the table has a timestamp column and the JVM's zone is not UTC.
    """
    table, env = source.table, source.env
    names = {c.name for c in table.columns if has_primitive(parse_type(c.type), {"timestamp"})}
    if not names or file_kind(table.storage) is not FileKind.PARQUET:
        return
    zone = env.jvm_time_zone
    if env.zones.are_alike(env.spark, zone, "UTC"):
        return
    files = tuple((file.path, file.length) for location in locations for file in row_files(source)(location))
    found = source.memo.get((*sorted(names), files), lambda: _first_wall_clock(source.fs, files, names))
    if found is not None:
        path, column = found
        raise UnsupportedFeatureError(
            f"{path}: column {column} holds timestamps without a time zone, which Spark shifts in a JVM of the zone {zone}: "
            "start the session with -Duser.timezone=UTC in spark.driver.extraJavaOptions and "
            "spark.executor.extraJavaOptions, or read the table with hiveacid.open"
        )


def _first_wall_clock(
    fs: FileSystem, files: Sequence[tuple[str, int]], names: Collection[str]
) -> tuple[str, str] | None:
    """Return the first file that has timestamps without a zone, and the column; None if there is none."""
    if not files:
        return None
    columns = map_in_threads(lambda file: _wall_clock(fs, *file, names), files, files[0][0])
    return next(((path, c) for (path, _), c in zip(files, columns, strict=True) if c is not None), None)


def _wall_clock(fs: FileSystem, path: str, size: int, names: Collection[str]) -> str | None:
    """Return the first of the columns ``names`` that holds timestamps without a zone, at any depth."""
    try:
        with parquet.ParquetFile(pa.PythonFile(FileRange(fs, path, size), mode="r")) as file:
            leaves = [file.schema.column(index) for index in range(len(file.schema))]
    except pa.ArrowException:  # no Parquet file: Spark's reader says so
        return None
    for leaf in leaves:
        kind = json.loads(leaf.logical_type.to_json())
        if kind.get("Type") == "Timestamp" and not kind["isAdjustedToUTC"]:
            for name in names:
                if f"{leaf.path.lower()}.".startswith(f"{name}."):
                    return name
    return None
