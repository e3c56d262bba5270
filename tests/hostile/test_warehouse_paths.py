"""Warehouse paths with characters that mean something in a URL (issue 20, point 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.catalog.opening import open_store
from hiveacid.cli.doctor import transaction_store
from hiveacid.config import Settings
from hiveacid.core.model import DatabaseDefinition
from hiveacid.ports.clock import SystemClock


def databases(root: Path, *made: str) -> tuple[str, ...]:
    """Open a warehouse's store, make databases, and list all of them."""
    store, _ = open_store(str(root), None, Settings(), SystemClock())
    for name in made:
        store.create_database(DatabaseDefinition(name, f"{root}/{name}.db"))
    found = store.list_databases()
    store.close()
    return found


@pytest.mark.parametrize(
    "name",
    ["a?x", "a?timeout=1", "a?uri=true", "%41", "%2e%2e", "a#b", "a@b:c", "a b", "a+b", "a;b", "'\"", "a\nb?", "ä€😀", ":memory:"],
)  # fmt: skip
def test_a_path_is_taken_literally(tmp_path: Path, name: str) -> None:
    """Every warehouse has its store inside it, and no other file is made."""
    assert databases(tmp_path / name, "sales") == ("default", "sales")
    assert databases(tmp_path / name) == ("default", "sales")
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / ".hiveacid" / "store.db").is_file()
    assert transaction_store(str(tmp_path / name), None).ok


def test_paths_that_differ_behind_a_question_mark_share_nothing(tmp_path: Path) -> None:
    """Nor do ``%41`` and ``A``."""
    for first, second in (("a?x", "a?y"), ("%41", "A")):
        databases(tmp_path / first, "sales")
        assert databases(tmp_path / second) == ("default",)


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    """Such as one whose name is the path up to the question mark."""
    (tmp_path / "a").write_text("notes")
    (tmp_path / "a?x" / ".hiveacid").mkdir(parents=True)
    assert databases(tmp_path / "a?x") == ("default",)
    assert (tmp_path / "a").read_text() == "notes"
