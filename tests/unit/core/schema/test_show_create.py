from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import Bucketing, Column, StorageFormat, TableDefinition, TableName
from hiveacid.core.schema.show_create import NOT_SHOWN, show_create_table
from hiveacid.core.schema.storage_formats import ORC, PARQUET, TEXTFILE
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable

GOLDEN: dict[str, str] = json.loads(
    (Path(__file__).parents[3] / "golden" / "show_create.json").read_text(encoding="utf-8")
)


def definition(text: str) -> TableDefinition:
    found = parse(text)
    assert isinstance(found, CreateTable)
    return found.definition(found.table.resolve("d"), location="/wh/t", storage=TEXTFILE)


@pytest.mark.parametrize("name", [name for name in sorted(GOLDEN) if name.startswith("hive-4")])
def test_the_text_is_hive_4s_to_the_blank(name: str) -> None:
    assert show_create_table(definition(GOLDEN[name]), with_database=False) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_what_is_printed_parses_back(name: str) -> None:
    table = definition(GOLDEN[name])
    assert definition(show_create_table(table)) == table


def test_every_clause() -> None:
    table = TableDefinition(
        name=TableName("d", "t`x"),
        columns=(Column("a b", "int", "it's; a \\"), Column("u", "uniontype<int,struct<a:int>>")),
        storage=StorageFormat(
            TEXTFILE.serde,
            TEXTFILE.input_format,
            TEXTFILE.output_format,
            (("field.delim", "\x01"), ("serialization.format", "1")),
        ),
        location="s3a://b/t",
        partition_columns=(Column("p", "date", "day"), Column("q", "string")),
        bucketing=Bucketing(("a b", "u"), 3, ("u", "a b"), ("a b",)),
        properties=(("k", "ä😀\n"), ("numRows", "5")),
        external=True,
        comment="c",
    )
    assert show_create_table(table) == (
        "CREATE EXTERNAL TABLE `d`.`t``x`(\n"
        "  `a b` int COMMENT 'it\\'s\\; a \\\\', \n"
        "  `u` uniontype<int, struct<`a`:int>>)\n"
        "COMMENT 'c'\n"
        "PARTITIONED BY ( \n"
        "  `p` date COMMENT 'day', \n"
        "  `q` string)\n"
        "CLUSTERED BY (\n"
        "  `a b`,\n"
        "  `u`)\n"
        "SORTED BY ( \n"
        "  `u` ASC, \n"
        "  `a b` DESC) \n"
        "INTO 3 BUCKETS\n"
        "ROW FORMAT SERDE \n"
        "  'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' \n"
        "WITH SERDEPROPERTIES ( \n"
        "  'field.delim'='\\u0001') \n"
        "STORED AS INPUTFORMAT \n"
        "  'org.apache.hadoop.mapred.TextInputFormat' \n"
        "OUTPUTFORMAT \n"
        "  'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'\n"
        "LOCATION\n"
        "  's3a://b/t'\n"
        "TBLPROPERTIES (\n"
        "  'k'='\\u00E4\\uD83D\\uDE00\\n')"
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda text: text == text.lower()
)
types = st.sampled_from(["int", "string", "decimal(10,2)", "array<struct<a:int,`b c`:map<string,date>>>"])


@st.composite
def tables(draw: st.DrawFn) -> TableDefinition:
    found = draw(st.lists(names, min_size=2, max_size=6, unique=True))
    cut = draw(st.integers(1, len(found)))
    comments = st.none() | texts
    columns = tuple(Column(name, draw(types), draw(comments)) for name in found[:cut])
    bucketing = None
    if draw(st.booleans()):
        falling = (columns[0].name,) if draw(st.booleans()) else ()
        bucketing = Bucketing((columns[0].name,), draw(st.integers(1, 100)), (columns[0].name,), falling)
    keys = texts.filter(lambda key: key not in NOT_SHOWN)
    properties = tuple(sorted(draw(st.dictionaries(keys, texts, max_size=3)).items()))
    storage = draw(st.sampled_from([ORC, PARQUET, TEXTFILE]))
    serde_properties = tuple(sorted(draw(st.dictionaries(texts, texts, max_size=3)).items()))
    return TableDefinition(
        name=TableName(draw(names), draw(names)),
        columns=columns,
        storage=StorageFormat(storage.serde, storage.input_format, storage.output_format, serde_properties),
        location=draw(texts),
        partition_columns=tuple(Column(name, "string", draw(comments)) for name in found[cut:]),
        bucketing=bucketing,
        properties=properties,
        external=draw(st.booleans()),
        comment=draw(comments),
    )


@given(tables())
def test_any_definition_parses_back(table: TableDefinition) -> None:
    found = parse(show_create_table(table))
    assert isinstance(found, CreateTable)
    assert found.location == table.location
    again = found.definition(found.table.resolve("other"), location=table.location, storage=ORC)
    assert again == table
