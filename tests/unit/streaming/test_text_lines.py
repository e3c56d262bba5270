"""Lines of text become rows of the table's types; the first line that does not fit is named."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.core.model import Column, TableName
from hiveacid.errors import BadRecordError, DataError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.ports.clock import SystemClock
from hiveacid.streaming.text_lines import DelimitedLines, Feeder, JsonLines, LineFormat, parse_lines
from support.clock import ManualClock
from support.record_samples import COLUMNS, NULLS, ROW


def rows(form: LineFormat, text: str | bytes, columns: tuple[Column, ...] = COLUMNS) -> list[dict[str, Any]]:
    form.check(columns)
    data = text.encode() if isinstance(text, str) else text
    found: list[dict[str, Any]] = parse_lines(form, data, columns, 1).to_pylist()
    return found


def first_bad(
    form: LineFormat, text: str | bytes, columns: tuple[Column, ...] = COLUMNS, first: int = 1
) -> tuple[int, str]:
    """Return number and text of the line that the error names."""
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(BadRecordError) as caught:
        parse_lines(form, data, columns, first)
    return caught.value.number, caught.value.record


def test_delimited_text() -> None:
    line = "1,x,2024-02-29,2024-01-02 03:04:05.6,1.5,é,true\n"
    nulls = r"\N,\N,\N,\N,\N,\N,\N"
    empty = ",,,,,,"
    assert rows(DelimitedLines(), line + nulls + "\n\n" + empty) == [ROW, NULLS, NULLS | {"s": "", "b": b""}]
    assert rows(DelimitedLines(), line.replace("05.6", "05.600000000")) == [ROW]
    tabs = DelimitedLines(delimiter="\t", quote='"', null="")
    assert rows(tabs, '1\t"a""\tb"\t\t\t\t\t\r\n') == [NULLS | {"n": 1, "s": 'a"\tb'}]
    assert rows(DelimitedLines(), 'a"b', (Column("s", "string"),)) == [{"s": 'a"b'}]
    assert rows(DelimitedLines(), "\r\n\n") == []


@pytest.mark.parametrize("text", ["0x10", "0XfF", "-0x1"])
def test_hexadecimal_digits_are_no_number(text: str) -> None:
    """As in Hive; they are to Arrow."""
    for kind in ("tinyint", "int", "bigint"):
        columns = (Column("n", kind), Column("s", "string"))
        assert first_bad(DelimitedLines(), f"1,0x10\n\\N,x\n{text},x\n", columns) == (3, f"{text},x")


@pytest.mark.parametrize(("names", "line"), [("ab", "\t"), ("a", " "), ("a", "\t ")])
def test_lines_of_white_space_are_records_of_delimited_text(names: str, line: str) -> None:
    """Alone, among other lines, and before a bad one; only empty lines are skipped."""
    columns = tuple(Column(name, "string") for name in names)
    form = DelimitedLines(delimiter="\t" if names == "ab" else ",")
    want = [dict(zip(names, line.split("\t") if names == "ab" else [line], strict=True))]
    good = ("x\ty" if names == "ab" else "x") + "\n"
    assert rows(form, line, columns) == want
    assert rows(form, f"\r\n\n{line}\r\n\n", columns) == want
    assert rows(form, good + line, columns)[1:] == want
    assert first_bad(form, f"\r\n{line}\nx\ty,z\t\n{good}", columns)[0] == 3


def test_the_first_bad_line_is_found_among_many_good_ones() -> None:
    columns = (Column("n", "int"), Column("s", "string"))
    lines = [f"{n},text {n}" for n in range(1000)]
    lines[20] = ""
    for place, bad in ((17, "x,y"), (400, "1"), (999, "3000000000,z"), (0, "1,2,3")):
        some = [*lines[:place], bad, *lines[place + 1 :]]
        assert first_bad(DelimitedLines(), "\n".join(some), columns, 101) == (101 + place, bad)
    assert first_bad(DelimitedLines(quote='"'), '1,"a\n2,b"\n3,c\n', columns)[0] == 1
    assert first_bad(DelimitedLines(), b"1,\xff\n2,b\n", columns)[0] == 1
    assert first_bad(DelimitedLines(), "0,a\n1e39,b", (Column("x", "float"), Column("s", "string"))) == (
        2,
        "1e39,b",
    )


def test_json_lines() -> None:
    line = (
        '{"n":1,"s":"x","d":"2024-02-29","t":"2024-01-02 03:04:05.6","m":1.5,"b":"é","ok":true}\n'
        '\n  \n{"n":null}\n{}\n'
    )
    assert rows(JsonLines(), line) == [ROW, NULLS, NULLS]
    assert rows(JsonLines(ignore_unknown=True), '{"z":{"y":1},"n":7}') == [NULLS | {"n": 7}]
    assert rows(JsonLines(), '{"s":"} n"}') == [NULLS | {"s": "} n"}]


@pytest.mark.parametrize(
    "bad",
    [
        '{"n":1.5}', '{"n":"1"}', '{"n":3000000000}', '{"s":5}', '{"m":"1.234"}', '{"z":1}', '{"n":1', "[1]",
        '{"n":1}{"n":2}', '{"n":1,"n":2}', '{"d":"2024-13-01"}', '{"ok":1}', "null x", "null", '{"n":1} null x',
        '{"n":1} null', "nonsense",
    ],
)  # fmt: skip
def test_a_bad_line_of_json_is_named(bad: str) -> None:
    """Alone and among good ones; Arrow's reader crashes on some of them."""
    assert first_bad(JsonLines(), bad) == (1, bad)
    assert first_bad(JsonLines(), f'{{"n":7}}\n\n{bad}\n{{"n":8}}\n') == (3, bad)


def test_a_key_in_another_case_is_no_unknown_one() -> None:
    columns = (Column("n", "int"), Column("a", "array<struct<x:int>>"))
    form = JsonLines(ignore_unknown=True)
    good = '{"n":1,"z":{"N":2},"a":[{"x":3,"X":4}],"N":"\\"N\\": 5"}'
    assert rows(form, good, columns) == [{"n": 1, "a": [{"x": 3}]}]
    for bad in ('{"N":1}', '{"n":1,"a":[null,{"X" : 4}]}'):
        assert first_bad(form, f"{good}\n{bad}\n", columns) == (2, bad)


def test_nested_values_and_what_cannot_be_read() -> None:
    columns = (Column("a", "array<struct<d:date,x:double>>"), Column("x", "float"))
    line = '{"a":[{"d":"2024-01-01","x":1},null],"x":0.5}\n'
    assert rows(JsonLines(), line, columns) == [{"a": [{"d": date(2024, 1, 1), "x": 1.0}, None], "x": 0.5}]
    assert first_bad(JsonLines(), line + '{"a":[{"y":1}]}', columns)[0] == 2
    assert first_bad(JsonLines(), line + '{"x":1e39}', columns)[0] == 2
    for form, kind in ((JsonLines(), "map<string,int>"), (DelimitedLines(), "array<int>")):
        with pytest.raises(UnsupportedFeatureError, match="Arrow data or Python dicts"):
            form.check((Column("m", kind),))


@pytest.mark.parametrize("lines", ["\ufeffa\nb\n", "b\n\ufeffa\n", "\ufeffa\n", "\ufeff\ufeffa\n"])
def test_a_byte_order_mark_is_a_character_of_its_field_on_every_line(lines: str) -> None:
    found = rows(DelimitedLines(), lines, (Column("s", "string"),))
    assert [row["s"] for row in found] == lines.split()
    assert first_bad(JsonLines(), '\ufeff{"s":"a"}\n', (Column("s", "string"),))[0] == 1


@contextmanager
def opened(path: Path, text: str) -> Iterator[int]:
    path.write_text(text, encoding="utf-8")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_a_file_without_line_breaks_is_refused_before_it_fills_the_memory(
    wh: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array of JSON objects in one line, for example."""
    wh.create(f"CREATE TABLE t (a INT) {ACID}")
    monkeypatch.setattr("hiveacid.streaming.text_lines._LONGEST_LINE", 50)
    monkeypatch.setattr("hiveacid.streaming.text_lines._BLOCK", 20)
    text = '{"a": 1}\n' + '{"a": 2}, ' * 100
    with wh.connect("t") as stream, opened(tmp_path / "f", text) as descriptor:
        feeder = Feeder(stream, JsonLines(), ManualClock(), 1, 10)
        with pytest.raises(DataError, match="f: a line has more than"):
            feeder.feed(descriptor, "f")
        assert os.lseek(descriptor, 0, os.SEEK_CUR) < 200, "the rest of the file is not read"
    assert wh.rows("t") == [(1,)]


def test_a_commit_is_not_put_off_by_a_clock_that_goes_back(wh: Warehouse, tmp_path: Path) -> None:
    wh.create(f"CREATE TABLE t (a INT) {ACID}")
    clock = ManualClock()
    with wh.connect("t") as stream:
        feeder = Feeder(stream, JsonLines(), clock, 100, 10)
        with opened(tmp_path / "f", '{"a": 1}\n') as descriptor:
            feeder.feed(descriptor, "f")
        assert wh.rows("t") == []
        clock.advance(-3600)
        with opened(tmp_path / "g", '{"a": 2}\n') as descriptor:
            feeder.feed(descriptor, "g")
        assert wh.rows("t") == [(1,), (2,)]


def test_lines_of_a_socket_are_committed_while_it_is_silent(wh: Warehouse) -> None:
    """As those of a pipe; standard input may be a socket, as sshd makes it. They waited for the next ones."""
    wh.create(f"CREATE TABLE t (a INT) {ACID}")
    ours, theirs = socket.socketpair()
    seen: list[list[tuple[Any, ...]]] = []
    give_up = threading.Timer(60, ours.close)
    give_up.daemon = True

    def look(_: object) -> None:
        seen.append(wh.rows("t"))
        ours.close()

    with theirs, wh.connect("t") as stream:
        give_up.start()
        ours.sendall(b'{"a": 1}\n')
        Feeder(stream, JsonLines(), SystemClock(), 100, 0.1, look).feed(theirs.fileno(), "-")
        give_up.cancel()
    assert seen == [[(1,)]]


def test_values_of_delimited_text_never_go_into_columns_that_changed_places(
    wh: Warehouse, tmp_path: Path
) -> None:
    table = wh.create(f"CREATE TABLE t (a STRING, b STRING) {ACID}")
    with wh.connect("t") as stream, wh.connect("t") as other:
        feeder = Feeder(stream, DelimitedLines(), ManualClock(), 1, 10)
        keyed = Feeder(other, JsonLines(), ManualClock(), 1, 10)
        with opened(tmp_path / "f", "1,2\n") as descriptor:
            feeder.feed(descriptor, "f")
        wh.store.alter_table(
            TableName("default", "t"), replace(table, columns=tuple(reversed(table.columns)))
        )
        with opened(tmp_path / "f", "3,4\n") as descriptor, pytest.raises(SchemaMismatchError, match="a, b"):
            feeder.feed(descriptor, "f")
        with opened(tmp_path / "f", '{"a": "5", "b": "6"}\n') as descriptor:
            keyed.feed(descriptor, "f")
    found = wh.store.get_table(TableName("default", "t"))
    assert found is not None
    assert [column.name for column in found.columns] == ["b", "a"]
    assert wh.rows("t") == [("1", "2"), ("6", "5")]
