"""Runs the scripts of this directory; each begins with an empty warehouse.

A script is blocks with blank lines between; ``#`` begins a comment line.

    statement ok                     a statement that works
    statement count 2                ... and changes that many rows (num_affected_rows)
    statement error 10001            one that fails with this code, or with this text in its message
    query [ordered] [header]         rows behind ``----``, cells separated by `` | ``; their order only counts
                                     with ``ordered``; with ``header`` the first line is the columns' names

``$WAREHOUSE`` stands for the warehouse directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import HiveAcidError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

SCRIPTS = sorted(Path(__file__).parent.glob("*.test"))


@dataclass(frozen=True)
class Block:
    """A block: its first line's number, its words, the statement, the rows expected."""

    line: int
    words: tuple[str, ...]
    text: str
    expected: tuple[str, ...]


def blocks(script: str) -> Iterator[Block]:
    lines: list[tuple[int, str]] = []
    for number, line in [*enumerate(script.splitlines(), 1), (0, "")]:
        if line.strip():
            if not line.startswith("#"):
                lines.append((number, line))
        elif lines:
            texts = [text for _, text in lines[1:]]
            cut = texts.index("----") if "----" in texts else len(texts)
            words = tuple(lines[0][1].split())
            yield Block(lines[0][0], words, "\n".join(texts[:cut]), tuple(texts[cut + 1 :]))
            lines = []


def shown(frame: DataFrame) -> list[str]:
    """Return rows as text, values as Spark casts them to strings."""
    names = [f"c{place}" for place in range(len(frame.columns))]
    rows = frame.toDF(*names).selectExpr(*[f"CAST({name} AS STRING)" for name in names]).collect()
    return [" | ".join("NULL" if cell is None else cell for cell in row) for row in rows]


def check(acid: AcidSession, block: Block) -> None:
    text = block.text.replace("$WAREHOUSE", acid.context.warehouse)
    match block.words:
        case ("statement", "error", *wanted):
            with pytest.raises(HiveAcidError) as caught:
                acid.sql(text).collect()
            said = " ".join(wanted)
            assert said == caught.value.code or said in str(caught.value), repr(caught.value)
        case ("statement", "ok"):
            acid.sql(text).collect()
        case ("statement", "count", number):
            (row,) = acid.sql(text).collect()
            assert row["num_affected_rows"] == int(number)
        case ("query", *options):
            frame = acid.sql(text)
            found = shown(frame)
            expected = [line.replace("$WAREHOUSE", acid.context.warehouse) for line in block.expected]
            if "header" in options:
                assert " | ".join(frame.columns) == expected.pop(0)
            if "ordered" not in options:
                found, expected = sorted(found), sorted(expected)
            assert found == expected
        case _:
            pytest.fail(f"not a block: {' '.join(block.words)}")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(acid: AcidSession, path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        try:
            check(acid, block)
        except (AssertionError, HiveAcidError, pytest.fail.Exception) as error:
            pytest.fail(f"{path.name}:{block.line}: {block.text}\n{error!r}")


def test_there_are_scripts() -> None:
    assert SCRIPTS
