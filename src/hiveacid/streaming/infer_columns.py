"""Columns of a new table for lines of delimited text or JSON, from a sample of them.

A type is chosen only if all texts of the sample fit it without a loss: ``007`` and numbers of more digits than a BIGINT or a
DOUBLE keeps exactly stay texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import Column
from hiveacid.errors import DataError, UnsupportedFeatureError
from hiveacid.streaming.text_lines import DelimitedLines
from hiveacid.table.cast_to_table_columns import parse_texts

_DATE_AND_TIME = (
    ("date", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    ("timestamp", r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"),
)
_PATTERNS = (
    ("boolean", r"^(true|false)$"),
    ("bigint", r"^(0|-?[1-9][0-9]{0,17})$"),
    ("double", r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?$"),
    *_DATE_AND_TIME,
)
_DIGITS_OF_DOUBLE = 15  # that every DOUBLE keeps
_LARGEST_EXACT = 1 << 53  # of the whole numbers of a DOUBLE
_BIGINT = 1 << 63


def columns_of_text(sample: bytes, form: DelimitedLines) -> tuple[Column, ...]:
    """Return columns with the names of the first line, for delimited text. Raises DataError."""
    lines = sample.decode("utf-8-sig", errors="replace").splitlines()
    if not lines:
        raise DataError("the first file is empty: without a header nothing is known of the columns")
    names = form.header(lines[0])
    columns = tuple(Column(name, "string") for name in names)
    rows = b"\n".join(line for line in sample.split(b"\n")[1:] if line.strip(form.blank))
    if not rows:
        return columns
    try:
        texts = form.parse(rows + b"\n", columns)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"the lines do not fit the header ({', '.join(names)}): {error}") from error
    return tuple(
        Column(column.name, _type_of(values, _PATTERNS))
        for column, values in zip(columns, texts.columns, strict=True)
    )


def columns_of_json(sample: bytes) -> tuple[Column, ...]:
    """Return columns for all keys of JSON objects, in the order in which they come. Raises DataError.

    Raises UnsupportedFeatureError for nested and for mixed values, whose column a person has to choose.
    """
    values: dict[str, list[object]] = {}
    for number, line in enumerate(sample.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"line {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} is not a JSON object")
        for key, value in record.items():
            if key != key.lower():
                raise DataError(f"line {number}: key {key} is not in lower case, as names of columns are")
            values.setdefault(key, []).append(value)
    if not values:
        raise DataError("the first file has no record: nothing is known of the columns")
    return tuple(Column(key, _type_of_json(key, found)) for key, found in values.items())


def _type_of_json(key: str, values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return _type_of(pa.array(values, pa.string()), _DATE_AND_TIME)
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-_BIGINT <= value < _BIGINT for value in values if isinstance(value, int)):
        return "bigint"
    if kinds <= {int, float} and all(abs(one) <= _LARGEST_EXACT for one in values if isinstance(one, int)):
        return "double"
    raise UnsupportedFeatureError(
        f"key {key}: no type is chosen for nested, mixed and very large values: CREATE TABLE by SQL, and leave out --create"
    )


def _type_of(values: pa.Array, patterns: Sequence[tuple[str, str]]) -> str:
    """Return the type that all texts fit; NULL and empty texts, which are NULL in other types, do not count."""
    texts = values.filter(pc.fill_null(pc.not_equal(values, ""), fill_value=False))
    if not len(texts):
        return "string"
    for kind, pattern in patterns:
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py() and _parses(texts, kind):
            return kind
    return "string"


def _parses(texts: pa.Array, kind: str) -> bool:
    """Tell whether texts of the right form are values: 2026-02-30 is none, and a DOUBLE keeps 15 digits."""
    if kind == "double":
        digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[-.]", ""))
        return bool(pc.max(digits).as_py() <= _DIGITS_OF_DOUBLE)
    try:
        parse_texts(pa.RecordBatch.from_arrays([texts], ["c"]), (Column("c", kind),))
    except (ValueError, pa.ArrowException):
        return False
    return True
