"""Partition names: Hive's escapes both ways, the default partition, wrong names."""

import re
from functools import partial

import pytest

from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.partitions import (
    KnownPartitions,
    canonical_text,
    escape,
    format_partition,
    is_canonical,
    is_time_skipped,
    matching_partitions,
    parse_partition,
    parse_partition_values,
    partition_directories,
    require_valid_values,
    unescape,
)
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import BadDirectoryNameError, ConfigError, UnsupportedFeatureError


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


@pytest.mark.parametrize(
    ("hive", "value", "text"),
    [
        ("int", " +08\t", "8"),
        ("int", "-0", "0"),
        ("bigint", "9223372036854775808", None),
        ("int", "1_0", None),
        ("int", "six", None),
        ("boolean", "TRUE", "true"),
        ("boolean", "n", "false"),
        ("boolean", "2", None),
        ("decimal(5,2)", "1.5", "1.50"),
        ("decimal(5,2)", "-1.555", "-1.56"),
        ("decimal(5,2)", "999.995", None),
        ("decimal(5,2)", "-0.001", "0.00"),
        ("int", "-" + "0" * 5000 + "6", "-6"),
        ("int", "9" * 5000, None),
        ("int", "+-6", None),
        ("int", "+06", "6"),
        ("decimal(20,8)", "1e-8", "0.00000001"),
        ("decimal(10)", "1e99999", None),
        ("double", "9.999999999999999E22", "1.0E23"),
        ("double", "1e3", "1000.0"),
        ("double", "1_0", None),
        ("float", "NaN", "NaN"),
        ("date", "2024-1-5", "2024-01-05"),
        ("date", "+20245-05-01", "+20245-05-01"),
        ("date", "2024-02-30", None),
        ("timestamp", "2024-1-5 7:08:09.120", "2024-01-05 07:08:09.12"),
        ("timestamp", "2024-01-05", "2024-01-05 00:00:00"),
        ("timestamp with local time zone", "2024-01-05 00:00:00", None),
        ("char(3)", "a ", "a"),
        ("char(3)", "ab cd", "ab"),
        ("string", " 06", " 06"),
    ],
)
def test_the_text_that_a_value_gets(hive: str, value: str, text: str | None) -> None:
    assert canonical_text(value, hive) == text
    assert text is None or canonical_text(text, hive) == text


@pytest.mark.parametrize(
    ("hive", "value"),
    [
        ("date", "+20245-05-01"),
        ("date", "0000-01-01"),
        ("timestamp", "-0001-01-01 00:00:00"),
        ("string", "\ufffd"),
    ],
)
def test_no_partition_is_made_of_values_that_engines_spell_differently(hive: str, value: str) -> None:
    assert canonical_text(value, hive) == value
    assert not is_canonical(value, hive)
    with pytest.raises(UnsupportedFeatureError, match=re.escape(f"p={value}")):
        partitions(hive).values_of((value,))


def partitions(hive: str, *texts: str | None) -> KnownPartitions:
    table = TableDefinition(TableName("d", "t"), (), ORC, "/t", (Column("p", hive),))
    return KnownPartitions.of(table, [Partition((text,), f"/t/p={text}") for text in texts])


def test_rows_go_to_the_partition_of_their_value_as_it_is_spelled() -> None:
    known = partitions("int", "06", "7", None)
    assert known.values_of(("6",)) == ("06",)
    assert known.values_of(("06",), changing=True) == ("06",)
    assert known.values_of(("7",), changing=True) == ("7",)
    assert known.values_of((None,), changing=True) == (None,)
    assert known.values_of(("8",)) == ("8",)
    assert partitions("double").values_of(("9.999999999999999E22",)) == ("1.0E23",)  # Java 17's text
    assert known.values_of(()) == ()


def test_two_spellings_of_one_value_refuse_changes() -> None:
    known = partitions("int", "06", "6", "7")
    assert known.values_of(("6",)) == ("6",)
    assert known.values_of(("7",), changing=True) == ("7",)
    for value in ("6", "06"):
        with pytest.raises(UnsupportedFeatureError, match="p=06, p=6"):
            known.values_of((value,), changing=True)


def test_rows_of_a_text_that_is_no_value_cannot_be_changed() -> None:
    known = partitions("int", "six", "6")
    require_valid_values(known.table, [known.by_values[("6",)]])
    with pytest.raises(UnsupportedFeatureError, match="p=six, which is not a valid int"):
        require_valid_values(known.table, known.by_values.values())


def test_the_name_of_the_default_partition_is_null_everywhere() -> None:
    for text in (None, "", "__HIVE_DEFAULT_PARTITION__"):
        partition = Partition((text,), "/t/p")
        assert partition.values == (None,)
        assert partition.key == ("__HIVE_DEFAULT_PARTITION__",)
        assert parse_partition(format_partition(["p"], [text])) == (("p", None),)


def test_specs_find_partitions_by_value() -> None:
    known = partitions("date", "2024-1-5", "2024-01-06", None)
    found = partial(matching_partitions, known.table, known.by_values.values())
    assert [each.values for each in found({"p": "2024-01-05"})] == [("2024-1-5",)]
    assert [each.values for each in found({"p": None})] == [(None,)]
    assert len(found({})) == 3


def test_a_partition_column_may_begin_like_a_hidden_file() -> None:
    assert dict(partition_directories(["_p"], ["_p=1", ".hive-staging", "_p", "_p=2/x", "_q=1"])) == {
        "_p=1": ("1",)
    }


def test_times_that_a_zone_skips() -> None:
    assert is_time_skipped("2024-03-31 02:30:00", "Europe/Berlin")
    for value, zone in (
        ("2024-03-31 02:30:00", "UTC"),
        ("2024-03-31 03:30:00.5", "Europe/Berlin"),
        ("2024-10-27 02:30:00", "Europe/Berlin"),  # twice, but not skipped
        ("2024-03-31 02:30:00", "+01:00"),
        ("x", "Europe/Berlin"),
        ("0001-01-01 00:00:00", "Europe/Berlin"),  # the year 0 in UTC
        ("9999-12-31 23:30:00", "America/New_York"),
    ):
        assert not is_time_skipped(value, zone)
