"""Bucket hashes of both bucketing versions: the published vectors, and types they leave out."""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hiveacid.core.schema import bucket_hash as hashing
from hiveacid.core.schema.bucket_hash import bucket_hash, bucket_number, check_bucketing_type
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import ConfigError, UnsupportedFeatureError

GOLDEN = Path(__file__).parents[3] / "golden" / "bucket_hash_vectors.json"
VECTORS = json.loads(GOLDEN.read_text(encoding="utf-8"))


def value_of(type_text: str, value: Any) -> Any:
    return float(value) if type_text in ("float", "double") else value


def one(type_text: str, value: object, version: int) -> int:
    # a varchar without a length stands in the vectors; Hive itself always has one
    hive_type = Primitive("varchar", (20,)) if type_text == "varchar" else parse_type(type_text)
    return bucket_hash([value], [hive_type], version)


@pytest.mark.parametrize(
    "vector", VECTORS["single"], ids=lambda vector: f"{vector['type']}-{vector['value']}"[:40]
)
@pytest.mark.parametrize("version", [1, 2])
def test_published_vectors(vector: dict[str, Any], version: int) -> None:
    value = value_of(vector["type"], vector["value"])
    assert one(vector["type"], value, version) == vector[f"version{version}"]


@pytest.mark.parametrize("vector", VECTORS["several"])
@pytest.mark.parametrize("version", [1, 2])
def test_published_vectors_of_several_columns(vector: dict[str, Any], version: int) -> None:
    values = [value_of(text, value) for text, value in zip(vector["types"], vector["values"], strict=True)]
    types = [parse_type(text) for text in vector["types"]]
    assert bucket_hash(values, types, version) == vector[f"version{version}"]


@pytest.mark.parametrize("version", [1, 2])
def test_null_is_zero_and_booleans_and_tinyints_are_themselves(version: int) -> None:
    for text in ("string", "int", "array<int>", "timestamp", "decimal(5,2)"):
        assert bucket_hash([None], [parse_type(text)], 2) == 0
    assert [one("boolean", value, version) for value in (True, False)] == [1, 0]
    assert one("tinyint", -7, version) == -7


@pytest.mark.parametrize("version", [1, 2])
def test_char_ignores_the_blanks_at_its_end(version: int) -> None:
    assert one("char(10)", "abc       ", version) == one("varchar(10)", "abc", version)
    assert one("varchar(10)", "abc ", version) != one("varchar(10)", "abc", version)


@pytest.mark.parametrize("version", [1, 2])
def test_dates_are_their_days(version: int) -> None:
    assert one("date", date(2015, 11, 19), version) == one("date", 16758, version)


def test_binary_in_version_1_is_the_writables_hash() -> None:
    assert one("binary", b"test string", 1) == one("varchar(20)", "test string", 1)
    assert one("binary", b"\xff", 1) == 31 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("0.00", 0),
        ("1.5", 31 * 15 + 1),
        ("1.50", 31 * 15 + 1),
        ("-1.5", -31 * 15 + 1),
        ("100", 3100),
        ("1E+2", 3100),
        # 2^32 + 1 has the words 1 and 1: (31 * 1 + 1) * 31
        ("4294967297", 992),
    ],
)
def test_decimal_in_version_1_is_the_big_decimals_hash(text: str, expected: int) -> None:
    assert one("decimal(20,2)", Decimal(text), 1) == expected


def test_decimal_in_version_2_hashes_the_unscaled_bytes() -> None:
    # BigInteger.toByteArray of -129, 128 and 127, hashed as strings of one or two bytes
    assert one("decimal(10,2)", Decimal("1.27"), 2) == one("string", "\x7f", 2)
    assert one("decimal(10,2)", Decimal("1.270"), 2) == one("string", "\x7f", 2)
    assert one("decimal(10,2)", Decimal(0), 2) == one("string", "\x00", 2)
    assert one("decimal(10,2)", Decimal(128), 2) != one("decimal(10,2)", Decimal(-128), 2)
    with pytest.raises(UnsupportedFeatureError):
        one("decimal(10,2)", Decimal("NaN"), 2)


def test_timestamp_in_version_2_hashes_the_writables_bytes() -> None:
    # whole seconds: four big-endian bytes, as an int
    assert one("timestamp", datetime(2015, 11, 19, 1, 2, 3), 2) == one("int", 1447894923, 2)  # noqa: DTZ001
    # .5 s: flag in the top bit, then the reversed fraction 5 in one byte
    half = datetime(1970, 1, 1, 0, 0, 0, 500000)  # noqa: DTZ001
    assert murmur_of(half) == murmur_bytes(b"\x80\0\0\0\5")


def test_timestamps_outside_31_bits_carry_a_second_number() -> None:
    # one second before 1970: low 31 bits all set with the flag, then -0 - 1 = -1 and -1
    before = datetime(1969, 12, 31, 23, 59, 59)  # noqa: DTZ001
    assert murmur_of(before) == murmur_bytes(b"\xff\xff\xff\xff\xff\xff")
    # 2^31 s: low bits zero, then -1 and 1; with .000123 s the reversed fraction is 321000: -321001 in 3 bytes
    after = datetime(2038, 1, 19, 3, 14, 8)  # noqa: DTZ001
    assert murmur_of(after) == murmur_bytes(b"\x80\0\0\0\xff\x01")
    fraction = after.replace(microsecond=123)
    assert murmur_of(fraction) == murmur_bytes(b"\x80\0\0\0" + b"\x85" + (321000).to_bytes(3) + b"\x01")


def murmur_of(value: datetime) -> int:
    return one("timestamp", value, 2)


def murmur_bytes(data: bytes) -> int:
    return hashing._murmur(data)


def test_structs_fold_their_fields() -> None:
    hive_type = parse_type("struct<a:int,b:string>")
    expected = bucket_hash([3, "x"], [parse_type("int"), parse_type("string")], 2)
    assert bucket_hash([{"b": "x", "a": 3}], [hive_type], 2) == expected
    assert bucket_hash([(3, "x")], [hive_type], 2) == expected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("timestamp", 1),
        ("binary", 2),
        ("timestamp with local time zone", 2),
        ("uniontype<int,string>", 1),
        ("array<binary>", 2),
        ("map<int,timestamp>", 2),
        ("struct<a:binary>", 2),
    ],
)
def test_types_whose_hash_is_not_knowable_are_refused(text: str, version: int) -> None:
    with pytest.raises(UnsupportedFeatureError):
        check_bucketing_type(parse_type(text), version)
    check_bucketing_type(parse_type("map<int,binary>"), 2)  # map values are hashed by version 1


def test_bucket_number_is_never_negative() -> None:
    types = [parse_type("int")]
    assert bucket_number([-2147483648], types, 7, 1) == 0
    assert bucket_number([-1], types, 4, 1) == 3
    assert bucket_number([300000], types, 4, 2) == (-678663480 & 0x7FFFFFFF) % 4


def test_wrong_arguments() -> None:
    types = [parse_type("int")]
    with pytest.raises(ConfigError):
        bucket_hash([1], types, 3)
    with pytest.raises(ConfigError):
        bucket_hash([1, 2], types, 2)
