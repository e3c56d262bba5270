"""A client that is paused in DROP until its lock is lost does nothing to a later table of that name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.catalog.databases import alter_database
from hiveacid.catalog.ddl import (
    create_table,
    create_view,
    drop_partitions,
    drop_table,
    replace_table,
    set_properties,
    set_view_properties,
)
from hiveacid.core.model import Column, Partition, TableDefinition, TableKind, TableName, ViewDefinition
from hiveacid.errors import CatalogError, NoSuchTableError, TransactionAbortedError, WriteConflictError
from hiveacid.table.context import Context
from support.contexts import PausedStore, open_context
from support.directories.shelves import definition

ADOPTED_TXN = "hiveacid.adopted.txn"
T, CONTENT = TableName("default", "t"), TableName("default", "content")
PLAIN = "CREATE TABLE t (id INT) PARTITIONED BY (p STRING) STORED AS ORC"
ACID = f"{PLAIN} TBLPROPERTIES ('transactional'='true')"


def made(context: Context, sql: str, name: TableName = T) -> TableDefinition:
    parsed = definition(sql, f"{context.warehouse}/{name.name}").without_properties(ADOPTED_TXN)
    table = replace(parsed, name=name)
    create_table(context, table)
    return table


CASES: dict[str, tuple[str, str, Callable[[Context], None]]] = {
    "drop": ("drop_table", ACID, lambda context: drop_table(context, T)),
    "replace": ("alter_table", ACID, lambda context: replace_table(context, T, CONTENT)),
    "drop partition": (
        "drop_partitions",
        PLAIN,
        lambda context: drop_partitions(context, T, lambda partitions: partitions, if_exists=False),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_paused_client_leaves_a_later_table_alone(tmp_path: Path, case: str) -> None:
    call, sql, statement = CASES[case]
    other = open_context(tmp_path / "wh")
    one = Partition(("1",), f"{other.warehouse}/t/p=1")

    def make() -> None:
        made(other, sql)
        other.catalog.add_partitions(T, [one])

    def make_anew() -> None:
        drop_table(other, T)
        make()

    make()
    made(other, sql, CONTENT)
    paused = open_context(tmp_path / "wh", lambda store: PausedStore(store, call, make_anew))
    with pytest.raises(WriteConflictError, match="dropped and created again meanwhile"):
        statement(paused)
    assert [partition.values for partition in other.catalog.list_partitions(T)] == [("1",)]
    assert other.catalog.get_table(CONTENT) is not None
    for context in (paused, other):
        context.close()


def test_a_table_that_was_converted_meanwhile_does_not_become_plain(tmp_path: Path) -> None:
    other = open_context(tmp_path / "wh")
    made(other, PLAIN)

    def convert_first() -> None:
        if not converted:
            converted.append(True)
            set_properties(other, T, {"transactional": "true"})

    converted: list[bool] = []
    paused = open_context(
        tmp_path / "wh", lambda store: PausedStore(store, "lock", convert_first, timed_out=False)
    )
    with pytest.raises(CatalogError, match="cannot be unset"):
        set_properties(paused, T, {"transactional": "false"})
    assert converted
    assert other.catalog.get_table(T).kind is TableKind.FULL_ACID  # type: ignore[union-attr]
    for context in (paused, other):
        context.close()


@pytest.mark.parametrize("call", ["txn_state", "alter_view"])
def test_a_paused_client_does_not_take_back_the_query_of_a_view(tmp_path: Path, call: str) -> None:
    """It sets a property of a view that another client has replaced before, or after, its last look at its lock."""
    other = open_context(tmp_path / "wh")
    view = ViewDefinition(TableName("default", "v"), (Column("a", "int"),), "SELECT 1 AS a", "SELECT 1 AS a")
    newer = replace(view, text="SELECT 2 AS a", original="SELECT 2 AS a")
    create_view(other, view)
    paused = open_context(
        tmp_path / "wh",
        lambda store: PausedStore(store, call, lambda: create_view(other, newer, replaces=True)),
    )
    with pytest.raises(TransactionAbortedError):
        set_view_properties(paused, view.name, {"k": "v"})
    found = other.catalog.get_view(view.name)
    assert found is not None
    assert (found.text, found.properties) == (newer.text, ())
    for context in (paused, other):
        context.close()


def test_a_paused_client_does_not_take_back_a_property_of_a_database(tmp_path: Path) -> None:
    other = open_context(tmp_path / "wh")

    def put(context: Context, key: str) -> None:
        alter_database(context, "default", lambda one: replace(one, properties=(*one.properties, (key, "v"))))

    paused = open_context(
        tmp_path / "wh", lambda store: PausedStore(store, "alter_database", lambda: put(other, "newer"))
    )
    with pytest.raises(WriteConflictError, match="altered meanwhile"):
        put(paused, "older")
    assert other.catalog.get_database("default").properties == (("newer", "v"),)  # type: ignore[union-attr]
    for context in (paused, other):
        context.close()


def test_a_client_paused_in_drop_partition_does_not_take_back_a_property(tmp_path: Path) -> None:
    """Its transaction with the lock has timed out, and that of the change, which began later, has not."""
    other = open_context(tmp_path / "wh")
    made(other, ACID)
    other.catalog.add_partitions(T, [Partition(("1",), f"{other.warehouse}/t/p=1")])

    def set_first() -> None:
        if not changed:
            changed.append(True)
            other.store.abort_txns([min(other.store.valid_txns().open)], "time out")
            set_properties(other, T, {"k": "v"})

    changed: list[bool] = []
    paused = open_context(
        tmp_path / "wh", lambda store: PausedStore(store, "commit_txn", set_first, timed_out=False)
    )
    with pytest.raises(WriteConflictError, match="altered meanwhile"):
        drop_partitions(paused, T, lambda partitions: partitions, if_exists=False)
    assert other.catalog.get_table(T).property("k") == "v"  # type: ignore[union-attr]
    assert len(other.catalog.list_partitions(T)) == 1
    for context in (paused, other):
        context.close()


def test_of_two_drops_at_once_the_second_finds_the_table_gone(tmp_path: Path) -> None:
    """DROP TABLE IF EXISTS: it waited for the lock of the first."""
    other = open_context(tmp_path / "wh")
    paused = open_context(
        tmp_path / "wh",
        lambda store: PausedStore(
            store, "lock", lambda: drop_table(other, T, if_exists=True), timed_out=False
        ),
    )
    made(other, ACID)
    drop_table(paused, T, if_exists=True)
    made(other, ACID)
    with pytest.raises(NoSuchTableError):
        drop_table(paused, T)
    for context in (paused, other):
        context.close()


def test_a_directory_that_was_filled_before_the_lock_becomes_no_table(tmp_path: Path) -> None:
    """The lock on it was that of INSERT OVERWRITE DIRECTORY; its files would be rows of a new transactional table."""
    calls: list[None] = []
    directory = tmp_path / "wh" / "t"

    def fill() -> None:
        calls.append(None)
        if len(calls) > 1:  # behind the lock on the name
            directory.mkdir(exist_ok=True)
            (directory / "000000_0").write_text("1")

    paused = open_context(tmp_path / "wh", lambda store: PausedStore(store, "lock", fill, timed_out=False))
    with pytest.raises(CatalogError, match="not empty"):
        made(paused, ACID)
    assert paused.catalog.get_table(T) is None
    paused.close()
