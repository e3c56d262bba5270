"""Tables that commands print."""

from __future__ import annotations

import csv
import io
import re

import pytest

from hiveacid.cli.output_formats import Rows, print_table, show_rows


def test_a_terminal_obeys_no_text_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Rows(("na\x1b[2Jme",), (False,), (("\x1b]0;title\x07x",), (None,), ("two\nlines",))))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert r"na\x1b[2Jme" in out
    assert r"\x1b]0;title\x07x" in out
    assert "NULL" in out
    assert [line for line in out.splitlines() if "lines" in line] == [
        line for line in out.splitlines() if line.strip("| ").rstrip() == "lines"
    ]


def test_csv_tells_null_from_an_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [None, "", "plain", 'a,"b"', "two\nlines", "one\rline", " NULL "]
    show_rows(("a,b", "c"), [(text, 1) for text in texts], "csv")
    show_rows(("a",), [(None,), ("",), ("x",)], "csv")
    out = capsys.readouterr().out
    assert out == (
        '"a,b",c\n,1\n"",1\nplain,1\n"a,""b""",1\n"two\nlines",1\n"one\rline",1\n NULL ,1\na\n""\n""\nx\n'
    )
    assert [row[0] for row in csv.reader(io.StringIO(out, newline=""))] == [
        *("a,b", "", *(text or "" for text in texts[1:]), "a", "", "", "x"),
    ]


WIDE = Rows(("state", "message"), (False, False), (("ready", "x" * 200), (None, "y")))


def make_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the output a terminal that is 40 characters wide."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")


def plain(text: str) -> list[str]:
    """Return the lines without styles."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_a_long_value_takes_no_width_from_the_other_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_narrow_terminal(monkeypatch)
    print_table(WIDE)
    lines = plain(capsys.readouterr().out)
    assert lines[1].startswith("│ state │ message ")
    assert sum(line.count("x") for line in lines) == 200
    assert max(map(len, lines)) == 40


def test_columns_that_do_not_fit_are_printed_below_one_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_narrow_terminal(monkeypatch)
    print_table(Rows(tuple(f"column_{n}" for n in range(4)), (False,) * 4, (("a", "b", None, "d"),)))
    assert plain(capsys.readouterr().out) == [
        "row 1", "  column_0: a", "  column_1: b", "  column_2: NULL", "  column_3: d",
    ]  # fmt: skip


def test_one_value_a_line_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(WIDE, vertical=True)
    assert capsys.readouterr().out.splitlines() == [
        "row 1", "  state: ready", "  message: " + "x" * 200, "row 2", "  state: NULL", "  message: y",
    ]  # fmt: skip
