"""Directory and file names of the ACID layout."""

import pytest

from hiveacid.core.format.names import (
    BaseName,
    BucketFile,
    DeltaName,
    LayoutLevel,
    OriginalFile,
    format_bucket_file,
    format_original_file,
    is_hidden,
    parse_bucket_file,
    parse_directory,
    parse_original_file,
)
from hiveacid.core.model import TxnId, WriteId
from hiveacid.errors import BadDirectoryNameError


def delta(
    low: int, high: int, statement: int | None = None, visibility: int = 0, *, delete: bool = False
) -> DeltaName:
    return DeltaName(delete, WriteId(low), WriteId(high), statement, TxnId(visibility))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base_0000005", BaseName(WriteId(5))),
        ("base_0000009_v0000137", BaseName(WriteId(9), TxnId(137))),
        ("base_12345678901", BaseName(WriteId(12345678901))),
        ("base_-9223372036854775808", BaseName(WriteId(-9223372036854775808))),
        ("delta_0000001_0000001_0000", delta(1, 1, 0)),
        ("delta_10000001_10000001_0000", delta(10000001, 10000001, 0)),
        ("delta_0000002_0000005", delta(2, 5)),
        ("delta_0000001_0000006_v0000126", delta(1, 6, None, 126)),
        ("delete_delta_0000001_0000006_v0000126", delta(1, 6, None, 126, delete=True)),
        ("delete_delta_0000004_0000004_0001", delta(4, 4, 1, delete=True)),
        ("delta_0000004_0000004_0007_v0000009", delta(4, 4, 7, 9)),
    ],
)
def test_directory_names_round_trip(name: str, expected: BaseName | DeltaName) -> None:
    assert parse_directory(name) == expected
    assert expected.format() == name


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("delta_1_1_0", "delta_0000001_0000001_0000"),
        ("base_5_v0", "base_0000005"),
        ("base_05_v7", "base_0000005_v0000007"),
    ],
)
def test_other_widths_and_v0_are_read(name: str, canonical: str) -> None:
    parsed = parse_directory(name)
    assert parsed is not None
    assert parsed.format() == canonical


@pytest.mark.parametrize(
    ("name", "hive3"),
    [("base_0000009_v0000137", "base_0000009"), ("delta_0000001_0000006_v0000126", "delta_0000001_0000006")],
)
def test_hive3_layout_has_no_visibility_suffix(name: str, hive3: str) -> None:
    parsed = parse_directory(name)
    assert parsed is not None
    assert parsed.format(LayoutLevel.HIVE3) == hive3


@pytest.mark.parametrize(
    "name",
    [
        "",
        "p=1",
        "delta_x=1",
        "HIVE_UNION_SUBDIR_1",
        "bases",
        "my_delta_1_1",
        ".base_1",
        "000000_0",
        "basement_1",
    ],
)
def test_names_of_something_else_are_none(name: str) -> None:
    assert parse_directory(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_5_7",
        "base_5_v",
        "delta_1",
        "delta_1_",
        "delta_2_1",
        "delta_1_1_1_1",
        "delta_-1_1",
        "delta_1_1_v7_0",
        "delete_delta_1",
        "delta_1_1 ",
        "delta_\u0661_1",
    ],
)
def test_broken_names_are_refused(name: str) -> None:
    with pytest.raises(BadDirectoryNameError) as error:
        parse_directory(name)
    assert error.value.path == name


def test_bucket_files() -> None:
    assert parse_bucket_file("bucket_00001") == BucketFile(1)
    assert parse_bucket_file("bucket_00001_3") == BucketFile(1, 3)
    assert parse_bucket_file("bucket_100000") == BucketFile(100000)
    for other in ("bucket_00000_flush_length", "bucket_", "bucket_1_2_3", "x_bucket_1", "000000_0"):
        assert parse_bucket_file(other) is None
    assert format_original_file(3) == "000003_0"
    assert format_bucket_file(3) == "bucket_00003"
    assert format_bucket_file(100000) == "bucket_100000"


def test_original_files() -> None:
    assert parse_original_file("000002_0") == OriginalFile(2)
    assert parse_original_file("000002_0_copy_12") == OriginalFile(2, 12)
    assert parse_original_file("000000_22398472398472398472398472398472398472") == OriginalFile(0)
    for other in ("bucket_00000", "part-00000", "000000", "000000_0_copy", "000000_0.orc", "0_0_copy_x"):
        assert parse_original_file(other) is None


def test_hidden_names() -> None:
    assert all(map(is_hidden, (".hive-staging_1", "_tmp.delta_1_1", "_SUCCESS", ".x.crc")))
    assert not any(map(is_hidden, ("_metadata_acid", "_orc_acid_version", "bucket_00000", "000000_0")))
