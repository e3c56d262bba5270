"""The list of what is not run on Spark Connect."""

from __future__ import annotations

from pathlib import Path

from support.connect_exceptions import EXCEPTIONS

TESTS = Path(__file__).parents[2]


def test_every_exception_names_a_test() -> None:
    stale = []
    for name in EXCEPTIONS:
        file, _, test = name.partition("::")
        path = TESTS / file
        function = f"def {test.partition('[')[0]}"
        if not path.is_file() or function not in path.read_text(encoding="utf-8"):
            stale.append(name)
    assert stale == []
