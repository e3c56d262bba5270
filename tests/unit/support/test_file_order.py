"""The order of test files where workers share them."""

from __future__ import annotations

from pathlib import Path

from support.file_order import LONGEST, places


def test_the_longest_come_first_and_those_without_spark_last() -> None:
    first, second = LONGEST[:2]
    files = ["unit/b.py", "unit/a.py", "spark/x.py", second, "unit/a.py", first, "spark/y.py", "spark/y.py"]
    ordered = ["spark/y.py", "spark/y.py", "spark/x.py", "unit/a.py", "unit/a.py", "unit/b.py"]
    assert [files[place] for place in places(files)] == [first, second, *ordered]
    assert places(["unit/a.py"] * 3) == [0, 1, 2]


def test_the_longest_are_there() -> None:
    tests = Path(__file__).parents[2]
    assert [name for name in LONGEST if not (tests / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
