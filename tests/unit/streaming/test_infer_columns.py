"""Types of a new table's columns: one is chosen only if every text of the sample fits it without a loss."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import Column
from hiveacid.errors import DataError, UnsupportedFeatureError
from hiveacid.streaming.text_lines import DelimitedLines, columns_of_json, columns_of_text, parse_lines

COMMAS = DelimitedLines(",", '"', "")


def types_of(*texts: str) -> str:
    (column,) = columns_of_text("\n".join(["c", *texts, ""]).encode(), COMMAS)
    return column.type


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (("1", "-20", "0"), "bigint"),
        (("999999999999999999",), "bigint"),
        (("1", "2.50"), "double"),
        (("0.1", "-0.1"), "double"),
        (("-0",), "double"),
        (("true", "false"), "boolean"),
        (("2026-02-28",), "date"),
        (("2026-02-28 10:00:00", "2026-02-28 10:00:00.123456"), "timestamp"),
        # a loss each: leading zeros, too many digits, no such day, a zone, a word among numbers
        (("007",), "string"),
        (("9999999999999999999",), "string"),
        (("1234567890.1234567",), "string"),
        (("2026-02-30",), "string"),
        (("2026-02-28T10:00:00Z",), "string"),
        (("1", "n/a"), "string"),
        (("1,5",), "string"),
        ((), "string"),
        (("", "3"), "bigint"),
    ],
)
def test_types_of_texts(texts: tuple[str, ...], kind: str) -> None:
    quoted = [f'"{text}"' if "," in text else text for text in texts]
    assert types_of(*quoted) == kind


@given(st.lists(st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,18})?", fullmatch=True), min_size=1, max_size=5))
def test_no_number_is_changed(texts: list[str]) -> None:
    sample = "\n".join(["c", *texts, ""]).encode()
    columns = columns_of_text(sample, COMMAS)
    found = parse_lines(COMMAS, sample.partition(b"\n")[2], columns, 1).column(0).to_pylist()
    if columns[0].type == "string":
        assert found == texts
    else:
        assert [Decimal(repr(value)) for value in found] == [Decimal(text) for text in texts]
        assert columns[0].type == "double" or [str(value) for value in found] == texts


def test_names_come_from_the_first_line() -> None:
    form = DelimitedLines(";", '"', "")
    assert columns_of_text('\ufeffId; "Full Name" ;n\n1;a;2\n'.encode(), form) == (
        Column("id", "bigint"),
        Column('"full name"', "string"),
        Column("n", "bigint"),
    )
    assert columns_of_text(b"a;b", form) == (Column("a", "string"), Column("b", "string"))
    for sample, message in ((b"", "is empty"), (b"a;b\n1;2;3\n", "do not fit the header")):
        with pytest.raises(DataError, match=message):
            columns_of_text(sample, form)


def test_keys_of_json_become_columns() -> None:
    records: list[object] = [
        {"id": 1, "price": 1, "day": "2026-01-01", "code": "7", "ok": None},
        {"price": 2.5, "name": "a", "ok": True},
    ]
    sample = "\n\n".join(map(json.dumps, records)).encode()
    assert {column.name: column.type for column in columns_of_json(sample)} == {
        "id": "bigint", "price": "double", "day": "date", "code": "string", "ok": "boolean", "name": "string",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        ('{"a": {"b": 1}}', UnsupportedFeatureError, "key a: no type is chosen"),
        ('{"a": 1}\n{"a": "x"}', UnsupportedFeatureError, "key a: no type is chosen"),
        ('{"a": 9007199254740993}\n{"a": 0.5}', UnsupportedFeatureError, "key a: no type is chosen"),
        ('{"Id": 1}', DataError, "key Id is not in lower case"),
        ("[1]", DataError, "line 1 is not a JSON object"),
        ("{", DataError, "line 1 is not JSON"),
        ("", DataError, "has no record"),
    ],
)
def test_what_a_person_has_to_decide(sample: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        columns_of_json(sample.encode())
