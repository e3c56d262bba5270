"""The bucket of a batch's rows is that of the plain reference, type by type."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import Bucketing, Column, StorageFormat, TableDefinition, TableName
from hiveacid.core.schema.bucket_hash import bucket_number
from hiveacid.core.schema.types import parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.table.write.partitions_and_buckets import bucket_numbers, check_bucketing

STORAGE = StorageFormat("", "", "")
TYPES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(),
    "string": st.text(max_size=9).filter(lambda text: "\x00" not in text),
    "char(5)": st.text("ab é ", max_size=5),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "decimal(20,4)": st.decimals(-(10**12), 10**12, places=4),
    "timestamp": st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)),  # noqa: DTZ001 - no zone
}


def table(types: list[str], version: int, count: int = 100) -> TableDefinition:
    columns = tuple(Column(f"c{at}", of) for at, of in enumerate(types))
    return TableDefinition(
        TableName("default", "t"), columns, STORAGE, "/t",
        bucketing=Bucketing(tuple(column.name for column in columns), count),
        properties=(("bucketing_version", str(version)),),
    )  # fmt: skip


@given(st.data(), st.sampled_from([1, 2]))
def test_buckets_are_those_of_the_reference(data: st.DataObject, version: int) -> None:
    kinds = [kind for kind in TYPES if version == 2 or kind != "timestamp"]
    types = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | TYPES[of] for of in types)), min_size=1, max_size=8))
    of = table(types, version)
    lists = [list(column) for column in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, one.type) for values, one in zip(lists, arrow_schema(of.columns), strict=True)],
        schema=arrow_schema(of.columns),
    )
    parsed = [parse_type(one) for one in types]
    assert bucket_numbers(of, batch).to_pylist() == [bucket_number(row, parsed, 100, version) for row in rows]


def test_types_that_cannot_be_hashed_are_refused_before_anything_is_written() -> None:
    for types, version in ((["array<int>"], 2), (["timestamp"], 1), (["binary"], 2)):
        with pytest.raises(UnsupportedFeatureError):
            check_bucketing(table(types, version))
    check_bucketing(table(["decimal(10,2)", "string"], 1))


def test_a_slice_of_a_batch_has_its_own_rows_buckets() -> None:
    of = table(["bigint", "int"], 2)
    batch = pa.RecordBatch.from_pydict(
        {"c0": [1, None, 3, 4], "c1": [9, 8, None, 6]}, arrow_schema(of.columns)
    )
    whole = bucket_numbers(of, batch).to_pylist()
    assert bucket_numbers(of, batch.slice(1, 2)).to_pylist() == whole[1:3]


@pytest.mark.parametrize("of", ["varchar(3)", "char(3)"])
def test_texts_are_cut_before_they_are_hashed(of: str) -> None:
    """They are stored so, and an engine looks for 'abc' in the bucket of 'abc'."""
    definition = table([of], 2)
    batch = pa.RecordBatch.from_pylist(
        [{"c0": "abc"}, {"c0": "abcd"}, {"c0": "abcde"}], arrow_schema(definition.columns)
    )
    expected = bucket_number(("abc",), [parse_type(of)], 100, 2)
    assert bucket_numbers(definition, batch).to_pylist() == [expected] * 3
