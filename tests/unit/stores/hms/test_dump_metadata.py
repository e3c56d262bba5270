"""The metadata of EXPORT: texts of the Thrift library's JSON protocol, both ways; anything else is refused."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.core.model import Bucketing, Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC, TEXTFILE
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.definitions import format_dump, parse_dump, raw_partition, raw_table
from hiveacid.stores.hms.thrift_structs import ThriftStruct

ODD = 'a/b=c %25 "\\ü\U0001f600\x01\n{}[],:'
TABLE = TableDefinition(
    name=TableName("d", "t"),
    columns=(Column("id", "int", ODD), Column("s x", "struct<a:int,b:array<string>>")),
    storage=replace(TEXTFILE, serde_properties=(("field.delim", "\x01"), ("serialization.format", "1"))),
    location="/dump",
    partition_columns=(Column("p", "string"), Column("q", "date")),
    bucketing=Bucketing(("id",), 4, ("id",), ("id",)),
    properties=(("bucketing_version", "2"), ("note", ODD), ("transactional", "true")),
    comment=ODD,
    owner="ann",
    created_at=1_700_000_000,
)
PARTITIONS = (Partition((ODD, "2024-02-29"), "/dump/p=1"), Partition((None, None), "/dump/p=2"))


def text_of_library(struct: ThriftStruct) -> str:
    buffer = TMemoryBuffer()
    TJSONProtocol(buffer).writeStruct(struct, struct.thrift_spec)
    text: str = buffer.getvalue().decode()
    return text


def read_by_library(kind: type[ThriftStruct], text: str) -> ThriftStruct:
    made = kind()
    TJSONProtocol(TMemoryBuffer(text.encode())).readStruct(made, kind.thrift_spec)
    return made


def test_a_dump_gives_the_table_and_its_partitions() -> None:
    table, partitions = parse_dump(format_dump(TABLE, PARTITIONS, 0), "f")
    assert replace(table, incarnation="") == TABLE
    assert partitions == PARTITIONS
    plain = replace(TABLE, partition_columns=(), storage=ORC, bucketing=None, external=True)
    assert parse_dump(format_dump(plain, (), 0), "f") == (plain, ())


def test_the_thrift_library_reads_what_is_written() -> None:
    dump = json.loads(format_dump(TABLE, PARTITIONS, 5000))
    assert dump["version"] == "0.2"
    raw = raw_table(TABLE)
    assert repr(read_by_library(protocol.Table, dump["table"])) == repr(raw)
    for one, text in zip(PARTITIONS, dump["partitions"], strict=True):
        read = read_by_library(protocol.Partition, text)
        assert repr(read) == repr(raw_partition(raw, one, 5000))


def test_what_the_thrift_library_writes_is_read() -> None:
    raw = raw_table(TABLE)
    raw.temporary, raw.sd.skewedInfo = False, protocol.SkewedInfo(skewedColNames=[], skewedColValues=[])
    texts = [text_of_library(raw_partition(raw, one, 0)) for one in PARTITIONS]
    dump = {"version": "0.2", "table": text_of_library(raw), "partitions": texts}
    table, partitions = parse_dump(json.dumps(dump).encode(), "f")
    assert replace(table, incarnation="") == TABLE
    assert partitions == PARTITIONS


def changed(**fields: object) -> bytes:
    dump = json.loads(format_dump(TABLE, PARTITIONS, 0)) | fields
    return json.dumps(dump).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        changed(table="{}"),
        changed(table=None),
        changed(table=json.dumps({"1": {"i32": 5}})),
        changed(table=json.dumps({"1": {"str": 5}})),
        changed(partitions=["{}"]),
        changed(partitions=None),
        changed(partitions=[json.dumps({"1": {"lst": ["str", 1, "x"]}, "6": {"rec": {"7": {"rec": {}}}}})]),
        changed(version=None),
    ],
)
def test_other_content_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError, match="not the metadata of EXPORT TABLE"):
        parse_dump(data, "/x/_metadata")


@given(st.data())
def test_damaged_metadata_raises_only_typed_errors(data: st.DataObject) -> None:
    whole = format_dump(TABLE, PARTITIONS, 0)
    start = data.draw(st.integers(0, len(whole)))
    damaged = whole[:start] + data.draw(st.binary(max_size=4)) + whole[start + data.draw(st.integers(0, 9)) :]
    with contextlib.suppress(BadFileError, UnsupportedFeatureError):
        parse_dump(damaged, "f")


def test_views_and_dumps_for_replication_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="for replication"):
        parse_dump(changed(**{"repl.scope": "all"}), "f")
    with pytest.raises(UnsupportedFeatureError, match="version 1"):
        parse_dump(changed(version="1.0"), "f")
    raw = raw_table(TABLE)
    raw.tableType = "VIRTUAL_VIEW"
    with pytest.raises(UnsupportedFeatureError, match="of a view"):
        parse_dump(changed(table=text_of_library(raw), partitions=[]), "f")
