"""Runs the scripts of this directory; each begins with an empty warehouse.

A script is blocks with blank lines between; ``#`` begins a comment before a block.

    statement ok                     a statement that works
    statement count 2                ... and changes that many rows (num_affected_rows)
    statement error 10001            one that fails with this code, or with this text in its message
    query [ordered] [header]         rows behind ``----``, cells separated by `` | ``; their order only counts
                                     with ``ordered``; with ``header`` the first line is the columns' names

With ``acid`` before it a block is about ``acid.sql`` only: by ``spark.sql`` the statement is Spark's own.

``$WAREHOUSE`` and ``$USER`` stand for what they are called, ``$ANY`` in a row for any text. NULL is NULL, an empty
text is (empty); blanks at the end of a line do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import HiveAcidError
from hiveacid.transaction import this_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

SCRIPTS = sorted(Path(__file__).parent.glob("*.test"))
# Databases are Spark's there, with its answers.
SHARED = [path for path in SCRIPTS if path.stem != "definitions"]


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
            if lines or not line.startswith("#"):
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
    return [
        " | ".join("NULL" if cell is None else cell or "(empty)" for cell in row).rstrip() for row in rows
    ]


def fits(found: str, expected: str) -> bool:
    """Compare a row with what a script expects."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("$ANY"))), found, re.DOTALL) is not None


def check(acid: AcidSession, run: Callable[[str], DataFrame], block: Block) -> None:
    def filled(text: str) -> str:
        return (
            text.replace("$WAREHOUSE", acid.context.warehouse).replace("$USER", this_client().user).rstrip()
        )

    text = filled(block.text)
    words = block.words[1:] if block.words[0] == "acid" else block.words
    match words:
        case ("statement", "error", *wanted):
            # Spark's own error where it is Spark's statement: of a table that neither knows, say.
            with pytest.raises((HiveAcidError, PySparkException)) as caught:
                run(text).collect()
            said, error = " ".join(wanted), caught.value
            if isinstance(error, HiveAcidError) or run == acid.sql:
                assert said == getattr(error, "code", "") or said in str(error), repr(error)
        case ("statement", "ok"):
            run(text).collect()
        case ("statement", "count", number):
            found = run(text).collect()
            if found or run == acid.sql:  # Spark says nothing of what it wrote
                assert [row["num_affected_rows"] for row in found] == [int(number)]
        case ("query", *options):
            frame = run(text)
            lines = shown(frame)
            expected = [filled(line) for line in block.expected]
            if "header" in options:
                assert " | ".join(frame.columns) == expected.pop(0)
            if "ordered" not in options:
                lines, expected = sorted(lines), sorted(expected)
            same = len(lines) == len(expected) and all(map(fits, lines, expected))
            assert same, "found:\n" + "\n".join(lines)
        case _:
            pytest.fail(f"not a block: {' '.join(block.words)}")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(acid: AcidSession, path: Path) -> None:
    run_script(acid, acid.sql, path)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.stem)
def test_script_by_spark_sql(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    """The same statements, by the session's own ``spark.sql``."""
    session = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "w")).getOrCreate()
    try:
        run_script(session.acid, session.sql, path, skipped="acid")
    finally:
        session.close()
        for database in spark.catalog.listDatabases():
            if database.name != "default":
                spark.sql(f"DROP DATABASE {database.name} CASCADE")
        for table in spark.catalog.listTables("default"):
            spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")


def run_script(acid: AcidSession, run: Callable[[str], DataFrame], path: Path, skipped: str = "") -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.words[0] == skipped:
            continue
        try:
            check(acid, run, block)
        except (AssertionError, HiveAcidError, PySparkException, pytest.fail.Exception) as error:
            pytest.fail(f"{path.name}:{block.line}: {block.text}\n{error!r}")


def test_there_are_scripts() -> None:
    assert SCRIPTS
