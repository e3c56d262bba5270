"""Runs the scripts of this directory; each begins with an empty warehouse.

A script is blocks with blank lines between; ``#`` begins a comment before a block.

    statement ok                     a statement that works
    statement count 2                ... and changes that many rows (num_affected_rows)
    statement error 10001            one that fails with this code, or with this text in its message
    query [ordered] [header] [some]  rows behind ``----``, cells separated by `` | ``; their order only counts
                                     with ``ordered``; with ``header`` the first line is the columns' names;
                                     with ``some`` there may be other rows, too

With ``acid`` before it a block is about ``acid.sql`` only (by ``spark.sql`` the statement is Spark's own), with
``native`` about ``spark.sql`` only; ``since 4.0``: the syntax came with that Spark.
All else has the same result with every supported Spark, through every door.

Without HIVEACID_TEST_ALL=1 each script runs by one of both interfaces, in turns. Of
the queries that follow directly on another query, a third runs, drawn by HIVEACID_TEST_SEED.

``$WAREHOUSE`` and ``$USER`` stand for what they are called, ``$ANY`` in a row for any text. NULL is NULL, an empty
text is (empty); blanks at the end of a line do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import HiveAcidError
from hiveacid.transactions.transaction import this_client
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

SCRIPTS = sorted(Path(__file__).parent.glob("*.test"))
_OTHER_INTERFACE = "the script runs by the other SQL interface"
# Spark 3.5 runs a script by the interface that Spark 4 does not, so that CI has every script by both.
_TURN = int(pyspark.__version__.split(".")[0]) % 2
DOORS = ("acid", "native")
VERSION = tuple(int(number) for number in re.findall(r"\d+", pyspark.__version__)[:2])


@dataclass(frozen=True)
class Block:
    """A block: its first line's number, whom it is for, its words, the statement, the rows expected."""

    line: int
    meant: tuple[str, ...]
    words: tuple[str, ...]
    text: str
    expected: tuple[str, ...]

    def is_for(self, door: str) -> bool:
        """Tell whether it is run by ``acid`` or ``native`` on this Spark."""
        needed = [word for word in self.meant if re.fullmatch(r"\d+\.\d+", word)]
        doors = [word for word in self.meant if word in DOORS]
        return all(tuple(map(int, one.split("."))) <= VERSION for one in needed) and (
            not doors or door in doors
        )

    def only_reads(self) -> bool:
        return self.words[0] == "query" and self.text.startswith(("SELECT", "WITH"))


def blocks(script: str) -> Iterator[Block]:
    lines: list[tuple[int, str]] = []
    for number, line in [*enumerate(script.splitlines(), 1), (0, "")]:
        if line.strip():
            if lines or not line.startswith("#"):
                lines.append((number, line))
        elif lines:
            texts = [text for _, text in lines[1:]]
            cut = texts.index("----") if "----" in texts else len(texts)
            words = lines[0][1].split()
            kind = next((place for place, word in enumerate(words) if word in {"statement", "query"}), 0)
            meant, rest = tuple(words[:kind]), tuple(words[kind:])
            yield Block(lines[0][0], meant, rest, "\n".join(texts[:cut]), tuple(texts[cut + 1 :]))
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
    match block.words:
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
            if "some" in options:
                same = all(any(fits(line, wanted) for line in lines) for wanted in expected)
            else:
                if "ordered" not in options:
                    lines, expected = sorted(lines), sorted(expected)
                same = len(lines) == len(expected) and all(map(fits, lines, expected))
            assert same, "found:\n" + "\n".join(lines)
        case _:
            pytest.fail(f"not a block: {' '.join(block.words)}")


@pytest.mark.exhaustive(_OTHER_INTERFACE, cases=[f"{path.stem}]" for path in SCRIPTS[_TURN::2]])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(acid: AcidSession, path: Path) -> None:
    try:
        run_script(acid, acid.sql, path, "acid")
    finally:
        for view in acid.context.env.spark.catalog.listTables():
            if view.isTemporary:
                acid.context.env.spark.catalog.dropTempView(view.name)


@pytest.mark.exhaustive(_OTHER_INTERFACE, cases=[f"{path.stem}]" for path in SCRIPTS[1 - _TURN :: 2]])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_by_spark_sql(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    """The same statements, by the session's own ``spark.sql``."""
    session = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "w")).getOrCreate()
    try:
        run_script(session.acid, session.sql, path, "native")
    finally:
        session.close()
        spark.sql("USE default")
        for database in spark.catalog.listDatabases():
            if database.name != "default":
                spark.sql(f"DROP DATABASE {database.name} CASCADE")
        for table in spark.catalog.listTables("default"):
            spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")


def drawn(found: Sequence[Block]) -> list[Block]:
    """Leave out queries on rows that a query has compared since the last statement, except for a sample."""
    again = [block for before, block in pairwise(found) if before.only_reads() and block.only_reads()]
    kept = sample(again, ceil(len(again) / 3))
    return [block for block in found if block not in again or block in kept]


def run_script(acid: AcidSession, run: Callable[[str], DataFrame], path: Path, door: str) -> None:
    failed: list[str] = []
    found = blocks(path.read_text(encoding="utf-8"))
    for block in drawn([block for block in found if block.is_for(door)]):
        try:
            check(acid, run, block)
        except (AssertionError, HiveAcidError, PySparkException, pytest.fail.Exception) as error:
            failed.append(f"{path.name}:{block.line}: {block.text}\n{error!r}")
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)


def test_there_are_many_statements_for_each_door() -> None:
    """Hundreds run on every Spark by both doors; few are for one door, or for a newer Spark."""
    found = [block for path in SCRIPTS for block in blocks(path.read_text(encoding="utf-8"))]
    everywhere = [block for block in found if not block.meant]
    counts = {door: sum(block.is_for(door) for block in found) for door in DOORS}
    print(f"Spark {pyspark.__version__}: {counts}, everywhere the same: {len(everywhere)} of {len(found)}")  # noqa: T201
    assert len(everywhere) > 400
    known = {*DOORS, "since"}
    odd = {word for block in found for word in block.meant if not word.replace(".", "").isdigit()} - known
    assert not odd
