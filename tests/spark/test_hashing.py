"""Bucket numbers as Spark expressions against the published vectors and the plain Python reference."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.schema import bucket_hash as reference
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.bucket_hash_expressions import bucket_number
from hiveacid.spark.formats.types import spark_type
from hiveacid.spark.session.environment import SparkEnvironment
from support.corpus.golden_tables import find

VECTORS = json.loads(
    (Path(__file__).parents[1] / "golden" / "bucket_hash_vectors.json").read_text(encoding="utf-8")
)
MANY = (1 << 31) - 1  # buckets: nearly the whole hash shows
ZONE = "Asia/Kolkata"


@pytest.fixture(params=[True, False], ids=["ansi", "lenient"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    wanted = {"spark.sql.ansi.enabled": str(request.param).lower(), "spark.sql.session.timeZone": ZONE}
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


def numbered(text: str) -> str:
    return "varchar(20)" if text == "varchar" else text  # the vectors leave the length out


def literal_frame(spark: SparkSession, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Make a frame of the vectors' values: dates are days there, floats texts."""
    fields = [T.StructField(f"c{i}", spark_type(parse_type(text))) for i, text in enumerate(types)]
    given = [T.StructField(f.name, T.IntegerType() if is_date(f) else f.dataType) for f in fields]
    converted = [
        [
            float(v) if v is not None and text in ("float", "double") else v
            for text, v in zip(types, row, strict=True)
        ]
        for row in rows
    ]
    frame = spark.createDataFrame(converted, T.StructType(given))
    return frame.select(
        *[F.date_from_unix_date(f.name).alias(f.name) if is_date(f) else F.col(f.name) for f in fields]
    )


def is_date(field: T.StructField) -> bool:
    return isinstance(field.dataType, T.DateType)


def expected_bucket(code: int) -> int:
    return (code & 0x7FFFFFFF) % MANY


def test_published_vectors(session: SparkSession) -> None:
    vectors: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for vector in VECTORS["single"]:
        vectors[numbered(vector["type"])].append(vector)
    types = list(vectors)
    rows = list(zip_longest(*vectors.values()))
    frame = literal_frame(session, types, [[cell and cell["value"] for cell in row] for row in rows])
    cases = [(p, text, version) for p, text in enumerate(types) for version in (1, 2)]
    columns = [
        bucket_number(SparkEnvironment(session), [F.col(f"c{place}")], [text], version, MANY)
        for place, text, version in cases
    ]
    found = frame.select(*columns).collect()
    wrong = [
        (case, row[case[0]]["value"], code)
        for row, codes in zip(rows, found, strict=True)
        for case, code in zip(cases, codes, strict=True)
        if row[case[0]] is not None and code != expected_bucket(row[case[0]][f"version{case[2]}"])
    ]
    assert wrong == []


@pytest.mark.parametrize("version", [1, 2])
def test_several_columns_fold_in_order(session: SparkSession, version: int) -> None:
    (vector,) = VECTORS["several"]
    frame = literal_frame(session, vector["types"], [vector["values"]])
    columns = [F.col(name) for name in frame.columns]
    code = bucket_number(SparkEnvironment(session), columns, vector["types"], version, MANY)
    assert frame.select(code).collect()[0][0] == expected_bucket(vector[f"version{version}"])


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-32768, 32767),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": TEXT,
    "varchar(12)": TEXT,
    "char(12)": TEXT.map(lambda text: text.rstrip(" ").ljust(12)),
    "date": st.dates(),
    "decimal(9,2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "decimal(38,10)": st.decimals(-(10**27), 10**27, places=10),
    "binary": st.binary(max_size=12),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - wall-clock times
    "array<int>": st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=4),
    "array<string>": st.lists(st.none() | TEXT, max_size=3),
    "map<string,bigint>": st.dictionaries(TEXT, st.none() | LONGS, max_size=3),
    "map<int,array<date>>": st.dictionaries(st.integers(0, 99), st.lists(st.dates(), max_size=2), max_size=2),
    "struct<a:smallint,b:string>": st.tuples(st.integers(-9, 9), st.none() | TEXT),
    "array<struct<k:double,t:string>>": st.lists(st.tuples(st.floats(), TEXT), max_size=2),
}


def random_rows(count: int) -> list[tuple[Any, ...]]:
    """Return ``count`` rows that hypothesis thinks worth trying, a value of each type or None."""
    rows: list[tuple[Any, ...]] = []

    @settings(
        max_examples=count, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.tuples(*[st.none() | values for values in VALUES.values()]))
    def collect(row: tuple[Any, ...]) -> None:
        rows.append(row)

    collect()
    return rows


def frame_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Make a frame of the rows; times go through text, so that Python's time zone plays no part."""
    place = list(VALUES).index("timestamp")
    fields = [T.StructField(f"c{i}", spark_type(parse_type(text))) for i, text in enumerate(VALUES)]
    fields[place] = T.StructField(f"c{place}", T.StringType())
    plain = [(*row[:place], row[place] and row[place].isoformat(" "), *row[place + 1 :]) for row in rows]
    frame = spark.createDataFrame(plain, T.StructType(fields))
    return frame.withColumn(f"c{place}", F.col(f"c{place}").cast("timestamp")).cache()


def hashable(version: int) -> list[tuple[int, str]]:
    """Return places and texts of the types that can be bucketed by."""
    refused = {1: "timestamp", 2: "binary"}[version]
    return [(place, text) for place, text in enumerate(VALUES) if text != refused]


@pytest.mark.exhaustive("published values, and unit/core/schema with random ones, stay")
def test_random_values_of_every_type(spark: SparkSession) -> None:
    rows = random_rows(400)
    before = {key: spark.conf.get(key) for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    frame = frame_of(spark, rows)
    wrong = []
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        wrong += mismatches(frame, rows)
    frame.unpersist()
    for key, value in before.items():
        spark.conf.set(key, value)
    assert wrong == []


def mismatches(frame: DataFrame, rows: Sequence[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    spark = frame.sparkSession
    cases = [(place, text, version) for version in (1, 2) for place, text in hashable(version)]
    columns = [
        bucket_number(SparkEnvironment(spark), [F.col(f"c{place}")], [text], version, MANY)
        for place, text, version in cases
    ]
    return [
        (*case, row[case[0]], code)
        for row, codes in zip(rows, frame.select(*columns).collect(), strict=True)
        for case, code in zip(cases, codes, strict=True)
        if code != reference.bucket_number([row[case[0]]], [parse_type(case[1])], MANY, case[2])
    ]


def test_bytes_that_are_no_utf8_hash_as_they_are(spark: SparkSession) -> None:
    data = b"\xff\xfe\x80abc\xc3"
    frame = spark.createDataFrame([(bytearray(data),)], "b binary")
    text = F.col("b").cast("string")
    for version, code in ((1, reference._bytes_hash(data, 0)), (2, reference._murmur(data))):
        bucket = bucket_number(SparkEnvironment(spark), [text], ["string"], version, MANY)
        assert frame.select(bucket).collect()[0][0] == expected_bucket(code)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("timestamp", 1),
        ("binary", 2),
        ("timestamp with local time zone", 2),
        ("uniontype<int,string>", 2),
        ("map<string,timestamp>", 2),  # a map's values are hashed by version 1
    ],
)
def test_types_whose_hash_varies_are_refused_when_planning(
    spark: SparkSession, text: str, version: int
) -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot be bucketed"):
        bucket_number(SparkEnvironment(spark), [F.lit(None)], [text], version, 4)


def test_the_bucket_is_below_the_count(spark: SparkSession) -> None:
    frame = spark.range(200).select((F.col("id") * 7919).cast("int").alias("n"))
    bucket = bucket_number(SparkEnvironment(spark), [F.col("n")], ["int"], 2, 3)
    found = [row[0] for row in frame.select(bucket).collect()]
    expected = [reference.bucket_number([n * 7919], [Primitive("int")], 3, 2) for n in range(200)]
    assert found == expected
    assert set(found) == {0, 1, 2}


BUCKETED = [
    ("hive-4.0.1", "bucketed", "1_crud", "id", "bigint"),
    ("hive-4.0.1", "convert_orig_bucketed", "1_converted", "a", "int"),
    ("hive-3.1.3", "part_bucketed", "1_insert", "id", "int"),
    ("hive-3.1.3", "streaming", "5_minor", "a", "int"),
    ("trino-476", "bucket", "", "id", "bigint"),
]


@pytest.mark.parametrize(("engine", "scenario", "snapshot", "column", "text"), BUCKETED)
def test_rows_of_real_engines_lie_in_our_buckets(
    spark: SparkSession, engine: str, scenario: str, snapshot: str, column: str, text: str
) -> None:
    golden = find(engine, scenario, snapshot)
    create = golden.show_create_table.lower()
    count = int(re.search(r"into (\d+) buckets", create)[1])  # type: ignore[index]
    version = 2 if re.search(r"bucketing_version'?\s*=\s*'?2", create) else 1
    paths = [row.get("input__file__name") or row["$path"] for row in golden.rows]
    real = [int(re.match(r"(?:bucket_)?(\d+)", path.rpartition("/")[2])[1]) for path in paths]  # type: ignore[index]
    frame = spark.createDataFrame([(int(row[column]),) for row in golden.rows], "v bigint")
    value = F.col("v").cast("bigint" if text == "bigint" else "int")
    found = frame.select(bucket_number(SparkEnvironment(spark), [value], [text], version, count)).collect()
    assert [row[0] for row in found] == real
    assert len(set(real)) > 1
