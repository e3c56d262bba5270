"""The time that work still takes, as far as its own pace tells."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from hiveacid.cli.ingest import _progress, _Reading
from hiveacid.cli.progress_line import Remaining, TablesInTurn, rounded_time, tables_in_turn
from hiveacid.streaming import Statistics


def test_there_is_an_estimate_once_the_pace_is_steady() -> None:
    remaining = Remaining()
    shown = [
        remaining.text("stage 1", done, 100, float(second))
        for second, done in enumerate((0, 4, 8, 12, 40, 100))
    ]
    assert shown == ["", "", "", ", about 30 s left", ", about 10 s left", ""]


def test_few_parts_and_short_times_tell_nothing() -> None:
    remaining = Remaining()
    assert [remaining.text(1, done, 4, 100.0 * done) for done in (0, 1, 2)] == ["", "", ""]
    assert remaining.text(1, 3, 4, 300.0) == ", about 2 min left"
    assert Remaining().text(1, 0, 0, 100.0) == ""


def test_another_stage_begins_anew_with_what_it_has_done() -> None:
    remaining = Remaining()
    remaining.text((1,), 0, 1000, 0.0)
    assert remaining.text((1,), 500, 1000, 10.0) == ", about 10 s left"
    assert remaining.text((1, 2), 600, 2000, 11.0) == ""
    # 100 tasks in 10 s: the 600 of before do not count
    assert remaining.text((1, 2), 700, 2000, 21.0) == ", about 3 min left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.1, "5 s"),
        (10, "10 s"),
        (10.1, "20 s"),
        (60, "60 s"),
        (61, "2 min"),
        (5400, "90 min"),
        (5401, "2 h"),
    ],
)
def test_times_are_rounded_up(seconds: float, text: str) -> None:
    assert rounded_time(seconds) == text


def test_ingest_tells_the_rest_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    first, second, now = tmp_path / "1", tmp_path / "2", [0]
    first.write_bytes(b"x" * 100)
    second.write_bytes(b"x" * 300)
    reading = _Reading((str(first), str(second)))
    show = _progress(0, lambda: now[0], reading)
    show(Statistics())
    for number, path in enumerate((first, second)):
        descriptor = os.open(path, os.O_RDONLY)
        with reading.of(descriptor):
            os.read(descriptor, 100)
            now[0] += 5000
            show(Statistics(records_written=1000 * (number + 1)))
        os.close(descriptor)
    assert "1,000 rows, 200 rows/s, about 20 s left" in capsys.readouterr().err
    assert reading.done() == 200


@pytest.mark.parametrize("files", [(), ("-",), ("missing",)])
def test_input_of_unknown_length_has_no_estimate(files: tuple[str, ...]) -> None:
    assert _Reading(files).total is None


def test_one_large_table_tells_the_rest_of_its_directories() -> None:
    tables = TablesInTurn()
    tables.total = 1
    tables.begin("shop.t")
    lines = []
    for second, done in enumerate((0, 100, 200, 300, 400)):
        tables.watch("shop.t", "listed", done, 1000)
        lines.append(tables.text(float(second)))
    assert lines[2] == "table 1 of 1, shop.t, 200 of 1,000 directories listed, 2 s"
    assert lines[4] == "table 1 of 1, shop.t, 400 of 1,000 directories listed, 4 s, about 10 s left of this"
    tables.watch("shop.t", "read for ZSTD", 0, 1000)
    assert tables.text(10.0) == "table 1 of 1, shop.t, 0 of 1,000 directories read for ZSTD, 10 s"
    tables.watch("shop.t", "", 0, 0)
    assert tables.text(11.0) == "table 1 of 1, shop.t, 11 s", "of the stores' work nothing is known"


def test_many_tables_tell_the_rest_of_all_of_them() -> None:
    tables = TablesInTurn()
    tables.total = 100
    lines = []
    for second in range(6):
        tables.begin(f"shop.t{second}")
        tables.watch("", "listed", 0, 1)
        lines.append(tables.text(float(second)))
    assert lines[1] == "table 2 of 100, shop.t1, 1 s"
    assert lines[5] == "table 6 of 100, shop.t5, 5 s, about 2 min left"


def test_what_is_printed_meanwhile_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, terminal = pty.openpty()
    tables = TablesInTurn()
    tables.total = 2
    tables.begin("shop.t")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        seen = b""
        with tables_in_turn(tables) as line:
            while b"table 1 of 2, shop.t" not in seen:
                seen += os.read(mine, 1000)
            with line.away():
                stderr.write("an error\n")
                stderr.flush()
            while b"an error" not in seen:
                seen += os.read(mine, 1000)
        assert b"\r\x1b[Kan error\r\n" in seen
    os.close(mine)


def test_nothing_is_written_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with tables_in_turn(TablesInTurn()) as line, line.away():
        sys.stderr.write("an error\n")
    assert capsys.readouterr().err == "an error\n"
