"""Rewriting a footer gives the true schema, other readers agree, and wrong files are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.orc
import pyorc
import pytest
from orc_files import SPARK_COLUMNS, Key, rewrite, rows_of, tail_of

from hiveacid.core.model import Column
from hiveacid.errors import BadFileError
from hiveacid.orc.acid_footer import acid_metadata, nest_row_columns, set_true_types
from hiveacid.orc.tail import OrcKind, OrcTail
from hiveacid.orc.wire_format import decompress

SparkFile = Callable[[str], Path]
B0, B1 = 536870912, 536936448
ONE = (Column("n", "int"),)
ACID = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"
USER = (
    "flag:boolean,tiny:tinyint,small:smallint,n:int,big:bigint,f:float,d:double,money:decimal(10,2),"
    "wide:decimal(38,18),ein name:char(6),bin:binary,ts:timestamp,day:date,list:array<varchar(8)>,"
    "m:map<char(3),timestamp with local time zone>,"
    "row:struct<bucket:int,y:array<struct<operation:varchar(9)>>>"
)


def schema_of(path: Path) -> str:
    with path.open("rb") as file:
        return str(pyorc.Reader(file).schema)


def nested(path: Path, columns: Sequence[Column], *, deletes: bool = False) -> OrcTail:
    tail = tail_of(path)
    rewrite(path, nest_row_columns(tail, columns, acid_metadata(tail, deletes=deletes)))
    return tail_of(path)


def test_inserts_of_every_type_get_names_and_true_types(spark_file: SparkFile) -> None:
    path = spark_file("insert.orc")
    before = rows_of(path)
    tail = nested(path, SPARK_COLUMNS)
    assert tail.is_acid
    assert schema_of(path) == f"struct<{ACID},row:struct<{USER}>>"
    after = rows_of(path)
    assert [row[:5] for row in after] == [row[:5] for row in before]
    assert len(after) == 1200
    for flat, row in zip(before, after, strict=True):
        values = [value.rstrip() if at == 9 and value else value for at, value in enumerate(row[5])]
        assert values[:14] + values[15:] == [*flat[6:20], *flat[21:]]
        maps = [
            None if m is None else {k.rstrip(): v and v.timestamp() for k, v in m.items()}
            for m in (values[14], flat[20])
        ]
        assert maps[0] == maps[1]


def test_arrow_reads_what_was_nested(spark_file: SparkFile) -> None:
    path = spark_file("insert.orc")
    flat = pyarrow.orc.ORCFile(str(path)).read()
    nested(path, SPARK_COLUMNS)
    row = pyarrow.orc.ORCFile(str(path)).read().column("row").combine_chunks()
    assert row.null_count == 0
    assert row.field("money").equals(flat.column("c7").combine_chunks())
    assert row.field("m").type.item_type.tz == "UTC"
    assert row.field("list").to_pylist() == flat.column("c13").to_pylist()


def test_delete_events_have_a_null_row(spark_file: SparkFile) -> None:
    path = spark_file("delete.orc")
    tail = nested(path, SPARK_COLUMNS, deletes=True)
    assert len(tail.stripes) > 1
    assert schema_of(path) == f"struct<{ACID},row:struct<{USER}>>"
    assert rows_of(path) == [(2, 5, B1, n, 6, None) for n in range(1200)]
    assert pyarrow.orc.ORCFile(str(path)).read().column("row").null_count == 1200
    assert tail.user_metadata["hive.acid.stats"] == b"0,0,1200"


def test_metadata_is_what_hive_writes(spark_file: SparkFile) -> None:
    tail = nested(spark_file("insert.orc"), SPARK_COLUMNS)
    ends = [sum(s.rows for s in tail.stripes[: n + 1]) - 1 for n in range(len(tail.stripes))]
    index = "".join(f"5,{B1},{end};" for end in ends)
    assert {key: tail.user_metadata[key].decode() for key in tail.user_metadata if "acid" in key} == {
        "hive.acid.version": "2",
        "hive.acid.stats": "1200,0,0",
        "hive.acid.key.index": index,
    }
    assert "org.apache.spark.version" in tail.user_metadata


def test_type_attributes_of_spark_are_dropped(spark_file: SparkFile) -> None:
    attribute = b"spark.sql.catalyst.type"

    def footer(path: Path) -> bytes:
        source = tail_of(path).source
        assert source is not None
        data = path.read_bytes()[source.footer_start : -1 - path.read_bytes()[-1]]
        return decompress(data, tail_of(path).compression, source.block_size)

    path = spark_file("insert.orc")
    assert attribute in footer(path)
    nested(path, SPARK_COLUMNS)
    assert attribute not in footer(path)


def test_entries_given_again_are_replaced(spark_file: SparkFile) -> None:
    path = spark_file("insert.orc")
    nested(path, SPARK_COLUMNS)
    tail = tail_of(path)
    row = [tail.types[child] for child in tail.types[6].children]
    assert row[0].kind is OrcKind.BOOLEAN
    path = spark_file("plain.orc")
    for text in ("first", "second"):
        rewrite(
            path, set_true_types(tail_of(path), SPARK_COLUMNS, {"k": text, "org.apache.spark.version": "0"})
        )
    source = tail_of(path).source
    assert source is not None
    assert [len(source.footer.all_data(5)), tail_of(path).user_metadata] == [
        2,
        {"k": b"second", "org.apache.spark.version": b"0"},
    ]


def test_bare_files_get_names_and_true_types(spark_file: SparkFile) -> None:
    path = spark_file("plain.orc")
    before = rows_of(path)
    rewrite(path, set_true_types(tail_of(path), SPARK_COLUMNS))
    assert schema_of(path) == f"struct<{USER}>"
    assert [row[:9] for row in rows_of(path)] == [row[:9] for row in before]
    assert not tail_of(path).is_acid
    assert [key for key in tail_of(path).user_metadata if "acid" in key] == []


@pytest.mark.parametrize("codec", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_every_codec(flat_file: Callable[..., Path], codec: str) -> None:
    keys = [[(1, B0, n) for n in range(5)], [(1, B0, n) for n in range(5, 9)]]
    path = flat_file(keys, compression=pyorc.CompressionKind[codec])
    tail = nested(path, ONE)
    assert tail.compression.name == codec
    assert rows_of(path) == [(0, 1, B0, n, 9, (n,)) for n in range(9)]
    assert tail.user_metadata["hive.acid.key.index"] == f"1,{B0},4;1,{B0},8;".encode()
    assert pyarrow.orc.ORCFile(str(path)).read().num_rows == 9


def test_a_footer_longer_than_a_block_is_cut_into_chunks(tmp_path: Path) -> None:
    """Readers inflate a chunk into a buffer of one block; a longer one breaks them."""
    path = tmp_path / "wide.orc"
    columns = [Column(f"column_with_a_rather_long_name_{n}", "int") for n in range(300)]
    schema = "struct<" + ",".join(f"c{n}:int" for n in range(300)) + ">"
    with path.open("wb") as file:
        writer = pyorc.Writer(file, schema, compression_block_size=1024, memory_block_size=1024)
        writer.write(tuple(range(300)))
        writer.close()
    rewrite(path, set_true_types(tail_of(path), columns))
    source = tail_of(path).source
    assert source is not None
    assert source.block_size == 1024
    assert rows_of(path) == [tuple(range(300))]
    assert pyarrow.orc.ORCFile(str(path)).schema.names == [column.name for column in columns]


def test_an_empty_event_file_can_be_published(flat_file: Callable[..., Path]) -> None:
    path = flat_file([[]])
    tail = nested(path, ONE)
    assert tail.is_acid
    assert tail.user_metadata["hive.acid.stats"] == b"0,0,0"
    assert tail.user_metadata["hive.acid.key.index"] == b""


def test_no_index_where_a_stripe_holds_several_write_ids_or_buckets(flat_file: Callable[..., Path]) -> None:
    several = [
        [[(1, B0, 0), (2, B0, 0)]],
        [[(1, B0, 0), (1, B0 + 1, 0)]],
        [[(1, B0, 0)], [(1, B0, 1), (3, B0, 0)]],
    ]
    for keys in several:
        tail = nested(flat_file(keys), ONE)
        assert "hive.acid.key.index" not in tail.user_metadata
        assert tail.user_metadata["hive.acid.stats"] == f"{tail.number_of_rows},0,0".encode()
    exact = [[(1, B0, 0), (1, B0, 1)], [(2, B0, 0)], [(2, B0 + 1, 0)]]
    index = nested(flat_file(exact), ONE).user_metadata["hive.acid.key.index"]
    assert index == f"1,{B0},1;2,{B0},0;2,{B0 + 1},0;".encode()


@pytest.mark.parametrize(
    "stripes",
    [
        [[(2, B0, 0)], [(1, B0, 0)]],
        [[(1, B1, 0)], [(1, B0, 0)]],
        [[(1, B0, 5)], [(1, B0, 4)]],
        [[(1, B0, 0), (3, B0, 0)], [(2, B0, 0)]],
        [[(1, B0, 0), (1, B1, 0)], [(1, B0, 1)]],
    ],
)
@pytest.mark.parametrize("deletes", [False, True])
def test_stripes_out_of_order_are_refused(
    flat_file: Callable[..., Path], stripes: list[list[Key]], *, deletes: bool
) -> None:
    path = flat_file(stripes, deletes=deletes)
    with pytest.raises(BadFileError, match=r"not in ascending key order: .*flat\.orc"):
        acid_metadata(tail_of(path), deletes=deletes)


def test_a_row_id_twice_is_refused_in_inserts_only(flat_file: Callable[..., Path]) -> None:
    across, inside = [[(1, B0, 4)], [(1, B0, 4)]], [[(1, B0, 4), (1, B0, 4)]]
    for stripes, message in ((across, "ascending"), (inside, "twice")):
        path = flat_file(stripes)
        with pytest.raises(BadFileError, match=message):
            acid_metadata(tail_of(path), deletes=False)
        path = flat_file(stripes, deletes=True)  # two transactions may have deleted one row (Hive 3.1)
        assert acid_metadata(tail_of(path), deletes=True)["hive.acid.stats"] == "0,0,2"


@pytest.mark.parametrize(
    ("file", "deletes", "message"),
    [
        ({}, True, "operation is not 2"),
        ({"deletes": True}, False, "operation is not 0"),
        ({"row": [True, None]}, False, "row must be null in every delete event"),
        ({"deletes": True, "row": [None, True]}, True, "row must be null in every delete event"),
    ],
)
def test_events_of_another_kind_are_refused(
    flat_file: Callable[..., Path], file: dict[str, object], message: str, *, deletes: bool
) -> None:
    path = flat_file([[(1, B0, 0), (1, B0, 1)]], **file)
    with pytest.raises(BadFileError, match=message):
        acid_metadata(tail_of(path), deletes=deletes)


def test_files_that_are_not_flat_events_are_refused(spark_file: SparkFile, tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"not a flat file of ACID events: .*plain\.orc"):
        nest_row_columns(tail_of(spark_file("plain.orc")), SPARK_COLUMNS, {})
    path = spark_file("insert.orc")
    nested(path, SPARK_COLUMNS)
    with pytest.raises(BadFileError, match="not a flat file"):
        nest_row_columns(tail_of(path), SPARK_COLUMNS, {})
    empty = tmp_path / "empty"
    empty.touch()
    for call in (
        lambda t: nest_row_columns(t, (), {}),
        lambda t: set_true_types(t, ()),
        lambda t: acid_metadata(t, deletes=True),
    ):
        with pytest.raises(BadFileError, match="empty"):
            call(tail_of(empty))


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        (3, "bigint"), (0, "string"), (7, "decimal(10,3)"), (7, "decimal(12,2)"), (11, "date"), (9, "binary"),
        (10, "string"), (13, "array<int>"), (13, "array<array<string>>"), (14, "map<string,int>"),
        (15, "struct<x:int>"), (15, "struct<x:bigint,y:array<struct<z:string>>>"), (4, "timestamp"),
    ],
)  # fmt: skip
def test_a_type_that_the_streams_do_not_hold_is_refused(spark_file: SparkFile, at: int, wrong: str) -> None:
    columns = list(SPARK_COLUMNS)
    columns[at] = replace(columns[at], type=wrong)
    for name, call in (
        ("insert.orc", lambda t: nest_row_columns(t, columns, {})),
        ("plain.orc", lambda t: set_true_types(t, columns)),
    ):
        with pytest.raises(BadFileError, match=r"column \d+ of the file is"):
            call(tail_of(spark_file(name)))


def test_another_number_of_columns_is_refused(spark_file: SparkFile) -> None:
    with pytest.raises(BadFileError, match="the file has 16 columns, the table 15"):
        nest_row_columns(tail_of(spark_file("insert.orc")), SPARK_COLUMNS[:-1], {})
    with pytest.raises(BadFileError, match="the file has 16 columns, the table 17"):
        set_true_types(tail_of(spark_file("plain.orc")), (*SPARK_COLUMNS, Column("more", "int")))
