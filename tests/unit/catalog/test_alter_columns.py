"""ALTER TABLE of columns and comments, without Spark: what the catalog has afterwards, and what readers of old files get."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.catalog.alter_table import alter_columns
from hiveacid.catalog.ddl import create_table, set_properties
from hiveacid.config.setting_definitions import LAYOUT_LEVEL
from hiveacid.core.model import Column, Constraint, ConstraintKind, TableDefinition, TableName
from hiveacid.core.schema.evolution import ColumnChange, change_column, drop_columns, replace_columns
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import NoSuchColumnError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.table.context import Context
from support.contexts import open_context

T = TableName("default", "t")
COLUMNS = (Column("id", "int"), Column("v", "varchar(3)"), Column("f", "float"))


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = open_context(tmp_path)
    table = TableDefinition(T, COLUMNS, ORC, "", properties=(("transactional", "true"),))
    create_table(made, table)
    yield made
    made.close()


def change(context: Context, column_change: ColumnChange) -> None:
    alter_columns(context, T, partial(change_column, change=column_change))


def test_rows_of_before_are_read_under_new_names_and_types(context: Context) -> None:
    """Rows that were appended before, between and after, by the readers without Spark."""
    with hiveacid.open(context.warehouse) as warehouse:
        warehouse.table("t").append(pa.table({"id": [1, 2], "v": ["a", "b"], "f": [0.5, None]}))
        change(context, ColumnChange("id", "v2", "bigint"))
        warehouse.table("t").append(pa.table({"v2": [2**40], "v": ["c"], "f": [1.5]}))
        change(context, ColumnChange("v", "id", "string", "was v"))  # the first one's name
        wider = (
            Column("k", "decimal(22,2)"),
            Column("id", "string"),
            Column("f", "double"),
            Column("v", "int"),
        )
        alter_columns(context, T, partial(replace_columns, columns=wider))
        warehouse.table("t").append(pa.table({"k": [7], "id": ["longer"], "f": [0.1], "v": [3]}))
        table = warehouse.table("t")
        rows = [
            (1, "a", 0.5, None),
            (2, "b", None, None),
            (2**40, "c", 1.5, None),
            (7, "longer", 0.1, 3),
        ]
        assert [tuple(row.values()) for row in table.to_arrow().to_pylist()] == rows
        assert table.to_arrow(["k"], where="id = 'b'").column(0).to_pylist() == [2]
        assert table.to_arrow(["id"], where="k >= 3").column(0).to_pylist() == ["c", "longer"]
        assert table.to_arrow(["k"], where="v IS NULL AND f > 0.4").column(0).to_pylist() == [1, 2**40]
        assert table.to_arrow(["k"], where="f = 0.1").column(0).to_pylist() == [7]
        assert table.to_polars().collect().rows() == rows
        assert table.to_arrow(as_of=1).column_names == ["k", "id", "f", "v"]
        assert table.to_arrow(as_of=1).column("k").to_pylist() == [1, 2]


def test_another_layout_level_finds_renamed_columns(context: Context) -> None:
    with hiveacid.open(context.warehouse) as warehouse:
        warehouse.table("t").append(pa.table({"id": [1], "v": ["a"], "f": [0.5]}))
    change(context, ColumnChange("id", "k"))
    with hiveacid.open(context.warehouse, settings={LAYOUT_LEVEL.name: "hive3"}) as warehouse:
        assert warehouse.table("t").to_arrow(["k"]).column(0).to_pylist() == [1]


def test_a_definition_that_cannot_be_is_refused(context: Context) -> None:
    before = context.require(T)
    for column_change, error, words in (
        (ColumnChange("id", "v"), SchemaMismatchError, "named twice"),
        (ColumnChange("id", "row__id"), SchemaMismatchError, "reserved"),
        (ColumnChange("nosuch", "x"), NoSuchColumnError, "no column nosuch"),
        (ColumnChange("id", type="smallint"), UnsupportedFeatureError, "cannot become smallint"),
    ):
        with pytest.raises(error, match=words):
            change(context, column_change)
    with pytest.raises(UnsupportedFeatureError, match="cannot be dropped"):
        alter_columns(context, T, lambda table, _: drop_columns(table, ["v"], if_exists=False))
    assert context.require(T) == before


def test_columns_beside_constraints_stay(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CHECK names the columns in its text, the others name their own."""
    constraints = [Constraint(ConstraintKind.NOT_NULL, "nn", "id")]
    monkeypatch.setattr(type(context.catalog), "constraints", lambda *_, **__: tuple(constraints))
    with pytest.raises(UnsupportedFeatureError, match="id cannot change beside the constraint nn"):
        change(context, ColumnChange("id", "k"))
    change(context, ColumnChange("id", comment="the key"))
    change(context, ColumnChange("v", "w"))
    constraints.append(Constraint(ConstraintKind.CHECK, "positive", None, "w > ''"))
    with pytest.raises(UnsupportedFeatureError, match="w cannot change beside the constraint positive"):
        change(context, ColumnChange("w", "x"))
    assert context.require(T).columns[:2] == (Column("id", "int", "the key"), Column("w", "varchar(3)"))


def test_the_property_comment_is_the_comment(context: Context) -> None:
    set_properties(context, T, {"Comment": "of all", "note": "x"})
    table = context.require(T)
    assert (table.comment, table.property("comment"), table.property("note")) == ("of all", None, "x")
    set_properties(context, T, {"comment": ""})
    assert context.require(T).comment is None


def test_a_column_and_its_constraint_change_in_one_commit(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is killed between two would leave the column without the constraint."""
    commits = []
    alter_table = type(context.store).alter_table
    monkeypatch.setattr(
        type(context.store),
        "alter_table",
        lambda *given, **named: (commits.append(given[2]), alter_table(*given, **named))[1],
    )
    added = Constraint(ConstraintKind.NOT_NULL, "nn", "key")
    alter_columns(context, T, partial(change_column, change=ColumnChange("id", "key", "bigint")), added)
    (made,) = commits
    assert (made.columns[0], made.constraints) == (Column("key", "bigint"), (added,))
    assert context.catalog.constraints(context.require(T)) == (added,)
