from __future__ import annotations

import pytest

from hiveacid.core.model import Column, Constraint, ConstraintKind, TableDefinition, TableName
from hiveacid.core.schema import constraints as rules
from hiveacid.core.schema.show_create import show_create_table
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import AlreadyExistsError, CatalogError, NoSuchColumnError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable

NOT_NULL = Constraint(ConstraintKind.NOT_NULL, "nn", "a")
DEFAULT = Constraint(ConstraintKind.DEFAULT, "d", "a", "'x; y'", rely=False)
CHECK = Constraint(ConstraintKind.CHECK, "ck", None, "a < `odd``name`")
KEY = Constraint(ConstraintKind.PRIMARY_KEY, "pk", enabled=False, key=("a", "odd`name"))
PARENT = Constraint(
    ConstraintKind.FOREIGN_KEY,
    "fk",
    enabled=False,
    rely=False,
    key=("a",),
    parent=TableName("o", "u"),
    parent_key=("x",),
)
ALL = (NOT_NULL, DEFAULT, CHECK, KEY, PARENT)
T = TableDefinition(
    TableName("d", "t"),
    (Column("a", "string"), Column("odd`name", "int")),
    ORC,
    "/w/t",
    (Column("p", "string"),),
)


def test_which_bind_writers() -> None:
    """Those that are enabled; keys never do."""
    off = [Constraint(kind, "x", "a", "1", enabled=False) for kind in ConstraintKind]
    assert not rules.limits([*off, DEFAULT, KEY, PARENT])
    assert rules.limits([NOT_NULL])
    assert rules.limits([CHECK])
    assert rules.defaults([*off, *ALL], ["a", "p"]) == {"a": "'x; y'"}
    assert rules.defaults(ALL, ["p"]) == {}


def test_names_are_made_and_kept_apart() -> None:
    unnamed = [Constraint(ConstraintKind.CHECK, "", None, "a > 1")] * 2
    made = rules.with_added(T, [NOT_NULL], unnamed)
    assert made[0] == NOT_NULL
    assert made[1].name.startswith("ck_t_")
    assert made[2].name == f"{made[1].name}_1"
    other = rules.with_added(TableDefinition(TableName("e", "t"), T.columns, ORC, "/e/t"), [], unnamed)
    assert {one.name for one in other}.isdisjoint(one.name for one in made)


@pytest.mark.parametrize(
    ("added", "error", "words"),
    [
        (Constraint(ConstraintKind.NOT_NULL, "x", "nosuch"), NoSuchColumnError, "nosuch"),
        (Constraint(ConstraintKind.UNIQUE, "x", key=("a", "q")), NoSuchColumnError, "no column q"),
        (Constraint(ConstraintKind.CHECK, "nn", None, "a > 1"), AlreadyExistsError, "constraint nn already"),
        (Constraint(ConstraintKind.NOT_NULL, "x", "a"), CatalogError, "DROP CONSTRAINT nn first"),
        (Constraint(ConstraintKind.PRIMARY_KEY, "x", key=("p",)), CatalogError, "DROP CONSTRAINT pk first"),
    ],
)
def test_what_may_not_be_added(added: Constraint, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rules.with_added(T, ALL, [added])


def test_which_columns_are_mentioned() -> None:
    """A text may name any column whose name is in it, quoted or not."""
    assert not rules.mentions(NOT_NULL, {"p", "odd`name"})
    assert rules.mentions(CHECK, {"odd`name"})
    assert rules.mentions(KEY, {"odd`name"})
    assert not rules.mentions(CHECK, {"p"})


def test_the_shown_text_defines_the_same_constraints() -> None:
    on_partition = Constraint(ConstraintKind.NOT_NULL, "nn_p", "p", enabled=False, rely=False)
    text = show_create_table(T, (*ALL, on_partition))
    found = parse(text)
    assert isinstance(found, CreateTable)
    assert set(found.constraints) == {*ALL, on_partition}


def test_text_in_errors() -> None:
    assert str(CHECK) == "constraint ck (CHECK a < `odd``name`)"
    assert str(Constraint(ConstraintKind.DEFAULT, "", "a", "1")) == "constraint (DEFAULT 1)"  # not yet named


def test_rows_of_describe() -> None:
    rows = [row[:2] for row in rules.described(T.name, ALL)]
    assert rows[:4] == [("# Constraints", ""), ("", ""), ("# Primary Key", ""), ("Table:", "d.t")]
    assert ("Parent Column Name:o.u.x", "Column Name:a") in rows
    assert ("Column Name:a", "Default Value:'x; y'") in rows
    assert rules.described(T.name, ()) == []
