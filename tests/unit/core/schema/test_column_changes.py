"""Changes of columns that old files survive, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Bucketing, Column, StorageFormat, TableDefinition, TableName
from hiveacid.core.schema.evolution import (
    FIRST,
    ORC_POSITIONAL,
    ColumnChange,
    Matching,
    change_column,
    drop_columns,
    is_widening,
    map_columns,
    replace_columns,
)
from hiveacid.core.schema.storage_formats import AVRO, ORC, PARQUET, TEXTFILE
from hiveacid.core.schema.types import Field, Primitive, Struct, parse_type
from hiveacid.errors import HiveAcidError, NoSuchColumnError, SchemaMismatchError, UnsupportedFeatureError

COLUMNS = (Column("a", "int", "first"), Column("b", "string"), Column("c", "varchar(3)"))
P = (Column("p", "int"),)
TABLE = TableDefinition(TableName("d", "t"), COLUMNS, ORC, "/t", partition_columns=P)
HIVE4, HIVE3 = LayoutLevel.HIVE4, LayoutLevel.HIVE3
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(3,0)", "decimal(10,2)", "decimal(12,4)",
    "decimal(38,18)", "string", "varchar(3)", "varchar(5)", "char(3)", "char(5)", "binary", "date", "timestamp",
    "timestamp with local time zone", "array<int>", "struct<x:int>",
)  # fmt: skip


def changed(
    change: ColumnChange, storage: StorageFormat = ORC, level: LayoutLevel = HIVE4
) -> list[tuple[str, str, str | None]]:
    found = change_column(replace(TABLE, storage=storage), level, change)
    return [(column.name, column.type, column.comment) for column in found.columns]


def test_a_name_a_type_and_a_comment_change_alone_or_together() -> None:
    rest = [("b", "string", None), ("c", "varchar(3)", None)]
    assert changed(ColumnChange("a", name="x")) == [("x", "int", "first"), *rest]
    assert changed(ColumnChange("a", type="bigint")) == [("a", "bigint", "first"), *rest]
    assert changed(ColumnChange("a", comment="")) == [("a", "int", ""), *rest]
    assert changed(ColumnChange("a", "x", "bigint", "new")) == [("x", "bigint", "new"), *rest]
    assert changed(ColumnChange("a", after=FIRST))[0] == ("a", "int", "first")
    assert changed(ColumnChange("b", "x", after="a"))[1] == ("x", "string", None)


def test_a_renamed_column_binds_the_table_to_positions() -> None:
    """Another session's layout level would else read NULL in the older rows."""
    renamed = change_column(TABLE, HIVE4, ColumnChange("a", name="x"))
    assert renamed.property(ORC_POSITIONAL) == "true"
    wider = change_column(TABLE, HIVE4, ColumnChange("a", type="bigint", comment="x"))
    assert wider.property(ORC_POSITIONAL) is None
    more = replace_columns(TABLE, HIVE4, (*COLUMNS, Column("d", "int")))
    assert more.property(ORC_POSITIONAL) is None
    text = change_column(replace(TABLE, storage=TEXTFILE), HIVE4, ColumnChange("a", name="x"))
    assert text.property(ORC_POSITIONAL) is None


@pytest.mark.parametrize("storage", [ORC, PARQUET, TEXTFILE, AVRO], ids=str)
def test_where_files_hold_names_none_can_change(storage: StorageFormat) -> None:
    by_name = [
        level for level in LayoutLevel if storage is not TEXTFILE and (storage is not ORC or level is HIVE3)
    ]
    for level in LayoutLevel:
        if level in by_name:
            with pytest.raises(UnsupportedFeatureError, match="would show NULL in x"):
                changed(ColumnChange("a", name="x"), storage, level)
        else:
            assert changed(ColumnChange("a", name="x"), storage, level)[0][0] == "x"


def test_hive_3_reads_by_name_whatever_the_property_says() -> None:
    for value, level in (("true", HIVE3), ("false", HIVE4)):
        table = TABLE.with_properties({ORC_POSITIONAL: value})
        with pytest.raises(UnsupportedFeatureError, match="hold columns by name"):
            change_column(table, level, ColumnChange("a", name="x"))


def test_columns_move_only_where_files_hold_their_names() -> None:
    for storage in (PARQUET, AVRO):
        assert [name for name, *_ in changed(ColumnChange("c", after=FIRST), storage)] == ["c", "a", "b"]
        assert [name for name, *_ in changed(ColumnChange("a", after="b"), storage)] == ["b", "a", "c"]
        assert [name for name, *_ in changed(ColumnChange("a", after="c"), storage)] == ["b", "c", "a"]
    for level in LayoutLevel:
        for storage in (ORC, TEXTFILE):
            with pytest.raises(UnsupportedFeatureError, match="cannot move"):
                changed(ColumnChange("b", after=FIRST), storage, level)


def test_types_become_wider_only() -> None:
    """Each allowed pair is a widening that the reader without Spark takes as well, and loses nothing."""
    allowed = set()
    for old in TYPES:
        for new in TYPES:
            table = replace(TABLE, columns=(Column("a", old),))
            found = None
            with suppress(UnsupportedFeatureError):
                found = change_column(table, HIVE4, ColumnChange("a", type=new))
            if found is None or old == new:
                assert (found is None) == (old != new), (old, new)
                continue
            assert found.columns[0].type == new
            allowed.add((old, new))
            stored, wanted = parse_type(old), parse_type(new)
            assert isinstance(stored, Primitive)
            assert isinstance(wanted, Primitive)
            assert is_widening(stored, wanted)
            mapping = map_columns(found.columns, Struct((Field("old", stored),)), Matching.POSITION)
            assert mapping.columns[0].problem is None
    integers = ("tinyint", "smallint", "int", "bigint")
    expected = {(one, other) for place, one in enumerate(integers) for other in integers[place + 1 :]}
    expected |= {(one, "string") for one in (*integers, "varchar(3)", "varchar(5)", "char(3)", "char(5)")}
    expected |= {(one, "double") for one in ("tinyint", "smallint", "int", "float")}
    expected |= {
        (one, "decimal(38,18)") for one in (*integers, "decimal(3,0)", "decimal(10,2)", "decimal(12,4)")
    }
    expected |= {("tinyint", "decimal(3,0)"), ("tinyint", "decimal(10,2)"), ("tinyint", "decimal(12,4)")}
    expected |= {("smallint", "decimal(10,2)"), ("smallint", "decimal(12,4)")}
    expected |= {("decimal(3,0)", "decimal(10,2)"), ("decimal(3,0)", "decimal(12,4)")}
    expected |= {("decimal(10,2)", "decimal(12,4)"), ("varchar(3)", "varchar(5)"), ("char(3)", "char(5)")}
    expected |= {("char(3)", "varchar(3)"), ("char(3)", "varchar(5)"), ("char(5)", "varchar(5)")}
    assert allowed == expected


@pytest.mark.parametrize(("storage", "texts"), [(PARQUET, True), (TEXTFILE, True), (AVRO, False)], ids=str)
def test_other_files_keep_their_types_but_for_longer_texts(storage: StorageFormat, texts: bool) -> None:  # noqa: FBT001
    with pytest.raises(UnsupportedFeatureError, match="cannot become bigint"):
        changed(ColumnChange("a", type="bigint"), storage)
    if texts:
        assert changed(ColumnChange("c", type="varchar(4)"), storage)[2] == ("c", "varchar(4)", None)
        assert changed(ColumnChange("c", type="string"), storage)[2] == ("c", "string", None)
    else:
        with pytest.raises(UnsupportedFeatureError, match="cannot become string"):
            changed(ColumnChange("c", type="string"), storage)


def test_columns_that_decide_buckets_stay() -> None:
    table = replace(TABLE, bucketing=Bucketing(("a",), 2, ("b",)))
    for change in (
        ColumnChange("a", type="bigint"),
        ColumnChange("a", name="x"),
        ColumnChange("b", name="x"),
    ):
        with pytest.raises(UnsupportedFeatureError, match="CLUSTERED BY"):
            change_column(table, HIVE4, change)
    assert change_column(table, HIVE4, ColumnChange("a", comment="k")).columns[0].comment == "k"
    assert change_column(table, HIVE4, ColumnChange("c", name="x")).bucketing == table.bucketing


def test_replaced_columns_keep_their_places() -> None:
    new = (Column("a", "bigint"), Column("x", "string", "k"), Column("c", "varchar(9)"), Column("d", "date"))
    found = replace_columns(TABLE, HIVE4, new)
    assert (found.columns, found.partition_columns) == (new, P)
    assert found.property(ORC_POSITIONAL) == "true"
    swapped = (COLUMNS[0], Column("c", "string"), Column("b", "varchar(3)"))
    with pytest.raises(UnsupportedFeatureError, match="c would show the values of b"):
        replace_columns(TABLE, HIVE4, swapped)
    with pytest.raises(UnsupportedFeatureError, match="column c cannot be dropped"):
        replace_columns(TABLE, HIVE4, COLUMNS[:2])
    with pytest.raises(UnsupportedFeatureError, match="b is string and cannot become int"):
        replace_columns(TABLE, HIVE4, (COLUMNS[0], Column("b", "int"), COLUMNS[2]))
    with pytest.raises(UnsupportedFeatureError, match="would show NULL in x"):
        replace_columns(TABLE, HIVE3, new)


def test_a_column_that_is_there_cannot_be_dropped() -> None:
    assert drop_columns(TABLE, ["x", "y"], if_exists=True) is TABLE
    for names in (["b"], ["x", "b"]):
        with pytest.raises(UnsupportedFeatureError, match="column b cannot be dropped"):
            drop_columns(TABLE, names, if_exists=True)
    with pytest.raises(NoSuchColumnError, match="no column x"):
        drop_columns(TABLE, ["x"], if_exists=False)
    with pytest.raises(UnsupportedFeatureError, match="column a cannot be dropped"):
        drop_columns(TABLE, ["a"], if_exists=False)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda t: change_column(t, HIVE4, ColumnChange("x", name="y")), NoSuchColumnError, "no column x"),
        (lambda t: change_column(t, HIVE4, ColumnChange("a", after="x")), NoSuchColumnError, "no column x"),
        (lambda t: change_column(t, HIVE4, ColumnChange("a", after="p")), NoSuchColumnError, "no column p"),
        (
            lambda t: change_column(t, HIVE4, ColumnChange("p", comment="x")),
            SchemaMismatchError,
            "partitioned by p",
        ),
        (lambda t: drop_columns(t, ["p"], if_exists=True), SchemaMismatchError, "partitioned by p"),
    ],
)
def test_only_columns_of_the_files_change(
    change: Callable[[TableDefinition], object], error: type[HiveAcidError], words: str
) -> None:
    with pytest.raises(error, match=words):
        change(TABLE)
