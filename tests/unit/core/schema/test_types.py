from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.schema.types import (
    LOCAL_TIMESTAMP,
    Array,
    Field,
    HiveType,
    Map,
    Primitive,
    Struct,
    Union,
    parse_type,
    parse_type_at,
    position,
    quoted_type_text,
)
from hiveacid.errors import ParseError


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("INT", "int"),
        ("integer", "int"),
        ("long", "bigint"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("real", "float"),
        ("double", "double"),
        ("Double  Precision", "double"),
        ("numeric(5)", "decimal(5,0)"),
        ("decimal", "decimal(10,0)"),
        ("decimal( 38 , 18 )", "decimal(38,18)"),
        ("varchar(10)", "varchar(10)"),
        ("character varying(10)", "varchar(10)"),
        ("character(3)", "char(3)"),
        ("varbinary", "binary"),
        ("timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp"),
        ("timestamp without time zone", "timestamp"),
        ("timestamp_ltz", LOCAL_TIMESTAMP),
        ("TIMESTAMP WITH\nLOCAL TIME ZONE", LOCAL_TIMESTAMP),
        ("timestamp with local time zone('Europe/Berlin')", LOCAL_TIMESTAMP),
        ("array<int>", "array<int>"),
        ("map<string,array<struct<a:int>>>", "map<string,array<struct<a:int>>>"),
        ("struct<`x`:int, `Y Z`:string>", "struct<x:int,`y z`:string>"),
        ("struct<`a``b`:int>", "struct<`a``b`:int>"),
        ("struct<a INT COMMENT 'it''s', b:date comment \"x\\\"\">", "struct<a:int,b:date>"),
        ("struct<comment:int,date:date>", "struct<comment:int,date:date>"),
        ("uniontype<int,string>", "uniontype<int,string>"),
        ("array<int /* why */> -- so", "array<int>"),
        # Trino's spellings
        ("varchar", "string"),
        ("char", "char(1)"),
        ("timestamp(3)", "timestamp"),
        ("timestamp(9)", "timestamp"),
        ("array(integer)", "array<int>"),
        ("map(varchar, integer)", "map<string,int>"),
        ("ROW(a integer, b varchar)", "struct<a:int,b:string>"),
        ('row("odd ""name" integer)', 'struct<`odd "name`:int>'),
        ("array(ROW(x integer, y array(varchar)))", "array<struct<x:int,y:array<string>>>"),
    ],
)
def test_spellings_have_one_text(text: str, normal: str) -> None:
    assert str(parse_type(text)) == normal
    assert parse_type(normal) == parse_type(text)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected a type"),
        ("strnig", 1, "unknown type strnig"),
        ("datetime", 1, "use timestamp"),
        ("array<text>", 7, "use string"),
        ("uuid", 1, "use string"),
        ("blob", 1, "use binary"),
        ("number(3)", 1, "use decimal"),
        ("interval", 1, "interval"),
        ("array<interval_day_time>", 7, "interval"),
        ("int int", 5, "end of the type"),
        ("array<int", 10, "'>'"),
        ("array int", 7, "'<'"),
        ("row<a:int>", 4, "'('"),
        ("array(int>", 10, "')'"),
        ("struct<>", 8, "name of a field"),
        ("struct<a:int, A:int>", 15, "twice"),
        ("map<array<int>,int>", 5, "key of a map"),
        ("decimal(39,2)", 1, "precision"),
        ("decimal(2,3)", 1, "scale"),
        ("decimal(1,2,3)", 1, "precision"),
        ("decimal(x)", 9, "number"),
        ("decimal(0)", 1, "precision"),
        ("varchar(0)", 1, "65535"),
        ("varchar(65536)", 1, "65535"),
        ("char(256)", 1, "255"),
        ("timestamp with time zone", 1, "time zone"),
        ("timestamp(3, 3)", 1, "precision"),
        ("array(timestamp(12))", 7, "9 digits of a second, not 12"),
        ("timestamp(10) with local time zone", 1, "9 digits of a second, not 10"),
        ("void", 1, "void"),
        ("array<" * 100 + "int" + ">" * 100, 391, "nested"),
    ],
)
def test_refused_with_position(text: str, column: int, words: str) -> None:
    with pytest.raises(ParseError, match=re.escape(words)) as caught:
        parse_type(text)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_type_inside_a_statement_ends_where_it_ends() -> None:
    text = "CREATE TABLE t (\n  a map<string, int> COMMENT 'x')"
    found, end = parse_type_at(text, text.index("map"))
    assert str(found) == "map<string,int>"
    assert text[end:] == " COMMENT 'x')"
    with pytest.raises(ParseError) as caught:
        parse_type_at(text, text.index("a map"))
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_position_counts_from_one() -> None:
    assert position("ab\ncd", 0) == (1, 1)
    assert position("ab\ncd", 3) == (2, 1)
    assert position("ab\ncd", 5) == (2, 3)


def test_hive_4_quotes_every_field() -> None:
    text = "array<struct<`k`:string, `m`:map<int,array<double>>>>"
    assert quoted_type_text(parse_type(text)) == text
    assert quoted_type_text(parse_type("uniontype<int,struct<a:int>>")) == "uniontype<int, struct<`a`:int>>"


primitives: st.SearchStrategy[HiveType] = st.one_of(
    st.sampled_from(["boolean", "tinyint", "int", "string", "date", "timestamp", LOCAL_TIMESTAMP]).map(
        Primitive
    ),
    st.integers(1, 65535).map(lambda n: Primitive("varchar", (n,))),
    st.tuples(st.integers(19, 38), st.integers(0, 19)).map(lambda ps: Primitive("decimal", ps)),
)
names = st.text(min_size=1, max_size=8).filter(lambda name: name == name.lower())


def nested(inner: st.SearchStrategy[HiveType]) -> st.SearchStrategy[HiveType]:
    fields = st.lists(st.builds(Field, names, inner), min_size=1, max_size=4, unique_by=lambda f: f.name)
    return st.one_of(
        inner.map(Array),
        st.builds(Map, primitives, inner),
        fields.map(lambda found: Struct(tuple(found))),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: Union(tuple(found))),
    )


types = st.recursive(primitives, nested, max_leaves=8)


@given(types)
def test_both_texts_parse_back(hive_type: HiveType) -> None:
    assert parse_type(str(hive_type)) == hive_type
    assert parse_type(quoted_type_text(hive_type)) == hive_type


@given(st.text(max_size=60) | st.text("<>(),:`' \nastrucmpi1", max_size=60))
def test_any_other_text_is_a_parse_error(text: str) -> None:
    try:
        found = parse_type(text)
    except ParseError:
        return
    assert parse_type(str(found)) == found
