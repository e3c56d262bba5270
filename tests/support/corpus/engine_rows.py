"""Rows of hiveacid and of the golden tables in one spelling, so that they can be compared.

A row is a dict: numbers as numbers (decimals as Decimal, NaN as text), dates and timestamps as text without
trailing zeros, binary as ``{"hex": …}``, complex values as JSON has them. ``IDENTITY`` holds the row id.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from support.corpus.golden_tables import Golden, RowId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Row = dict[str, Any]

IDENTITY = "row__id"
_COMPLEX = ("array", "map", "struct")
_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # what Hive 3 prints for NULL in a string partition column
_BARE_KEY = re.compile(r"([{,])(-?\d+):")  # Hive's JSON leaves numbers bare as keys of maps


def rows_of(frame: DataFrame) -> list[Row]:
    """Collect what hiveacid read; ``ROW__ID`` becomes a RowId under ``IDENTITY``."""
    columns, complex_columns = [], set()
    for field in frame.schema.fields:
        kind, column = field.dataType.typeName(), F.col(f"`{field.name}`")
        if field.name == "ROW__ID":
            columns.append(column.alias(IDENTITY))
            continue
        if kind in _COMPLEX:
            complex_columns.add(field.name)
            column = F.to_json(column, {"ignoreNullFields": "false"})
        elif kind.startswith("timestamp"):
            column = F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
        elif kind == "date":
            column = column.cast("string")
        columns.append(column.alias(field.name))
    return [
        {name: _spelled(name, value, complex_columns) for name, value in row.asDict(recursive=True).items()}
        for row in frame.select(*columns).collect()
    ]


def _spelled(name: str, value: Any, complex_columns: set[str]) -> Any:
    if name == IDENTITY:
        return RowId(value["writeid"], value["bucketid"], value["rowid"])
    if name in complex_columns:
        return None if value is None else json.loads(value)
    return plain(value)


def plain(value: Any) -> Any:
    """Spell one value that is not complex."""
    if isinstance(value, (bytes, bytearray)):
        return {"hex": bytes(value).hex()}
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.", value):
        return value.rstrip("0").rstrip(".")
    return value


def hive_rows(golden: Golden, schema: StructType) -> list[Row]:
    """Return what Hive read, spelled as `rows_of` does; ``schema`` is the table's."""
    kinds = {field.name: field.dataType.typeName() for field in schema.fields}
    return [
        {
            name: _hive(kinds.get(name, ""), name, value)
            for name, value in row.items()
            if name != "input__file__name"
        }
        for row in golden.rows
    ]


def _hive(kind: str, name: str, value: Any) -> Any:
    if name == IDENTITY:
        return RowId(value["writeid"], value["bucketid"], value["rowid"])
    if value is None or value == _DEFAULT_PARTITION:
        return None
    if kind in _COMPLEX:
        return json.loads(_BARE_KEY.sub(r'\1"\2":', value))
    return Decimal(value) if kind == "decimal" else plain(value)


def trino_rows(golden: Golden, schema: StructType) -> list[Row]:
    """Return what Trino read (it shows no row ids), spelled as `positional` does."""
    kinds = {field.name: field.dataType.typeName() for field in schema.fields}
    return [
        {name: _trino(kinds[name], value) for name, value in row.items() if not name.startswith("$")}
        for row in golden.rows
    ]


def _trino(kind: str, value: str | None) -> Any:
    if value is None:
        return None
    match kind:
        case "boolean":
            return value == "true"
        case "byte" | "short" | "integer" | "long":
            return int(value)
        case "float":  # Trino prints the shortest text of a 32-bit number
            return plain(struct.unpack("f", struct.pack("f", float(value)))[0])
        case "double":
            return plain(float(value))
        case "decimal":
            return Decimal(value)
        case "binary":
            return {"hex": value.removeprefix("0x")}
        case "array" | "map" | "struct":
            return json.loads(value)
    return plain(value)


def positional(rows: Iterable[Row], schema: StructType) -> list[Row]:
    """Spell structs as lists, as Trino does."""
    kinds = {field.name: field.dataType for field in schema.fields}
    return [{name: _unnamed(value, kinds.get(name)) for name, value in row.items()} for row in rows]


def _unnamed(value: Any, kind: Any) -> Any:
    if value is None or kind is None:
        return value
    match kind.typeName():
        case "struct":
            return [_unnamed(value[field.name], field.dataType) for field in kind.fields]
        case "array":
            return [_unnamed(item, kind.elementType) for item in value]
        case "map":
            return {key: _unnamed(item, kind.valueType) for key, item in value.items()}
    return value


def same(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a form in which equal sets of rows are equal lists, with readable differences."""
    return sorted(repr({name: _numeric(row[name]) for name in sorted(row)}) for row in rows)


def _numeric(value: Any) -> Any:
    """Return a decimal by its number: engines keep different numbers of zeros behind it in memory."""
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def without_ids(rows: Iterable[Row]) -> list[Row]:
    """Return the rows without their row ids."""
    return [{name: value for name, value in row.items() if name != IDENTITY} for row in rows]


def assert_as_the_engine_read(golden: Golden, rows: Iterable[Row], schema: StructType) -> None:
    """Compare rows (with row ids, of full-ACID tables) with what the engine read; ``schema``: theirs."""
    if not golden.engine.startswith("trino"):
        expected = hive_rows(golden, schema)
        assert same(rows) == same(expected if golden.transactional == "full" else without_ids(expected)), (
            golden
        )
        return
    read = positional(rows, schema)
    assert same(without_ids(read)) == same(trino_rows(golden, schema)), golden
    places = {tuple(text.split("=")[0] for text in (m["partition"] or "").split("/")) for m in golden.merged}
    (columns,) = places  # partition columns; Trino's tables here need no escaping
    keys = [
        {"key": ("/".join(f"{name}={row[name]}" for name in columns if name), row[IDENTITY])} for row in read
    ]
    assert same(keys) == same({"key": (m["partition"] or "", m["row_id"])} for m in golden.merged), golden
