"""Statements to die in, each with what the table must hold if it had lived. Shared by parent and child.

Rows are (id, v, p); tables are partitioned by p and bucketed, so that every statement writes several files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import AcidSession

Rows = list[tuple[int, str, int]]

FIRST: Rows = [(1, "a", 1), (2, "b", 1), (3, "c", 2), (4, "d", 2), (5, "e", 3)]


@dataclass(frozen=True)
class Statement:
    """What runs, and what it makes of the rows."""

    run: Callable[[AcidSession, str], object]
    result: Callable[[Rows], Rows]


def create(acid: AcidSession, name: str) -> None:
    """Make a table with some history: an insert, a second one, deletes."""
    acid.sql(
        f"CREATE TABLE {name} (id INT, v STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 2 BUCKETS "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    values = ", ".join(f"({i}, '{v}', {p})" for i, v, p in FIRST)
    acid.sql(f"INSERT INTO {name} VALUES {values}, (6, 'gone', 1), (7, 'gone', 2)")
    acid.sql(f"DELETE FROM {name} WHERE v = 'gone'")


def rows(acid: AcidSession, name: str) -> Rows:
    """Return what the table holds, sorted."""
    return sorted(tuple(row) for row in acid.table(name).scan(columns=("id", "v", "p")).to_df().collect())


def leftovers(acid: AcidSession, name: str) -> set[str]:
    """Return what lies in the table's directory and nobody knows: neither read, nor replaced by a later write."""
    table = acid.table(name)
    deltas = table.inspect.deltas().collect()
    known = {f"{row.partition}/{row.directory}" for row in deltas if row.state in ("used", "obsolete")}
    root = Path(table.definition.location)
    found = {path.relative_to(root).as_posix() for path in root.glob("*/*") if path.is_dir()}
    return (found - known) | {path.name for path in root.glob(".hiveacid*")}


def insert(acid: AcidSession, name: str) -> None:
    """Insert into a known partition and, by their values, into new ones."""
    acid.sql(
        f"INSERT INTO {name} SELECT max(id) + c, 'new', if(c = 1, 1, 20 + count_if(v = 'new')) "
        f"FROM {name} CROSS JOIN (SELECT explode(array(1, 2)) AS c) GROUP BY c"
    )


def inserted(before: Rows) -> Rows:
    """Say what `insert` does."""
    top, new = max(row[0] for row in before), sum(row[1] == "new" for row in before)
    return sorted([*before, (top + 1, "new", 1), (top + 2, "new", 20 + new)])


def update(acid: AcidSession, name: str) -> None:
    """Change rows of several partitions."""
    acid.sql(f"UPDATE {name} SET v = concat(v, '!') WHERE id < 5")


def updated(before: Rows) -> Rows:
    """Say what `update` does."""
    return sorted((i, v + "!" if i < 5 else v, p) for i, v, p in before)


def merge(acid: AcidSession, name: str) -> None:
    """Update, delete and insert in one statement; the new row's partition is one that exists."""
    acid.sql(
        f"""MERGE INTO {name} t USING (SELECT 2 AS k UNION ALL SELECT max(id) FROM {name}
            UNION ALL SELECT max(id) + 1 FROM {name}) s ON t.id = s.k
            WHEN MATCHED AND s.k = 2 THEN UPDATE SET v = concat(t.v, '?')
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'merged', 2)"""
    )


def merged(before: Rows) -> Rows:
    """Say what `merge` does."""
    top = max(row[0] for row in before)
    kept = [(i, v + "?" if i == 2 else v, p) for i, v, p in before if i != top]
    return sorted([*kept, (top + 1, "merged", 2)])


def overwrite(acid: AcidSession, name: str) -> None:
    """Replace two partitions."""
    acid.sql(
        f"INSERT OVERWRITE TABLE {name} SELECT id, concat(v, '#'), p FROM {name} WHERE p IN (1, 2) AND id < 100"
    )


def overwritten(before: Rows) -> Rows:
    """Say what `overwrite` does: a partition that gets no row stays as it is."""
    new = [(i, v + "#", p) for i, v, p in before if p in (1, 2) and i < 100]
    return sorted([*new, *(row for row in before if row[2] not in {p for _, _, p in new})])


def transaction(acid: AcidSession, name: str) -> None:
    """Three statements, one commit."""
    with acid.transaction() as txn:
        txn.sql(f"INSERT INTO {name} PARTITION (p = 3) VALUES (5000, 'first')")
        txn.sql(f"UPDATE {name} SET v = 'second' WHERE id = 5000")
        txn.sql(f"UPDATE {name} SET v = concat(v, '$') WHERE id = 4")


def after_transaction(before: Rows) -> Rows:
    """Say what `transaction` does."""
    kept = [(i, {4: v + "$", 5000: "second"}.get(i, v), p) for i, v, p in before]
    return sorted([*kept, (5000, "second", 3)])


def compact(kind: str) -> Callable[[AcidSession, str], object]:
    """Return a compaction of one partition."""
    return lambda acid, name: acid.table(name).compact(kind, partition={"p": 1})


def clean(acid: AcidSession, name: str) -> None:
    """Remove what a compaction replaced."""
    del name
    acid.clean()


def unchanged(before: Rows) -> Rows:
    """Say what upkeep does."""
    return before


def insert_many(acid: AcidSession, name: str) -> None:
    """Insert rows that take Spark some seconds."""
    acid.sql(
        f"INSERT INTO {name} PARTITION (p = 1) SELECT id, sha2(CAST(id AS STRING), 512) FROM range(3000000)"
    )


def with_many(before: Rows) -> Rows:
    """Say what `insert_many` does; it is meant to be killed before it is done."""
    raise NotImplementedError


STATEMENTS = {
    "insert many": Statement(insert_many, with_many),
    "insert": Statement(insert, inserted),
    "update": Statement(update, updated),
    "merge": Statement(merge, merged),
    "overwrite": Statement(overwrite, overwritten),
    "transaction": Statement(transaction, after_transaction),
    "minor": Statement(compact("minor"), unchanged),
    "major": Statement(compact("major"), unchanged),
    "clean": Statement(clean, unchanged),
}
