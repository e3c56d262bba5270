"""Nested values that Arrow's own ORC writer stores wrongly come back as they were."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.model import Column
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema, require_storable
from hiveacid.orc.writing import HEADER, StripeBlock, encode_rows, merged_tail, place_stripes
from support.exhaustive import examples

TYPES = st.recursive(
    st.sampled_from(["bigint", "string"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(
            lambda members: f"struct<{','.join(f'f{n}:{of}' for n, of in enumerate(members))}>"
        ),
        inner.map(lambda of: f"array<{of}>"),
        inner.map(lambda of: f"map<int,{of}>"),
    ),
    max_leaves=4,
)


def values_of(of: Any, nullable: st.SearchStrategy[bool]) -> st.SearchStrategy[Any]:
    """Return values of an Arrow type, NULL where ``nullable`` says so."""
    if pa.types.is_struct(of):
        plain = st.fixed_dictionaries({member.name: values_of(member.type, nullable) for member in of})
    elif pa.types.is_map(of):
        plain = st.dictionaries(st.integers(0, 3), values_of(of.item_type, nullable), max_size=2).map(
            lambda entries: list(entries.items())
        )
    elif pa.types.is_list(of):
        plain = st.lists(values_of(of.value_type, nullable), max_size=3)
    else:
        plain = st.integers(0, 99) if pa.types.is_integer(of) else st.sampled_from("abc")
    return nullable.flatmap(lambda null: st.none() if null else plain)


def comparable(value: Any, of: Any) -> Any:
    """Return a value as both readers give it: structs as tuples, maps as sorted pairs."""
    if value is None:
        return None
    if pa.types.is_struct(of):
        members = [value[member.name] for member in of] if isinstance(value, dict) else value
        return tuple(comparable(one, member.type) for one, member in zip(members, of, strict=True))
    if pa.types.is_map(of):
        pairs = value.items() if isinstance(value, dict) else value
        return sorted((key, comparable(one, of.item_type)) for key, one in pairs)
    if pa.types.is_list(of):
        return [comparable(one, of.value_type) for one in value]
    return value


def orc_file_bytes(piece: StripeBlock) -> bytes:
    """Return the bytes of an ORC file with the stripes of one piece."""
    body = HEADER + piece.body
    _, tail = merged_tail([place_stripes(piece, len(HEADER))], len(body), "an ORC file in memory")
    return body + tail


@settings(max_examples=examples(400))
@given(st.data())
def test_nested_values_with_nulls_and_offsets(data: st.DataObject) -> None:
    """Arrow 26 shifts the values of a struct in a struct, and reads the structs of a slice from other rows."""
    columns = [Column("x", data.draw(TYPES))]
    schema = arrow_schema(columns)
    nullable = data.draw(st.sampled_from([st.just(False), st.booleans()]))
    inner = values_of(schema.field("x").type, st.booleans())
    outer = nullable.flatmap(lambda null: st.none() if null else inner)
    rows = [{"x": value} for value in data.draw(st.lists(outer, min_size=1, max_size=8))]
    begin = data.draw(st.integers(0, len(rows) - 1))
    batch = pa.RecordBatch.from_pylist(rows, schema).slice(begin)
    written = orc_file_bytes(encode_rows(batch, columns, None))
    of = schema.field("x").type
    found = [comparable(row[0], of) for row in pyorc.Reader(io.BytesIO(written))]
    assert found == [comparable(row["x"], of) for row in rows[begin:]]


@pytest.mark.parametrize(
    ("of", "values"),
    [
        ("struct<u:struct<k:bigint>>", [{"u": None}, {"u": {"k": 82}}, {"u": {"k": 84}}]),
        ("struct<u:array<struct<k:bigint>>>", [{"u": [{"k": 1}, None, {"k": 3}]}, {"u": [{"k": 4}]}]),
        ("map<int,struct<u:struct<k:bigint>>>", [[(1, {"u": None}), (2, {"u": {"k": 5}})]]),
    ],
)
def test_a_null_struct_in_a_struct(of: str, values: list[Any]) -> None:
    columns = [Column("x", of)]
    schema = arrow_schema(columns)
    batch = pa.RecordBatch.from_pylist([{"x": value} for value in values], schema)
    written = orc_file_bytes(encode_rows(batch, columns, None))
    kind = schema.field("x").type
    found = [comparable(row[0], kind) for row in pyorc.Reader(io.BytesIO(written))]
    assert found == [comparable(value, kind) for value in values]
    with pytest.raises(UnsupportedFeatureError, match="x has values"):
        require_storable(columns[0], pa.chunked_array(batch.column(0)))
