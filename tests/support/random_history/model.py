"""The model of `test_random_history.py`: one table as a dict of rows, and the little language of its statements.

Every expression is a pair: its SQL text, and a Python function that computes the same of a row (with None for
NULL and for unknown). A row's column ``n`` is its name: given once, never updated, unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

Row = dict[str, Any]
Function = Callable[[Row], Any]

TEXTS = (None, "", "a", "b", "it's", "ünï", 'q"\\', "line\nbreak")
PLACES = ("x", "y/z", "50%", "a=b", "", None)  # of partition column p: '' becomes NULL
NUMBERS = (None, -2, 0, 1, 2, 3)


@dataclass(frozen=True)
class Expression:
    """SQL text, and what it means."""

    sql: str
    of: Function


def literal(value: Any) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    return str(value)


def both(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 - three-valued AND
    """Return AND as SQL has it."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 - three-valued OR
    """Return OR as SQL has it."""
    if one or other:
        return True
    return None if one is None or other is None else False


def comparison(column: str, sign: str, value: Any) -> Expression:
    """Return ``column = value`` or with another sign; unknown where either is NULL."""
    compare = {"=": lambda a, b: a == b, ">": lambda a, b: a > b, "<=": lambda a, b: a <= b}[sign]

    def of(row: Row) -> bool | None:
        return None if row[column] is None or value is None else compare(row[column], value)  # type: ignore[no-untyped-call]

    return Expression(f"{column} {sign} {literal(value)}", of)


def is_null(column: str) -> Expression:
    """Return ``column IS NULL``."""
    return Expression(f"{column} IS NULL", lambda row: row[column] is None)


def modulo(divisor: int, rest: int) -> Expression:
    """Return a condition that chooses rows by their names."""
    return Expression(f"n % {divisor} = {rest}", lambda row: row["n"] % divisor == rest)


def condition(random: Random, partitioned: bool) -> Expression:  # noqa: FBT001
    """Return some condition on a row."""
    simple = [
        lambda: comparison("a", random.choice(["=", ">", "<="]), random.choice(NUMBERS[1:])),
        lambda: is_null(random.choice(["a", "s"])),
        lambda: modulo(random.choice([2, 3, 5]), random.choice([0, 1])),
        lambda: modulo(random.choice([2, 3, 5]), random.choice([0, 1])),
        lambda: comparison("s", random.choice(["=", ">"]), random.choice(TEXTS)),
        lambda: Expression("true", lambda _: True),
        lambda: Expression("n < 0", lambda _: False),
    ]
    if partitioned:
        simple += [
            lambda: comparison("p", "=", random.choice(PLACES)),
            lambda: comparison("q", random.choice(["=", ">"]), random.choice([0, 1])),
            lambda: is_null(random.choice("pq")),
        ]
    one = random.choice(simple)()
    match random.randrange(4):
        case 0:
            other = random.choice(simple)()
            return Expression(f"({one.sql}) AND ({other.sql})", lambda row: both(one.of(row), other.of(row)))
        case 1:
            other = random.choice(simple)()
            return Expression(f"({one.sql}) OR ({other.sql})", lambda row: either(one.of(row), other.of(row)))
        case _:
            return one


def assignments(random: Random, columns: Sequence[str], prefix: str = "") -> dict[str, Expression]:
    """Return new values for some columns, never for ``n`` (it is the bucketing column, too)."""
    makers: dict[str, Sequence[Expression]] = {
        "a": (
            Expression(f"{prefix}a + 1", lambda row: None if row["a"] is None else row["a"] + 1),
            Expression("NULL", lambda _: None),
            Expression(f"{prefix}n % 4", lambda row: row["n"] % 4),
        ),
        "s": (
            Expression(
                f"concat(left(coalesce({prefix}s, ''), 9), 'u')", lambda row: (row["s"] or "")[:9] + "u"
            ),
            Expression("'it\\'s'", lambda _: "it's"),
            Expression(f"CAST({prefix}n AS STRING)", lambda row: str(row["n"])),
        ),
    }
    added = (Expression(f"{prefix}n + 1", lambda row: row["n"] + 1), Expression("NULL", lambda _: None))
    free = [column for column in columns if column != "n"]
    chosen = random.sample(free, random.randint(1, min(2, len(free))))
    return {column: random.choice(makers.get(column, added)) for column in chosen}


@dataclass
class Model:
    """What a table must hold. ``ids``: the ROW__ID of each row, None where a statement made a new version."""

    columns: tuple[str, ...] = ("n", "a", "s")
    partition_columns: tuple[str, ...] = ()
    rows: dict[int, Row] = field(default_factory=dict)
    ids: dict[int, Any] = field(default_factory=dict)
    stored: Callable[[str, Any], Any] = lambda column, value: (value or None) if column == "p" else value
    """What a column keeps of a value: Hive keeps no empty text in a directory's name."""

    def copy(self) -> Model:
        """Return a model that can be changed on its own."""
        return replace(self, rows={n: dict(row) for n, row in self.rows.items()}, ids=dict(self.ids))

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Return data and partition columns, in the table's order."""
        return (*self.columns, *self.partition_columns)

    def place(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a row's partition."""
        return tuple(row[column] for column in self.partition_columns)

    def places(self) -> list[tuple[Any, ...]]:
        """Return the partitions that hold rows."""
        return sorted({self.place(row) for row in self.rows.values()}, key=repr)

    def add_column(self, name: str) -> None:
        """Add a column, NULL in all rows."""
        self.columns = (*self.columns, name)
        for n, row in self.rows.items():
            self.rows[n] = {column: row.get(column) for column in self.all_columns}

    def change_column(self, old: str, new: str, change: Callable[[Any], Any]) -> None:
        """Rename a column, and change its values as another type has them."""
        self.columns = tuple(new if column == old else column for column in self.columns)
        for row in self.rows.values():
            row[new] = change(row.pop(old))

    def insert(self, rows: Iterable[Row]) -> int:
        """Add rows; columns that they don't have are NULL."""
        count = 0
        for row in rows:
            full = {column: self.stored(column, row.get(column)) for column in self.all_columns}
            self.rows[full["n"]], self.ids[full["n"]] = full, None
            count += 1
        return count

    def remove(self, names: Iterable[int]) -> int:
        """Take rows away."""
        gone = list(names)
        for n in gone:
            del self.rows[n], self.ids[n]
        return len(gone)

    def chosen(self, where: Expression) -> list[int]:
        """Return the names of the rows that a condition holds for."""
        return sorted(n for n, row in self.rows.items() if where.of(row) is True)

    def delete(self, where: Expression) -> int:
        """Delete rows; return how many."""
        return self.remove(self.chosen(where))

    def update(self, values: Mapping[str, Expression], where: Expression) -> int:
        """Update rows; return how many."""
        names = self.chosen(where)
        for n in names:
            self.change(n, {column: value.of(self.rows[n]) for column, value in values.items()})
        return len(names)

    def change(self, n: int, values: Mapping[str, Any]) -> None:
        """Make a new version of a row."""
        self.rows[n] = {**self.rows[n], **{c: self.stored(c, value) for c, value in values.items()}}
        self.ids[n] = None

    def overwrite(self, rows: Sequence[Row], fixed: Mapping[str, Any], *, all_of_it: bool) -> int:
        """Replace what lies in the partitions of ``fixed`` (``all_of_it``), or in those that rows go to."""
        new = replace(self, rows={}, ids={})
        new.insert(rows)
        targets = {new.place(row) for row in new.rows.values()}
        self.remove(
            [
                n
                for n, row in self.rows.items()
                if (all_of_it and all(row[c] == v for c, v in fixed.items())) or self.place(row) in targets
            ]
        )
        self.rows |= new.rows
        self.ids |= new.ids
        return len(rows)

    def changed_from(self, before: Model) -> set[int]:
        """Return the names of rows that are new, gone or newer than in ``before``."""
        names = {*self.rows, *before.rows}
        return {
            n
            for n in names
            if self.rows.get(n) != before.rows.get(n) or self.ids.get(n, 0) != before.ids.get(n, 0)
        }


@dataclass(frozen=True)
class Clause:
    """One WHEN of a MERGE: for ``matched``, ``source`` (only) or ``target`` (only) rows.

    ``when`` and ``values`` are functions of the joined row: the target's columns, and the source's as ``s.k``.
    """

    rows: str
    action: str
    when: Expression | None
    values: Mapping[str, Expression]


def merge(model: Model, source: Sequence[Row], clauses: Sequence[Clause]) -> tuple[int, int, int]:
    """Merge source rows, joined by ``t.n = s.k``, into a model; return inserted, updated, deleted."""
    by_key = {row["k"]: {f"s.{name}": value for name, value in row.items()} for row in source}
    before = model.copy()
    counts = {"insert": 0, "update": 0, "delete": 0}
    for n, row in before.rows.items():
        joined = {**row, **by_key.get(n, {})}
        clause = _first(clauses, "matched" if n in by_key else "target", joined)
        if clause is None:
            continue
        counts[clause.action] += 1
        if clause.action == "delete":
            model.remove([n])
        else:
            model.change(n, {column: value.of(joined) for column, value in clause.values.items()})
    for key, joined in by_key.items():
        clause = None if key in before.rows else _first(clauses, "source", joined)
        if clause is not None:
            counts["insert"] += model.insert(
                [{column: value.of(joined) for column, value in clause.values.items()}]
            )
    return counts["insert"], counts["update"], counts["delete"]


def _first(clauses: Sequence[Clause], rows: str, joined: Row) -> Clause | None:
    for clause in clauses:
        if clause.rows == rows and (clause.when is None or clause.when.of(joined) is True):
            return clause
    return None
