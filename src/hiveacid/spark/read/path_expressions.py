"""Expressions over the path of a row's file: the partition values, directory and statement id that the path has."""

from __future__ import annotations

from pyspark.sql import functions as F

from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition
from hiveacid.spark.formats.expressions import Expression
from hiveacid.spark.read.scan_groups import FileGroup

_STATEMENT = r"^delta_[0-9]+_[0-9]+_([0-9]+)$"
FILE_PATH = "_metadata.file_path"


def row_file_name(group: FileGroup) -> Expression:
    """Return the path of a row's file, as an expression."""
    return decoded_path() if group.options.original is None else F.lit(group.options.original)


def decoded_path(path: str = FILE_PATH) -> str:
    """Return a path as it is on disk: ``_metadata`` has URIs, with ``%20`` for a blank."""
    return f"url_decode(replace({path}, '+', '%2B'))"


def partition_key_from_path(table: TableDefinition, group: FileGroup) -> str:
    """Return a row's `partition_key`, cut out of the path of its file."""
    count = len(table.partition_columns)
    name = f"substring_index({_last_components(group.depth + count)}, '/', {count})"
    return decoded_path(name) if group.decode else name


def top_directory(group: FileGroup) -> str:
    """Return the first path component below a row's location: ``delta_A_B…``, ``base_N…``, or a file of the root."""
    return f"substring_index({_last_components(group.depth)}, '/', 1)"


def statement_id_from_path(depth: int) -> str:
    """Return the statement id in the directory name of a row's file, 0 if it has none.

    ``depth``: path components of the file below its location.
    """
    statement = f"regexp_extract(substring_index({_last_components(depth)}, '/', 1), '{_STATEMENT}', 1)"
    return f"if({statement} = '', 0, CAST({statement} AS INT))"


def _last_components(components: int) -> str:
    return f"substring_index({FILE_PATH}, '/', -{components})"


def partition_value_from_path(group: FileGroup, from_end: int) -> str:
    """Return a partition value, cut out of the path of a row's file; ``from_end``: 1 is the last partition column."""
    segment = f"substring_index({_last_components(group.depth + from_end)}, '/', 1)"
    value = f"substr({segment}, instr({segment}, '=') + 1)"
    if group.decode:
        # once for the URI in which Spark names files, once for Hive's own escaping of directory names
        value = decoded_path(decoded_path(value))
    # not nullif, which Spark 4 evaluates in a projection below that needs all columns of the row
    return f"if({value} = '{DEFAULT_PARTITION}', NULL, {value})"
