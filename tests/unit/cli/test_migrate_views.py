"""Views of the databases of moved tables, which stay, and the stores that a move makes or misses."""

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


def test_views_stay_and_are_named(stores: Stores) -> None:
    one, other = (
        stores.view(name, f"SELECT a FROM `default`.`{table}`") for name, table in (("v", "t"), ("w", "u"))
    )
    dry = stores.migrate("t", "--dry-run")
    done = stores.migrate("t")
    assert done.exit_code == 0, done.output
    assert (done.stdout, done.stderr) == (dry.stdout, dry.stderr)
    assert [json.loads(line)["table"] for line in done.stdout.splitlines()] == ["default.t"]
    for view in (one, other):
        assert f"view {view.name} is not moved: run its SHOW CREATE TABLE statement" in done.stderr
        assert stores.old.get_view(view.name) == view
    assert stores.new.list_views("default") == ()


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
