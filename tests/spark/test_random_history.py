"""One table, hundreds of random statements, a plain model beside it: rows and row ids agree at every step.

A run is repeated by its seed (``HIVEACID_TEST_SEED``), made longer by ``HIVEACID_TEST_STATEMENTS``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import CompactionRefusedError, WriteConflictError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession

STATEMENTS = int(os.environ.get("HIVEACID_TEST_STATEMENTS", "40"))
SEED = int(os.environ.get("HIVEACID_TEST_SEED", "20261121"))
PLACES = ["a", "b c", "d/e=f%", None]
PARTITIONED, CLUSTERED = "PARTITIONED BY (p STRING)", "CLUSTERED BY (k) INTO 3 BUCKETS"
KINDS = {
    "plain": ("", {}),
    "partitioned": (PARTITIONED, {}),
    "bucketed": (CLUSTERED, {}),
    "both, bucketing version 1": (f"{PARTITIONED} {CLUSTERED}", {"bucketing_version": "1"}),
    "insert-only": (PARTITIONED, {"transactional_properties": "insert_only"}),
}

Row = tuple[int | None, str | None, str | None]  # v, s, p
Model = dict[int, Row]  # by k, which is unique and never changes
Identity = tuple[str | None, int, int, int]


class StopError(Exception):
    """Ends a transaction on purpose."""


@dataclass
class Run:
    """A table, its model, and readers that hold older snapshots."""

    acid: AcidSession
    kind: str
    dice: random.Random
    model: Model = field(default_factory=dict)
    ids: dict[int, Identity] = field(default_factory=dict)
    readers: list[tuple[DataFrame, Model]] = field(default_factory=list)
    next_key: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def partitioned(self) -> bool:
        """Tell whether rows have places."""
        return PARTITIONED in KINDS[self.kind][0]

    @property
    def insert_only(self) -> bool:
        """Tell whether rows can't be changed."""
        return self.kind == "insert-only"

    def new_rows(self, count: int, place: Callable[[], str | None] | None = None) -> Model:
        """Invent rows with fresh keys."""
        rows: Model = {}
        for _ in range(count):
            where = (place or (lambda: self.dice.choice(PLACES)))() if self.partitioned else None
            value = self.dice.choice([None, *range(10)])
            rows[self.next_key] = (value, self.dice.choice(["x", "ünï", "", None, "it's"]), where)
            self.next_key += 1
        return rows

    def frame(self, rows: Model) -> DataFrame:
        """Return rows as a DataFrame with the table's columns."""
        data = [(k, *(row if self.partitioned else row[:2])) for k, row in rows.items()]
        schema = "k INT, v INT, s STRING" + (", p STRING" if self.partitioned else "")
        return self.acid.context.facts.spark.createDataFrame(data, schema).coalesce(self.dice.choice([1, 2]))

    def condition(self) -> tuple[str, Callable[[int, Row], bool]]:
        """Return a random condition as SQL and as a function."""
        number = self.dice.randrange(10)
        choices: list[tuple[str, Callable[[int, Row], bool]]] = [
            (f"v = {number}", lambda _, row: row[0] == number),
            (f"v > {number}", lambda _, row: row[0] is not None and row[0] > number),
            ("v IS NULL", lambda _, row: row[0] is None),
            (f"k % 7 = {number % 7}", lambda k, _: k % 7 == number % 7),
            ("s = 'it''s' OR s = ''", lambda _, row: row[1] in ("it's", "")),
        ]
        if self.partitioned:
            choices.append(("p = 'b c' AND k % 2 = 0", lambda k, row: row[2] == "b c" and k % 2 == 0))
            choices.append(("p IS NULL", lambda _, row: row[2] is None))
        return self.dice.choice(choices)

    # statements

    def insert(self, acid: AcidSession | None = None) -> None:
        """INSERT by VALUES or from a DataFrame."""
        rows = self.new_rows(self.dice.randrange(1, 12))
        session = acid or self.acid
        if self.dice.random() < 0.5:
            session.table("t").insert(self.frame(rows))
        else:
            texts = [
                ", ".join(map(literal, (k, *(r if self.partitioned else r[:2])))) for k, r in rows.items()
            ]
            spec = "PARTITION (p)" if self.partitioned else ""
            session.sql(f"INSERT INTO t {spec} VALUES " + ", ".join(f"({text})" for text in texts))
        self.model |= rows

    def overwrite(self) -> None:
        """INSERT OVERWRITE of the table, of dynamic partitions, or of one partition (perhaps by nothing)."""
        if not self.partitioned:
            rows = self.new_rows(self.dice.choice([0, 3, 8]))
            self.acid.table("t").overwrite(self.frame(rows))
            self.model = rows
        elif self.dice.random() < 0.5:
            rows = self.new_rows(4)
            self.acid.table("t").overwrite(self.frame(rows))
            hit = {row[2] for row in rows.values()}
            self.model = {k: r for k, r in self.model.items() if r[2] not in hit} | rows
        else:
            place = self.dice.choice(PLACES)
            rows = self.new_rows(self.dice.choice([0, 3]), lambda: place)
            self.acid.table("t").overwrite(self.frame(rows).drop("p"), partition={"p": place})
            self.model = {k: r for k, r in self.model.items() if r[2] != place} | rows

    def update(self, acid: AcidSession | None = None) -> None:
        """UPDATE by SQL or by the Python API."""
        text, holds = self.condition()
        session = acid or self.acid
        if self.dice.random() < 0.5:
            session.sql(f"UPDATE t SET v = coalesce(v, 0) + 1, s = concat(s, '!') WHERE {text}")
        else:
            session.table("t").update({"v": "coalesce(v, 0) + 1", "s": "concat(s, '!')"}, where=text)
        for k, (v, s, p) in self.model.items():
            if holds(k, (v, s, p)):
                self.model[k] = ((v or 0) + 1, None if s is None else s + "!", p)
                self.ids.pop(k, None)

    def delete(self, acid: AcidSession | None = None) -> None:
        """DELETE."""
        text, holds = self.condition()
        (acid or self.acid).sql(f"DELETE FROM t WHERE {text}")
        self.model = {k: row for k, row in self.model.items() if not holds(k, row)}

    def merge(self) -> None:
        """MERGE with every kind of clause."""
        known = self.dice.sample(sorted(self.model), min(len(self.model), 6))
        source = {k: (self.dice.randrange(10), "merged", self.model[k][2]) for k in known}
        source |= self.new_rows(3)
        by_source = self.dice.random() < 0.3
        builder = (
            self.acid.table("t")
            .merge(self.frame(source), on="t.k = s.k")
            .when_matched_delete("s.v < 3")
            .when_matched_update({"v": "s.v + t.k", "s": "s.s"}, condition="s.v < 8")
            .when_not_matched_insert(condition="s.v IS NOT NULL")
        )
        if by_source:
            builder = builder.when_not_matched_by_source_delete("t.v = 5")
        builder.execute()
        for k, (v, s, p) in source.items():
            if k not in self.model:
                if v is not None:
                    self.model[k] = (v, s, p)
            elif v is not None and v < 3:
                del self.model[k]
            elif v is not None and v < 8:
                self.model[k] = (v + k, s, self.model[k][2])
                self.ids.pop(k, None)
        if by_source:
            self.model = {k: r for k, r in self.model.items() if k in source or r[0] != 5}

    def truncate(self) -> None:
        """TRUNCATE the table or a partition."""
        if self.partitioned and self.dice.random() < 0.7 and any(r[2] == "a" for r in self.model.values()):
            self.acid.sql("TRUNCATE TABLE t PARTITION (p = 'a')")
            self.model = {k: r for k, r in self.model.items() if r[2] != "a"}
        else:
            self.acid.sql("TRUNCATE TABLE t")
            self.model = {}

    def compact(self) -> None:
        """Compact: nothing that anybody sees changes."""
        try:
            self.acid.table("t").compact(self.dice.choice(["minor", "major"]))
        except CompactionRefusedError:
            return

    def clean(self) -> None:
        """Clean: nobody misses a file."""
        self.acid.clean()

    def abort(self) -> None:
        """Let a transaction write and give up."""
        before = dict(self.model), dict(self.ids), self.next_key

        def give_up() -> None:
            with self.acid.transaction() as txn:
                self.insert(txn)
                if not self.insert_only:
                    self.update(txn)
                raise StopError

        with pytest.raises(StopError):
            give_up()
        self.model, self.ids = before[0], before[1]

    def several(self) -> None:
        """Run several statements in one transaction; each sees the ones before it."""
        with self.acid.transaction() as txn:
            self.insert(txn)
            if not self.insert_only:
                self.update(txn)
                self.delete(txn)
            assert rows_of(txn.table("t").to_df(), self.partitioned) == self.model

    def conflict(self) -> None:
        """Let two writers change the same rows: the first to commit wins."""
        if self.insert_only or not self.model:
            return

        def lose() -> None:
            with self.acid.transaction() as late:
                late.table("t").update({"v": "-1"})
                self.acid.table("t").update({"s": "'won'"})

        with pytest.raises(WriteConflictError):
            lose()
        self.model = {k: (v, "won", p) for k, (v, _, p) in self.model.items()}
        self.ids.clear()

    def hold(self) -> None:
        """Start a reader of the present snapshot."""
        self.readers.append((self.acid.table("t").to_df(), dict(self.model)))

    def release(self) -> None:
        """Let a reader of an old snapshot read, and go."""
        if self.readers:
            frame, model = self.readers.pop(self.dice.randrange(len(self.readers)))
            assert rows_of(frame, self.partitioned) == model, "an old reader sees something else"

    def add_column(self) -> None:
        """Change the schema and leave the rows alone."""
        columns = self.acid.table("t").definition.columns
        if len(columns) < 6:
            self.acid.sql(f"ALTER TABLE t ADD COLUMNS (extra{len(columns)} DECIMAL(10,2))")

    def step(self) -> None:
        """Run one random statement and compare."""
        verbs = [self.insert, self.insert, self.overwrite, self.compact, self.clean, self.abort, self.several]
        verbs += [self.hold, self.release]
        if not self.insert_only:
            verbs += [self.update, self.update, self.delete, self.delete, self.merge, self.merge]
            verbs += [self.conflict, self.truncate, self.compact]
        verb: Any = self.dice.choice(verbs)
        self.log.append(verb.__name__)
        verb()
        self.compare()

    def compare(self) -> None:
        """Compare rows, and row ids: unique, and the same as before for rows that nobody changed."""
        frame = self.acid.table("t").scan(row_ids=not self.insert_only).to_df()
        found: Model = {}
        ids: dict[int, Identity] = {}
        for row in frame.collect():
            place = row["p"] if self.partitioned else None
            assert row["k"] not in found, f"row {row['k']} twice after {self.log}"
            found[row["k"]] = (row["v"], row["s"], place)
            if not self.insert_only:
                ids[row["k"]] = (place, *row["ROW__ID"])
        assert found == self.model, f"after {self.log}"
        assert len(set(ids.values())) == len(ids), f"a row id twice after {self.log}"
        moved = {k for k, identity in ids.items() if self.ids.get(k, identity) != identity}
        assert not moved, f"row ids changed after {self.log}: {moved}"
        self.ids = ids


def rows_of(frame: DataFrame, partitioned: bool) -> Model:  # noqa: FBT001
    """Return a frame's rows as a model."""
    return {row["k"]: (row["v"], row["s"], row["p"] if partitioned else None) for row in frame.collect()}


def literal(value: object) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_agrees_with_its_model_at_every_step(acid: AcidSession, kind: str) -> None:
    clauses, properties = KINDS[kind]
    texts = ", ".join(f"'{k}'='{v}'" for k, v in ({"transactional": "true"} | properties).items())
    acid.sql(f"CREATE TABLE t (k INT, v INT, s STRING) {clauses} STORED AS ORC TBLPROPERTIES ({texts})")
    seed = f"{SEED} {kind}"
    run = Run(acid, kind, random.Random(seed))
    run.insert()
    try:
        for _ in range(STATEMENTS):
            run.step()
    except BaseException:
        print(f"HIVEACID_TEST_SEED={SEED} ({kind}), statements: {run.log}")  # noqa: T201 - how to repeat it
        raise
    while run.readers:
        run.release()
