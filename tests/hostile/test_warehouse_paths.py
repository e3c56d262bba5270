"""Warehouse paths with characters that mean something in a URL (issue 20, point 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.catalog.opening import open_store
from hiveacid.cli.doctor import transaction_store
from hiveacid.config import Settings
from hiveacid.core.model import DatabaseDefinition
from hiveacid.errors import MisplacedStoreError
from hiveacid.stores.clock import SystemClock
from hiveacid.stores.sql.store import SqlStore


def databases(root: Path, *made: str) -> tuple[str, ...]:
    """Open a warehouse's store, make databases, and list all of them."""
    store, _ = open_store(str(root), None, Settings(), SystemClock())
    for name in made:
        store.create_database(DatabaseDefinition(name, f"{root}/{name}.db"))
    found = store.list_databases()
    store.close()
    return found


def opened_by_an_earlier_version(root: Path) -> None:
    """Do what `open_store` did before 0.1.0."""
    (root / ".hiveacid").mkdir(parents=True)
    store = SqlStore(f"sqlite:///{root}/.hiveacid/store.db", clock=SystemClock())
    if store.get_database("default") is None:
        store.create_database(DatabaseDefinition("default", str(root)))
    store.close()


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


@pytest.mark.parametrize(("name", "misread"), [("a?x", "a"), ("w%41", "wA/.hiveacid/store.db")])
def test_a_store_that_an_earlier_version_misplaced_is_reported(
    tmp_path: Path, name: str, misread: str
) -> None:
    """No empty store is made beside it; once it is copied, its databases are there."""
    if "/" in misread:
        opened_by_an_earlier_version(tmp_path / "wA")
    opened_by_an_earlier_version(tmp_path / name)
    with pytest.raises(MisplacedStoreError) as caught:
        databases(tmp_path / name)
    place = tmp_path / name / ".hiveacid" / "store.db"
    assert f"may be in {tmp_path / misread}:" in str(caught.value)
    assert f"copy it to {place}" in str(caught.value)
    assert not place.exists()
    assert "STORE_MISPLACED" in transaction_store(str(tmp_path / name), None).found
    place.write_bytes((tmp_path / misread).read_bytes())
    assert databases(tmp_path / name) == ("default",)


def test_two_warehouses_that_shared_a_misplaced_store_are_both_reported(tmp_path: Path) -> None:
    """The second one has no location in it: its tables went to the first one's directory."""
    for name in ("a?x", "a?y"):
        opened_by_an_earlier_version(tmp_path / name)
    for name in ("a?x", "a?y"):
        with pytest.raises(MisplacedStoreError):
            databases(tmp_path / name)


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    """Whatever lies where the earlier version would have looked."""
    (tmp_path / "a").write_text("notes")
    (tmp_path / "a?x" / ".hiveacid").mkdir(parents=True)
    assert databases(tmp_path / "a?x") == ("default",)
    assert (tmp_path / "a").read_text() == "notes"
