"""Statements to be killed in on tables of an object store, and what each makes of the rows. Shared by parent and child.

The n-th statement of a table is the same whoever runs it, so that the parent knows what the child was at. Every
statement but a compaction writes some row, into several files, and its rows tell its number: a part of it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from hiveacid.errors import CompactionRefusedError

if TYPE_CHECKING:
    from hiveacid import AcidSession

Rows = list[tuple[int, str, int]]  # id, v, p

_ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true'"
TABLES = {
    "plain": f"(id INT, v STRING, p INT) {_ACID})",
    "parts": f"(id INT, v STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 2 BUCKETS {_ACID})",
    "only": f"(id INT, v STRING) PARTITIONED BY (p INT) {_ACID}, 'transactional_properties'='insert_only')",
}
COMPACTIONS = ("minor", "major")
_KINDS = ("insert", "update", "update", "merge", "merge", "overwrite", *COMPACTIONS)
_INSERT_ONLY = ("insert", "insert", "overwrite", *COMPACTIONS)
_WINDOW = 60  # an overwrite keeps the rows of about so many of the latest ids


def kind_of(seed: int, table: str, number: int) -> str:
    """Return what the n-th statement of a table is; the first (0) is an insert."""
    if number == 0:
        return "insert"
    return Random(f"{seed} {table} {number}").choice(_INSERT_ONLY if table == "only" else _KINDS)


def run(acid: AcidSession, kind: str, table: str, number: int) -> None:
    """Run a statement; a compaction that has nothing to do is fine."""
    if kind in COMPACTIONS:
        with suppress(CompactionRefusedError):
            acid.table(table).compact(kind)
        return
    acid.sql(_TEXTS[kind](table, number))


def result(kind: str, table: str, number: int, before: Rows) -> Rows:
    """Return the rows after a statement."""
    made = _RESULTS[kind](number, before)
    if kind == "overwrite" and table != "plain":  # partitions that get no row stay
        made += [row for row in before if row[2] not in {p for _, _, p in made}]
    return sorted(made)


def _inserted(number: int) -> Rows:
    return [(one, f"i{number}", one % 2) for one in range(10 * number + 1, 10 * number + 5)]


def _merged(number: int, before: Rows) -> Rows:
    kept = [(i, f"m{number}" if i % 2 else v, p) for i, v, p in before if i % 10 != 2]
    return [*kept, *((one, f"m{number}", one % 2) for one in (10 * number + 5, 10 * number + 6))]


_TEXTS: Mapping[str, Callable[[str, int], str]] = {
    "insert": lambda table, n: f"INSERT INTO {table} VALUES {', '.join(map(str, _inserted(n)))}",
    "update": lambda table, n: f"UPDATE {table} SET v = 'u{n}' WHERE id % 3 <> {n % 3}",
    "merge": lambda table, n: (
        f"MERGE INTO {table} t USING (SELECT id AS k FROM {table} UNION ALL SELECT {10 * n + 5} UNION ALL "
        f"SELECT {10 * n + 6}) s ON t.id = s.k WHEN MATCHED AND t.id % 10 = 2 THEN DELETE WHEN MATCHED AND "
        f"t.id % 2 = 1 THEN UPDATE SET v = 'm{n}' WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'm{n}', s.k % 2)"
    ),
    "overwrite": lambda table, n: (
        f"INSERT OVERWRITE TABLE {table} SELECT id, 'o{n}', p FROM {table} "
        f"WHERE id > (SELECT max(id) - {_WINDOW} FROM {table})"
    ),
}
_RESULTS: Mapping[str, Callable[[int, Rows], Rows]] = {
    "insert": lambda n, before: [*before, *_inserted(n)],
    "update": lambda n, before: [(i, f"u{n}" if i % 3 != n % 3 else v, p) for i, v, p in before],
    "merge": _merged,
    "overwrite": lambda n, before: [
        (i, f"o{n}", p) for i, _, p in before if i > max(row[0] for row in before) - _WINDOW
    ],
}


@dataclass
class Story:
    """What a table holds after each of its commits; compactions commit no rows."""

    seed: int
    table: str
    states: list[Rows] = field(default_factory=lambda: [[]])
    numbers: list[int] = field(default_factory=lambda: [-1])  # of the statement that made each state

    def after(self, commits: int) -> Rows:
        """Return the rows after so many commits."""
        number = self.numbers[-1]
        while len(self.states) <= commits:
            number += 1
            kind = kind_of(self.seed, self.table, number)
            if kind not in COMPACTIONS:
                self.states.append(result(kind, self.table, number, self.states[-1]))
                self.numbers.append(number)
        return self.states[commits]

    def next_number(self, commits: int) -> int:
        """Return which statement follows so many commits."""
        self.after(commits)
        return self.numbers[commits] + 1
