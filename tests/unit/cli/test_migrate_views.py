"""Views that follow their tables into another store, those that stay, and moves that were interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hiveacid.cli import main
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName, ViewDefinition
from hiveacid.stores.sql.store import SqlStore
from support.samples import ORC

COLUMNS = (Column("a", "int"),)


@dataclass
class Stores:
    home: Path
    old: SqlStore
    new: SqlStore

    def migrate(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            main,
            ["migrate", *arguments, "-w", str(self.home / "wh"), "--store", f"sqlite:///{self.home / 'old.db'}",
             "--to", f"sqlite:///{self.home / 'new.db'}"],
        )  # fmt: skip

    def view(self, name: str, text: str) -> ViewDefinition:
        made = ViewDefinition(TableName("default", name), COLUMNS, text, owner="me", created_at=7)
        self.old.create_view(made)
        return made


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    made = Stores(
        tmp_path, SqlStore(f"sqlite:///{tmp_path / 'old.db'}"), SqlStore(f"sqlite:///{tmp_path / 'new.db'}")
    )
    for store in (made.old, made.new):
        if store.get_database("default") is None:
            store.create_database(DatabaseDefinition("default", f"{tmp_path}/wh"))
    for name in ("t", "u"):
        (tmp_path / "wh" / name).mkdir(parents=True)
        made.old.create_table(
            TableDefinition(TableName("default", name), COLUMNS, ORC, f"{tmp_path}/wh/{name}")
        )
    yield made
    made.old.close()
    made.new.close()


def moved(answer: Result) -> list[str]:
    assert answer.exit_code == 0, answer.output
    return [row["view"] for row in map(json.loads, answer.stdout.splitlines()) if "view" in row]


def test_views_go_when_all_that_they_read_is_there(stores: Stores) -> None:
    below = stores.view("w", "SELECT a FROM `default`.`t` VERSION AS OF 1")
    above = stores.view(
        "above", "WITH t AS (SELECT 1 AS a) SELECT w.a FROM `default`.`w` AS w JOIN t ON true"
    )
    other = stores.view("other", "SELECT a FROM `default`.`u`")
    nobody = stores.view("nobody", "SELECT a FROM `default`.`gone`")
    feed = stores.view("feed", "SELECT a FROM hiveacid_changes('default.t', 1)")
    dry = stores.migrate("t", "--dry-run")
    assert sorted(moved(dry)) == ["default.above", "default.w"]
    assert stores.new.list_views("default") == ()
    done = stores.migrate("t")
    assert (done.stdout, done.stderr) == (dry.stdout, dry.stderr)
    assert "view default.other was not moved: it reads default.u, which is not in sqlite" in done.stderr
    assert "view default.nobody was not moved: it reads default.gone" in done.stderr
    assert "view default.feed was not moved: it calls a change-feed function" in done.stderr
    assert [stores.new.get_view(one.name) for one in (below, above)] == [below, above]
    assert stores.old.list_views("default") == ("feed", "nobody", "other")
    assert moved(stores.migrate("--all")) == ["default.other"]
    assert [stores.new.get_view(other.name), stores.old.get_view(nobody.name)] == [other, nobody]
    assert stores.old.get_view(feed.name) == feed
    again = stores.migrate("--all")  # no table is left
    assert (moved(again), "view default.nobody was not moved" in again.stderr) == ([], True)


def test_a_view_that_is_in_both_stores(stores: Stores) -> None:
    """The same one: a move was interrupted. Another one: it stays."""
    same, other = (stores.view(name, "SELECT a FROM `default`.`t`") for name in ("same", "other"))
    stores.new.create_view(same)
    stores.new.create_view(ViewDefinition(other.name, COLUMNS, "SELECT 5 AS a"))
    done = stores.migrate("--all")
    assert moved(done) == ["default.same"]
    assert "another view default.other already" in done.stderr
    assert stores.old.list_views("default") == ("other",)
    found = stores.new.get_view(other.name)
    assert found is not None
    assert found.text == "SELECT 5 AS a"


def test_a_missing_store_is_made_for_what_moves(stores: Stores) -> None:
    """A move out of the old store is often the first use of the new one; a missing old one is a typing error."""
    target = f"sqlite:///{stores.home / 'first.db'}"
    options = ["migrate", "t", "-w", str(stores.home / "wh"), "--to", target]
    refused = CliRunner().invoke(main, [*options, "--store", f"sqlite:///{stores.home / 'odl.db'}"])
    assert (refused.exit_code, "there is no store at" in refused.output) == (1, True), refused.output
    assert not (stores.home / "first.db").exists()
    done = CliRunner().invoke(main, [*options, "--store", f"sqlite:///{stores.home / 'old.db'}"])
    assert done.exit_code == 0, done.output
    made = SqlStore(target)
    assert made.get_table(TableName("default", "t")) is not None
    made.close()
