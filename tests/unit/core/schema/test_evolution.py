"""Matching a table's columns with those of a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.evolution import ORC_POSITIONAL, Matching, identity_mapping, map_columns, matching
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.schema.types import Array, Field, Primitive, Struct, parse_type

TABLE = TableDefinition(TableName("d", "t"), (Column("a", "bigint"), Column("b", "string")), ORC, "/t")


def columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*pair.split(" ", 1)) for pair in text.split("; "))


def file(text: str) -> Struct:
    pairs = (pair.split(" ", 1) for pair in text.split("; "))
    return Struct(tuple(Field(name, parse_type(kind)) for name, kind in pairs))


@pytest.mark.parametrize(
    ("level", "property_", "expected"),
    [
        (LayoutLevel.HIVE4, None, Matching.POSITION),
        (LayoutLevel.HIVE3, None, Matching.NAME),
        (LayoutLevel.HIVE4, "false", Matching.NAME),
        (LayoutLevel.HIVE3, "TRUE", Matching.POSITION),
    ],
)
def test_the_level_says_how_unless_the_table_does(
    level: LayoutLevel, property_: str | None, expected: Matching
) -> None:
    table = TABLE if property_ is None else replace(TABLE, properties=((ORC_POSITIONAL, property_),))
    assert matching(table, level) is expected


def asked(table: str, stored: str, how: Matching) -> list[tuple[str | None, str]]:
    found = map_columns(columns(table), file(stored), how)
    return [(source.name, str(source.type)) for source in found.columns]


def test_by_position_a_renamed_column_is_found_and_a_missing_one_is_null() -> None:
    assert asked("x bigint; y string; z int", "a int; b string", Matching.POSITION) == [
        ("a", "bigint"),
        ("b", "string"),
        ("z", "int"),
    ]


def test_by_position_a_missing_column_never_takes_another_of_its_name() -> None:
    assert asked("a int; b int; c int", "c int; a int", Matching.POSITION) == [
        ("c", "int"),
        ("a", "int"),
        (None, "int"),
    ]


def test_by_name_without_case_order_does_not_count_and_a_renamed_column_is_null() -> None:
    assert asked("a int; b string; new int", "B string; old int; A int", Matching.NAME) == [
        ("A", "int"),
        ("B", "string"),
        ("new", "int"),
    ]


@pytest.mark.parametrize("how", Matching)
def test_files_without_names_are_read_by_position_and_as_a_whole(how: Matching) -> None:
    found = map_columns(
        columns("a bigint; s struct<x:int>"), file("_col0 int; _col1 struct<x:int>; _col2 date"), how
    )
    assert [source.name for source in found.columns] == ["c0", "c1"]
    assert [str(kind) for kind in found.positional or ()] == ["bigint", "struct<x:int>", "date"]


@pytest.mark.parametrize("stored", ["a`b int; c int", "a int; A int"])
def test_names_that_a_reader_would_misread_are_not_used(stored: str) -> None:
    found = map_columns(columns("x int; y int; z int"), file(stored), Matching.POSITION)
    assert [source.name for source in found.columns] == ["c0", "c1", None]


def test_a_table_s_own_name_with_a_back_quote_is_read_by_position() -> None:
    assert identity_mapping((Column("a`b", "int"),)).positional is not None
    assert identity_mapping(TABLE.columns).positional is None


def test_nested_fields_are_matched_by_name_and_spelled_as_in_the_file() -> None:
    inner = Array(Struct((Field("P", Primitive("varchar", (3,))),)))
    stored = Struct((Field("s", Struct((Field("X", inner), Field("Y", Primitive("int"))))),))
    wanted = columns("s struct<y:bigint,x:array<struct<p:string>>,z:int>")
    (source,) = map_columns(wanted, stored, Matching.POSITION).columns
    assert str(source.type) == "struct<Y:bigint,X:array<struct<P:string>>,z:int>"


@pytest.mark.parametrize(
    ("stored", "wanted", "cut"),
    [
        ("string", "varchar(3)", True),
        ("varchar(3)", "varchar(3)", False),
        ("varchar(5)", "varchar(3)", True),
        ("char(2)", "varchar(3)", False),
        ("int", "varchar(3)", True),
        ("array<string>", "array<varchar(3)>", True),
        ("map<string,int>", "map<varchar(3),int>", True),
        ("struct<a:string>", "struct<a:varchar(3)>", True),
        ("string", "char(3)", False),
        ("string", "string", False),
    ],
)
def test_texts_are_cut_only_where_they_can_be_longer(stored: str, wanted: str, cut: bool) -> None:  # noqa: FBT001
    (source,) = map_columns(columns(f"a {wanted}"), file(f"a {stored}"), Matching.POSITION).columns
    assert source.cut is cut
    assert source.problem is None


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("int", "date"),
        ("timestamp", "bigint"),
        ("double", "timestamp"),
        ("binary", "int"),
        ("binary", "date"),
        ("int", "array<int>"),
        ("struct<a:int>", "map<string,int>"),
        ("array<int>", "array<date>"),
        ("uniontype<int,string>", "int"),
    ],
)
def test_what_cannot_be_converted_is_a_problem_of_that_column_alone(stored: str, wanted: str) -> None:
    bad, good = map_columns(
        columns(f"a {wanted}; b int"), file(f"a {stored}; b int"), Matching.POSITION
    ).columns
    assert bad.problem is not None
    assert stored in bad.problem
    assert (good.name, good.problem) == ("b", None)
