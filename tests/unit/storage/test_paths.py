"""Files that a path of LOAD DATA matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.errors import InvalidPathError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import find_sources

NAMES = ("part-0", "part-1", "part-3", "part-4", "part-5", "x[y", "x^y")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("part-[0-4]", ["part-0", "part-1", "part-3", "part-4"]),
        ("part-[^0-3]", ["part-4", "part-5"]),
        ("part-[!0]", ["part-1", "part-3", "part-4", "part-5"]),
        ("part-[15]", ["part-1", "part-5"]),
        ("p*-?", ["part-0", "part-1", "part-3", "part-4", "part-5"]),
        ("x[[^]y", ["x[y", "x^y"]),
        ("x[^]y", ["x^y"]),
        ("x[y", ["x[y"]),
    ],
)
def test_patterns_match_as_in_hadoop(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    """A range or a negation must not load other files than it names: LOAD DATA moves them away."""
    for name in NAMES:
        (tmp_path / name).write_bytes(b"x")
    assert [file.name for file in find_sources(LocalFileSystem(), f"{tmp_path}/{pattern}").files] == expected


@pytest.mark.parametrize("pattern", ["part-[4-0]", "part-{0,1}", "part-[6-9]"])
def test_patterns_that_match_nothing(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "part-0").write_bytes(b"x")
    with pytest.raises(InvalidPathError):
        find_sources(LocalFileSystem(), f"{tmp_path}/{pattern}")
