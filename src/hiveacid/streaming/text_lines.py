r"""Lines of delimited text or JSON as Arrow batches of a table's columns, parsed by Arrow's CSV and JSON readers.

A line holds one record. Empty lines are skipped, but counted, so that the number of a bad record is its line's.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from hiveacid.core.model import Column
from hiveacid.core.schema.types import Map, Primitive, nested_types, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.streaming.records import parse_or_name
from hiveacid.table.cast_to_table_columns import cast, parse_texts, single_batch

# Arrow's JSON parser crashes on a null outside an object, so such lines must not reach it.
_NULL_OUTSIDE_OBJECT = re.compile(rb"^[ \t\r]*+[^\s{]|\}[ \t\r]*+n", re.MULTILINE)


class LineFormat(Protocol):
    """Parser of whole lines. ``blank``: the bytes of which a line that is skipped consists, None for white space."""

    blank: ClassVar[bytes | None]

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for columns that lines of this format cannot hold."""

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Return the records as a batch. Raises ValueError or Arrow's errors if one of them does not fit."""


def parse_lines(form: LineFormat, data: bytes, columns: tuple[Column, ...], first: int) -> Any:
    """Return whole lines as a batch. ``first``: number of the first line. Raises BadRecordError for the first bad line."""

    def parse(lines: Any) -> Any:
        filled = [line for line in lines if line.strip(form.blank)]
        if not filled:
            return pa.RecordBatch.from_pylist([], arrow_schema(columns))
        text = b"\n".join(filled) + b"\n"
        if text.startswith(codecs.BOM_UTF8):  # Arrow drops one there: which line that is depends on the block
            text = codecs.BOM_UTF8 + text
        batch = form.parse(text, columns)
        batch.validate(full=True)  # texts in UTF-8
        if batch.num_rows != len(filled):
            raise ValueError("a line must hold exactly one record")
        return batch

    lines = data.removesuffix(b"\n").split(b"\n")
    return parse_or_name(lines, first, parse, lambda line: line.decode(errors="replace"))


@dataclass(frozen=True)
class DelimitedLines:
    r"""Fields in the order of the columns. ``quote``: around fields with a delimiter, None for no quotes. ``null``: text of NULL.

    A field has no line break. Days are ``2024-02-29``, times ``2024-02-29 12:00:00[.ffffff]``.
    """

    delimiter: str = ","
    quote: str | None = None
    null: str = "\\N"
    blank: ClassVar[bytes | None] = b"\r\n"  # a line of white space is a field, or several between tabs

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for nested columns."""
        _require(columns, lambda column: isinstance(parse_type(column.type), Primitive), "delimited text")

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Parse lines by Arrow's CSV reader, all fields as text."""
        names = [column.name for column in columns]
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, quote_char=self.quote or False, newlines_in_values=False
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[self.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if self.quote and any(pc.any(pc.match_substring(column, "\n")).as_py() for column in table.columns):
            raise ValueError("a field does not end on its line: a quote is open")
        return parse_texts(single_batch(table), columns)


@dataclass(frozen=True)
class JsonLines:
    """One JSON object a line, whose keys are column names in lower case; a missing key is NULL.

    Days and times are texts as in delimited text. ``ignore_unknown``: skip keys that are no columns.
    """

    ignore_unknown: bool = False
    blank: ClassVar[bytes | None] = None

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for columns with maps, which Arrow's JSON reader does not convert."""
        _require(
            columns,
            lambda column: not any(isinstance(part, Map) for part in nested_types(parse_type(column.type))),
            "JSON lines",
        )

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Parse lines by Arrow's JSON reader."""
        schema = arrow_schema(columns)
        plain = pa.schema([pa.field(target.name, _json_type(target.type)) for target in schema])
        if _NULL_OUTSIDE_OBJECT.search(data):
            for line in data.split(b"\n"):
                if line and not isinstance(json.loads(line), dict):
                    raise ValueError("not a JSON object")
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            pyarrow.json.ReadOptions(block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=plain, unexpected_field_behavior="ignore" if self.ignore_unknown else "error"
            ),
        )
        texts = single_batch(table.select(plain.names))
        arrays = [cast(values, target.type) for values, target in zip(texts.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _require(columns: tuple[Column, ...], fits: Callable[[Column], bool], what: str) -> None:
    for column in columns:
        if not fits(column):
            raise UnsupportedFeatureError(
                f"column {column.name} ({column.type}) can't be read from {what}: write it as Arrow data or Python dicts"
            )


def _json_type(of: Any) -> Any:
    """Return the type to parse with: times and binary values, which JSON does not have, are parsed as text.

    FLOAT is parsed as DOUBLE, because the cast refuses numbers beyond its range, and Arrow's parser does not.
    """
    if pa.types.is_temporal(of) or pa.types.is_binary(of):
        return pa.string()
    if pa.types.is_float32(of):
        return pa.float64()
    if pa.types.is_list(of):
        return pa.list_(_json_type(of.value_type))
    if pa.types.is_struct(of):
        return pa.struct([pa.field(target.name, _json_type(target.type)) for target in of])
    return of
