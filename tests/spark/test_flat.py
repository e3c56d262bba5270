"""Files of insert-only and plain tables: real ones read right, ours written and read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.core.model import Column, StorageFormat, TableDefinition, TableName
from hiveacid.core.schema.evolution import Matching, map_columns
from hiveacid.core.schema.storage_formats import (
    AVRO,
    JSONFILE,
    ORC,
    PARQUET,
    TEXTFILE,
    FileKind,
    supported_file_kind,
)
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.acid_footer import set_true_types
from hiveacid.orc.tail import read_tail
from hiveacid.spark.formats import flat_files as flat
from hiveacid.spark.formats.expressions import selected
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import spark_path
from support.corpus.golden_tables import Golden, find, unpack

pytestmark = pytest.mark.sampled(8, "types and formats are in other files, too")


STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
FORMATS = {"orc": ORC, "parquet": PARQUET, "text": TEXTFILE}
VALUES = {  # name: type, three values as Spark SQL writes them
    "flag": ("boolean", "true", "false"),
    "tiny": ("tinyint", "-128Y", "127Y"),
    "small": ("smallint", "-32768S", "32767S"),
    "number": ("int", "-2147483648", "2147483647"),
    "big": ("bigint", "-9223372036854775808L", "9223372036854775807L"),
    "single": ("float", "float('NaN')", "float('-1.5E-10')"),
    "twice": ("double", "double('-Infinity')", "1.0E300D"),
    "money": ("decimal(10,2)", "-99999999.99BD", "0.10BD"),
    "exact": ("decimal(38,18)", "12345678901234567890.123456789012345678BD", "-0.000000000000000001BD"),
    "words": ("string", "''", "'héllo 世界 \\\\ \"q\" \\\\N'"),
    "short": ("varchar(5)", "'abcde'", "'é世'"),
    "padded": ("char(4)", "'ab  '", "'    '"),
    "raw": ("binary", "X'00FF1001020A'", "X''"),
    "day": ("date", "date'0001-01-01'", "date'9999-12-31'"),
    "moment": ("timestamp", "timestamp'1900-01-01 00:00:00.000001'", "timestamp'2024-02-29 23:59:59.5'"),
    "list": ("array<int>", "array(1, null, -3)", "array()"),
    "pairs": ("map<string,bigint>", "map('a', 1L, 'b', null)", "map()"),
    "record": (
        "struct<x:int,y:string>",
        "named_struct('x', 1, 'y', 's')",
        "named_struct('x', null, 'y', 't')",
    ),
    "deep": (
        "array<struct<k:string,m:map<int,array<double>>>>",
        "array(named_struct('k', 'q', 'm', map(1, array(1.5D, 2.0D))))",
        "array(named_struct('k', null, 'm', null))",
    ),
    "odd `name`.x": ("string", "'a'", "'b'"),
}


def table_of(
    storage: StorageFormat, columns: dict[str, str] | None = None, **properties: str
) -> TableDefinition:
    named = columns or {name: value[0] for name, value in VALUES.items()}
    return TableDefinition(
        TableName("d", "t"),
        tuple(Column(name, kind) for name, kind in named.items()),
        replace(storage, serde_properties=tuple(properties.items())),
        "/warehouse/t",
    )


def all_values(spark: SparkSession, table: TableDefinition) -> DataFrame:
    """Return two rows of values and one of NULLs, of the table's types."""
    rows = [[F.expr(VALUES[c.name][i]) for c in table.columns] for i in (1, 2)]
    rows.append([F.lit(None) for _ in table.columns])
    kinds = [c.type.replace("varchar(5)", "string").replace("char(4)", "string") for c in table.columns]
    named = [
        [value.cast(kind).alias(c.name) for value, kind, c in zip(row, kinds, table.columns, strict=True)]
        for row in rows
    ]
    frames = [spark.range(1).select(*row) for row in named]
    return frames[0].unionByName(frames[1]).unionByName(frames[2])


def shown(frame: DataFrame) -> list[str]:
    """Return the rows as JSON, sorted."""
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
    return sorted(row[0] for row in frame.select(F.to_json(F.struct("*"), options)).collect())


def write(
    spark: SparkSession, table: TableDefinition, frame: DataFrame, target: Path, keys: Sequence[str] = ()
) -> list[str]:
    """Write as a table's writer does; return the URIs of the files."""
    env = SparkEnvironment(spark)
    placed = selected(frame, [*flat.file_values(env, table), *keys])
    flat.write(env, table, placed, str(target), keys, {"compression": "snappy"})
    return uris(data_files(target))


def uris(files: Sequence[Path]) -> list[str]:
    return [spark_path(str(file)) for file in files]


def data_files(target: Path) -> list[Path]:
    return sorted(path for path in target.rglob("part-*") if path.is_file())


def read(spark: SparkSession, table: TableDefinition, files: Sequence[str]) -> DataFrame:
    return flat.read(SparkEnvironment(spark), table, files, STRICT)


def stored(spark: SparkSession, table: TableDefinition, path: Path) -> DataFrame:
    """Read one file by what its footer says, as a scan does."""
    if table.storage.input_format != ORC.input_format:
        return read(spark, table, uris([path]))
    schema = read_tail(LocalFileSystem(), str(path), path.stat().st_size).columns.schema
    how = map_columns(table.columns, schema, Matching.POSITION)
    return flat.read(SparkEnvironment(spark), table, uris([path]), STRICT, how)


@pytest.fixture(params=["UTC", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_type_comes_back(spark: SparkSession, tmp_path: Path, kind: str, zone: str) -> None:  # noqa: ARG001
    properties = {"escape.delim": "\\"} if kind == "text" else {}
    table = table_of(FORMATS[kind], **properties)
    frame = all_values(spark, table)
    files = write(spark, table, frame, tmp_path / "t")
    found = read(spark, table, files)
    assert shown(found) == shown(frame)
    assert found.columns == list(VALUES)
    plain = [(name, kind) for name, kind in frame.dtypes if name != "zz"]
    assert found.dtypes == plain


@pytest.mark.parametrize("kind", FORMATS)
def test_files_can_be_told_apart_by_their_metadata(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = table_of(FORMATS[kind], {"a": "int", "b": "char(3)"})
    frame = spark.range(4).select(F.col("id").cast("int").alias("a"), F.lit("x  ").alias("b")).repartition(2)
    files = write(spark, table, frame, tmp_path / "t")
    found = read(spark, table, files).select("b", F.col("_metadata.file_path").alias("path"), "a")
    assert {row["path"].rpartition("/")[2] for row in found.collect()} == {
        f.rpartition("/")[2] for f in files
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_keys_become_directories(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = table_of(FORMATS[kind], {"a": "int"})
    frame = spark.range(3).select(
        F.col("id").cast("int").alias("a"), F.concat(F.lit("k"), "id").alias("__p0")
    )
    write(spark, table, frame, tmp_path / "t", ["__p0"])
    assert [path.parent.name for path in data_files(tmp_path / "t")] == ["__p0=k0", "__p0=k1", "__p0=k2"]
    found = [stored(spark, table, path) for path in data_files(tmp_path / "t")]
    assert [shown(frame) for frame in found] == [[f'{{"a":{n}}}'] for n in range(3)]


def test_existing_directories_are_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(TEXTFILE, {"a": "int"})
    with pytest.raises(Exception, match=r"PATH_ALREADY_EXISTS|already exists"):
        write(spark, table, spark.range(1).select(F.col("id").cast("int").alias("a")), tmp_path)


def test_orc_files_with_true_names_and_types_are_read_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(ORC)
    frame = all_values(spark, table)
    write(spark, table, frame, tmp_path / "t")
    fs = LocalFileSystem(durable=False)
    for path in data_files(tmp_path / "t"):
        start, tail = set_true_types(read_tail(fs, str(path), path.stat().st_size), table.columns)
        fs.replace_tail(str(path), start, tail)
    files = uris(data_files(tmp_path / "t"))
    assert shown(read(spark, table, files)) == shown(frame)
    table = replace(table, columns=table.columns[:-1])  # the one with back-quotes
    turned = replace(table, columns=(*reversed(table.columns), Column("added", "int")))
    found = read(spark, turned, files)
    names = [column.name for column in table.columns]
    assert shown(found.select(*names)) == shown(frame.select(*names))
    assert found.where("added is not null").count() == 0


def test_orc_files_without_known_names_are_read_by_position(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "a")], "x int, y string")
    table = table_of(ORC, {"a": "int", "b": "string"})
    for names in (["x", "y"], ["_col0", "_col1"]):
        frame.toDF(*names).write.orc(str(tmp_path / names[0]))
        found = []
        for path in data_files(tmp_path / names[0]):
            found += stored(spark, table, path).collect()
        assert [tuple(row) for row in found] == [(1, "a")]


def test_parquet_files_hold_what_hive_3_can_read(spark: SparkSession, tmp_path: Path) -> None:
    """Its reader takes timestamps as INT96 and decimals as bytes only."""
    table = table_of(PARQUET, {"money": "decimal(10,2)", "moment": "timestamp", "list": "array<int>"})
    keys = [key for key in flat._PARQUET if "Timestamp" in key or "Legacy" in key]
    before = {key: spark.conf.get(key) for key in keys}
    spark.conf.set(keys[0], "TIMESTAMP_MICROS")
    write(spark, table, all_values(spark, table), tmp_path / "t")
    assert spark.conf.get(keys[0]) == "TIMESTAMP_MICROS"
    spark.conf.set(keys[0], str(before[keys[0]]))
    assert {key: spark.conf.get(key) for key in keys} == before
    schema = pq.ParquetFile(data_files(tmp_path / "t")[0]).schema
    assert [schema.column(i).physical_type for i in range(3)] == ["FIXED_LEN_BYTE_ARRAY", "INT96", "INT32"]
    assert schema.column(2).path == "list.bag.array"


def test_parquet_keeps_the_wall_clock_of_the_jvm(spark: SparkSession, tmp_path: Path) -> None:
    """What Hive writes: the instant at which a clock in the writer's zone shows the value."""
    table = table_of(PARQUET, {"moment": "timestamp"})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    write(spark, table, spark.sql("select timestamp'2024-05-06 07:08:09' as moment"), tmp_path / "t")
    spark.conf.set("spark.sql.session.timeZone", str(before))
    (stored,) = pq.read_table(data_files(tmp_path / "t")[0])["moment"].to_pylist()
    shown_there = stored.replace(tzinfo=ZoneInfo("UTC")).astimezone(
        ZoneInfo(SparkEnvironment(spark).jvm_time_zone)
    )
    assert shown_there.strftime("%Y-%m-%d %H:%M:%S") == "2024-05-06 07:08:09"


def test_text_is_what_hive_writes(spark: SparkSession, tmp_path: Path, zone: str) -> None:  # noqa: ARG001
    names = ["flag", "twice", "money", "padded", "raw", "day", "moment", "list", "pairs", "record", "deep"]
    table = table_of(TEXTFILE, {name: VALUES[name][0] for name in names})
    write(spark, table, all_values(spark, table).limit(1).coalesce(1), tmp_path / "t")
    (line,) = data_files(tmp_path / "t")[0].read_text(encoding="utf-8").splitlines()
    assert line.split("\x01") == [
        *[
            "true",
            "-Infinity",
            "-99999999.99",
            "ab  ",
            "AP8QAQIK",
            "0001-01-01",
            "1900-01-01 00:00:00.000001",
        ],
        *["1\x02\\N\x02-3", "a\x031\x02b\x03\\N", "1\x02s", "q\x031\x051.5\x062.0"],
    ]


def test_instants_in_text_are_utc_whatever_the_session_shows(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(TEXTFILE, {"moment": "timestamp with local time zone"})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    # 02:30 UTC is a time that New York's clocks skipped that day
    frame = spark.sql("select timestamp'2024-03-10 02:30:00.25 UTC' as moment")
    files = write(spark, table, frame, tmp_path / "t")
    assert data_files(tmp_path / "t")[0].read_text() == "2024-03-10 02:30:00.250000 UTC\n"
    assert shown(read(spark, table, files)) == shown(frame)
    spark.conf.set("spark.sql.session.timeZone", str(before))


def insert_only(engine: str, scenario: str, snapshots: Sequence[str]) -> list[Golden]:
    return [find(engine, scenario, snapshot) for snapshot in snapshots]


SNAPSHOTS = ["1_insert", "2_aborted", "3_minor_uncleaned", "4_major_uncleaned", "5_iow_union"]
CORPUS = [
    *[(golden, ORC) for golden in insert_only("hive-3.1.3", "insert_only_orc", SNAPSHOTS)],
    *[(golden, TEXTFILE) for golden in insert_only("hive-3.1.3", "insert_only_textfile", SNAPSHOTS)],
    *[(golden, PARQUET) for golden in insert_only("hive-4.0.1", "insert_only_parquet", SNAPSHOTS)],
]


@pytest.mark.parametrize(("golden", "storage"), CORPUS, ids=[str(golden) for golden, _ in CORPUS])
def test_files_of_real_hive_read_as_hive_read_them(
    spark: SparkSession, tmp_path: Path, golden: Golden, storage: StorageFormat
) -> None:
    location = unpack(golden, tmp_path / "t")
    names = sorted({row["input__file__name"] for row in golden.rows})
    found = read(
        spark, table_of(storage, {"a": "int", "b": "string"}), uris([location / name for name in names])
    )
    with_path = found.select("a", "b", F.substring_index("_metadata.file_path", "/t/", -1)).collect()
    expected = [(row["a"], row["b"], row["input__file__name"]) for row in golden.rows]
    assert sorted(map(tuple, with_path), key=str) == sorted(expected, key=str)


def test_avro_needs_sparks_package(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(AVRO, {"a": "int"})
    with pytest.raises(UnsupportedFeatureError, match="is read but not written"):
        flat.file_values(SparkEnvironment(spark), table)
    with pytest.raises(UnsupportedFeatureError, match=r"org\.apache\.spark:spark-avro_2\.1[23]:"):
        read(spark, table, [tmp_path.as_uri()])


def test_instants_are_kept_in_orc_and_text_only(spark: SparkSession) -> None:
    table = table_of(PARQUET, {"moment": "timestamp with local time zone"})
    with pytest.raises(UnsupportedFeatureError, match="column moment"):
        flat.file_values(SparkEnvironment(spark), table)


def test_other_serdes_are_refused_by_name(spark: SparkSession) -> None:
    assert supported_file_kind(table_of(ORC)) is FileKind.ORC
    with pytest.raises(UnsupportedFeatureError, match="JsonSerDe"):
        read(spark, table_of(JSONFILE, {"a": "int"}), ["file:/nothing"])
