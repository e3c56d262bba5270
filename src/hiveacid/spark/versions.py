"""Rows of ACID v1 (Hive 0.13 to 2.x): updates lie beside inserts, under the key of the row that they change.

Rule of ``OrcRawRecordMerger.ReaderKey`` (internals §3.4): events are merged by key; of each key the one of the
largest current transaction counts, of one transaction a delete before anything else, then that of the highest
statement. Instead of sorting all rows the events alone are gathered: a row is left out where an event of its
key is newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.spark.deletes import KEY_PARTS
from hiveacid.spark.expressions import Expression, named, selected

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_STATEMENT = r"^delta_[0-9]+_[0-9]+_([0-9]+)$"


def statement_of(depth: int) -> str:
    """Return the statement id in the name of the directory that a row lies in, 0 where there is none.

    ``depth``: path components of the file below its location.
    """
    directory = f"substring_index(substring_index(_metadata.file_path, '/', -{depth}), '/', 1)"
    found = f"regexp_extract({directory}, '{_STATEMENT}', 1)"
    return f"if({found} = '', 0, CAST({found} AS INT))"


def versions(events: DataFrame, place: Expression, depth: int) -> DataFrame:
    """Return keys (``__hiveacid_dk``) and versions (``__hiveacid_dv``) of events."""
    version = _version("coalesce(operation, -1) = 2", statement_of(depth))
    return selected(events, [named(_key(place), "__hiveacid_dk"), named(version, "__hiveacid_dv")])


def row_version(place: Expression, statement: str) -> Sequence[Expression]:
    """Return key and version of rows as columns, to be compared by `is_older`."""
    return [named(_key(place), "__hiveacid_k"), named(_version("false", statement), "__hiveacid_v")]


def is_older() -> SparkColumn:
    """Return the condition that a newer event of a row's key exists."""
    same = F.col("__hiveacid_k") == F.col("__hiveacid_dk")
    return same & (F.col("__hiveacid_v") < F.col("__hiveacid_dv"))


def _key(place: Expression) -> Expression:
    if isinstance(place, str):
        return f"struct({KEY_PARTS} AS key, {place} AS place)"
    return F.struct(F.expr(KEY_PARTS).alias("key"), place.alias("place"))


def _version(deletes: str, statement: str) -> str:
    current = "CAST(coalesce(currentTransaction, -1) AS BIGINT)"
    return f"struct({current} AS current, {deletes} AS deletes, {statement} AS statement)"
