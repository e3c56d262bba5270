"""Partition names: Hive's escapes both ways, the default partition, wrong names."""

import pytest

from hiveacid.core.schema.partitions import (
    escape,
    format_partition,
    is_canonical,
    is_skipped,
    parse_partition,
    parse_partition_values,
    unescape,
)
from hiveacid.errors import BadDirectoryNameError, ConfigError


def test_exactly_hives_characters_are_escaped() -> None:
    escaped = {chr(code) for code in range(256) if escape(chr(code)) != chr(code)}
    assert escaped == {chr(code) for code in range(0x20)} | set("\"#%'*/:=?\\{[]^\x7f")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "a%2Fb"),
        ("sp ace/s:al%", "sp ace%2Fs%3Aal%25"),
        ("2026-01-01 10:00:00", "2026-01-01 10%3A00%3A00"),
        ("a\nb", "a%0Ab"),
        ("é{}~<>|", "é%7B}~<>|"),
        ("", ""),
    ],
)
def test_escape_and_back(text: str, path: str) -> None:
    assert escape(text) == path
    assert unescape(path) == text


@pytest.mark.parametrize(("path", "text"), [("100%", "100%"), ("%zz", "%zz"), ("%2", "%2"), ("%2f", "/")])
def test_unescape_leaves_what_is_no_escape(path: str, text: str) -> None:
    assert unescape(path) == text


def test_format_partition() -> None:
    assert format_partition(("P", "q"), ("a/b", "1")) == "p=a%2Fb/q=1"
    assert format_partition(("p", "q"), (None, "")) == (
        "p=__HIVE_DEFAULT_PARTITION__/q=__HIVE_DEFAULT_PARTITION__"
    )
    assert format_partition(("odd=name",), ("x",)) == "odd%3Dname=x"
    for columns, values in ((("p",), ()), ((), ()), (("p",), ("1", "2"))):
        with pytest.raises(ConfigError):
            format_partition(columns, values)


def test_parse_partition() -> None:
    assert parse_partition("p=a%2Fb/q=1") == (("p", "a/b"), ("q", "1"))
    assert parse_partition("p=__HIVE_DEFAULT_PARTITION__") == (("p", None),)
    assert parse_partition("odd%3Dname=x=y") == (("odd=name", "x=y"),)
    assert parse_partition_values(("p", "q"), "P=x/q=2") == ("x", "2")


@pytest.mark.parametrize("name", ["", "p", "p=", "=1", "p=1/", "p=1//q=2", "/p=1"])
def test_broken_partition_names(name: str) -> None:
    with pytest.raises(BadDirectoryNameError):
        parse_partition(name)


def test_partition_values_need_the_tables_columns_in_order() -> None:
    for name in ("q=1/p=2", "p=1", "p=1/q=2/r=3"):
        with pytest.raises(BadDirectoryNameError):
            parse_partition_values(("p", "q"), name)


@pytest.mark.parametrize(
    ("hive", "value"),
    [
        ("double", "1.0"),
        ("double", "-0.5"),
        ("double", "0.001"),
        ("double", "1.0E-4"),
        ("double", "1.2345678E7"),
        ("double", "9999999.0"),
        ("double", "-1.0E100"),
        ("double", "NaN"),
        ("double", "-Infinity"),
        ("float", "0.1"),
        ("float", "3.4028235E38"),
        ("decimal(10,2)", "1.50"),
        ("int", "-7"),
        ("char(3)", "a"),
    ],
)
def test_texts_that_spark_writes_are_canonical(hive: str, value: str) -> None:
    assert is_canonical(value, hive)


@pytest.mark.parametrize(
    ("hive", "value"),
    [
        ("double", "1"),
        ("double", "1.50"),
        ("double", "1e3"),
        ("double", "12345678.0"),
        ("double", "0.0001"),
        ("double", "nan"),
        ("double", "x"),
        ("float", "0.10000000149011612"),
        ("decimal(10,2)", "1.5"),
        ("int", "01"),
        ("int", "-0"),
        ("int", "2147483648"),
        ("tinyint", "-129"),
        ("decimal(10,2)", "-0.00"),
        ("decimal(20,8)", "0E-8"),
        ("date", "2024-02-30"),
        ("timestamp", "2024-01-01 25:00:00"),
        ("timestamp", "2024-01-01 00:00:00.1234567"),
        ("char(3)", "a  "),
        ("timestamp with local time zone", "2026-01-01 00:00:00 UTC"),
    ],
)
def test_other_texts_are_not(hive: str, value: str) -> None:
    """A row of ``d=1`` would be written to ``d=1.0``: the partition can be read only."""
    assert not is_canonical(value, hive)


def test_times_that_a_zone_skips() -> None:
    assert is_skipped("2024-03-31 02:30:00", "Europe/Berlin")
    for value, zone in (
        ("2024-03-31 02:30:00", "UTC"),
        ("2024-03-31 03:30:00.5", "Europe/Berlin"),
        ("2024-10-27 02:30:00", "Europe/Berlin"),  # twice, but not skipped
        ("2024-03-31 02:30:00", "+01:00"),
        ("x", "Europe/Berlin"),
    ):
        assert not is_skipped(value, zone)
