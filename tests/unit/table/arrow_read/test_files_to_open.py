"""Values of partitions that are read without Spark: those of Spark's scan, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.table.arrow_read.files_to_open import partition_scalars

TABLE = TableDefinition(TableName("db", "t"), (Column("k", "int"),), ORC, "/t")


def value_of(hive: str, text: str | None) -> object:
    table = replace(TABLE, partition_columns=(Column("p", hive),))
    (value,) = partition_scalars(table, Partition((text,), "/t/p"))
    return value.as_py()


@pytest.mark.parametrize(
    ("hive", "text", "value"),
    [
        ("int", " +05", 5),
        ("int", None, None),
        ("varchar(3)", "abcdef", "abcdef"),
        ("char(3)", "abcdef", "abc"),
        ("char(3)", "a", "a  "),
    ],
)
def test_a_partition_has_the_value_of_sparks_scan(hive: str, text: str | None, value: object) -> None:
    assert value_of(hive, text) == value


@pytest.mark.parametrize("text", ["0x10", "5.0", "2147483648", "abc"])
def test_texts_that_are_no_whole_numbers_are_left_to_spark(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError):
        value_of("int", text)
