"""Tables that commands print."""

from __future__ import annotations

import pytest

from hiveacid.cli.output_formats import print_table


def test_a_terminal_obeys_no_text_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["na\x1b[2Jme"], [["\x1b]0;title\x07x"], [None], ["two\nlines"]], [False])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert r"na\x1b[2Jme" in out
    assert r"\x1b]0;title\x07x" in out
    assert "NULL" in out
    assert [line for line in out.splitlines() if "lines" in line] == [
        line for line in out.splitlines() if line.strip("| ").rstrip() == "lines"
    ]
