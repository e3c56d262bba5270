"""One table of any types under random statements, each sent by a random door, and read by every reader after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import hiveacid
from hiveacid.config.setting_definitions import CHANGES_BY, SMALL_CHANGES
from hiveacid.errors import CompactionRefusedError, HiveAcidError
from hiveacid.serve.sessions import Caller, Sessions
from hiveacid.streaming import Connection
from support.random_history.model import Clause, Expression, Model, Row, merge
from support.random_history.statements import built, clause_text
from support.random_history.table import create_table
from support.random_history.values import (
    FLAT,
    NESTED,
    PLACES,
    POOLS,
    WIDER,
    any_value,
    in_arrow,
    seen,
    selected,
    stored,
    typed_condition,
    widened,
    written,
)

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession
    from hiveacid.table.acid_table import AcidTable

WEIGHTS = {
    "insert": 6, "insert_place": 2, "overwrite": 2, "update": 5, "delete": 4, "merge": 6,
    "transaction": 3, "truncate": 0.5, "compact": 3, "clean": 1, "add_column": 0.7,
    "change_column": 1,
}  # fmt: skip
ONLY_FULL_ACID = frozenset({"update", "delete", "merge"})
# their hashes differ between Hive's versions
NO_BUCKETS = frozenset({"BINARY", "TIMESTAMP", "DECIMAL(9,2)", "DECIMAL(38,10)", *NESTED})
Verbs = Mapping[str, Callable[[], object]]
Counts = tuple[int, int, int]  # of inserted, updated and deleted rows


@dataclass(frozen=True)
class Kinds:
    """Types of a table's columns beside ``n``, and the rest of its definition."""

    columns: Mapping[str, str]
    places: Mapping[str, str] = field(default_factory=dict)
    bucketed_by: str = ""
    bucketing_version: int = 2
    insert_only: bool = False
    level: str = "hive4"

    @classmethod
    def any(cls, random: Random) -> Kinds:
        """Return a random definition."""
        columns = {f"c{number}": random.choice(FLAT) for number in range(random.randint(2, 5))}
        if random.random() < 0.5:
            columns["nest"] = random.choice(sorted(NESTED))
        places = {f"p{number}": random.choice(list(PLACES)) for number in range(random.choice([0, 1, 1, 2]))}
        insert_only = random.random() < 0.2
        free = ["n", *(column for column, kind in columns.items() if kind not in NO_BUCKETS)]
        bucketed_by = random.choice(free) if random.random() < 0.4 else ""
        level = random.choice(["hive4", "hive4", "hive3"])
        return cls(columns, places, bucketed_by, random.choice([1, 2]), insert_only, level)

    def create(self, name: str) -> str:
        """Return the statement that makes the table."""
        properties = {"transactional": "true", "hiveacid.layout.level": self.level}
        if self.insert_only:
            properties["transactional_properties"] = "insert_only"
        if self.bucketed_by:
            properties["bucketing_version"] = str(self.bucketing_version)
        return create_table(name, {"n": "INT", **self.columns}, self.places, self.bucketed_by, properties)


class Doors:
    """Every way to a warehouse: connections whose driver or whose jobs write, a native session, a client's, Arrow."""

    def __init__(self, native: NativeSession, warehouse: str) -> None:
        """Open them."""
        self.warehouse, self.native = warehouse, native
        self.driver = hiveacid.connect(native.acid.context.env.spark, warehouse=warehouse)
        jobs = {SMALL_CHANGES.name: "0"}
        self.jobs = hiveacid.connect(self.driver.context.env.spark, warehouse=warehouse, settings=jobs)
        self.arrow = hiveacid.open(warehouse)
        self.sessions = Sessions(native, 3600.0)
        self.client = self.sessions.open(Caller("ann", "here", "ann", lambda: False), {})
        self.texts: Mapping[str, Callable[[str], DataFrame]] = {
            "driver": self.driver.sql, "jobs": self.jobs.sql, "native": native.sql, "serve": self._serve,
        }  # fmt: skip

    def _serve(self, text: str) -> DataFrame:
        return self.client.thread.submit(lambda: self.client.spark.sql(text)).future.result()

    def use_zone(self, zone: str) -> None:
        """Set the time zone of all sessions."""
        frames = (
            self.native,
            self.client.spark,
            *(acid.context.env.spark for acid in (self.driver, self.jobs)),
        )
        for spark in frames:
            spark.conf.set("spark.sql.session.timeZone", zone)

    def close(self) -> None:
        """Close what the caller did not open."""
        self.client.end()
        for one in (self.driver, self.jobs, self.arrow):
            one.close()


class InterfaceTable:
    """The table, and its model. A step is a name of ``WEIGHTS`` and a seed."""

    def __init__(self, doors: Doors, name: str, kinds: Kinds) -> None:
        """Make the table."""
        self.doors, self.name, self.kinds, self.random = doors, name, kinds, Random()
        self.log = [kinds.create(name)]
        self.next_name = self.next_batch = 0
        self.types = {"n": "INT", **kinds.columns, **kinds.places}
        self.model = Model(("n", *kinds.columns), tuple(kinds.places), stored=self.stored)
        self.session: Callable[[str], DataFrame] | None = None  # of the transaction that is open
        doors.driver.sql(self.log[0])

    def stored(self, column: str, value: Any) -> Any:
        """Return what a column keeps of a value."""
        return stored(value, self.types[column], place=column in self.kinds.places)

    def run(self, name: str, seed: int) -> None:
        """Carry out one statement and compare."""
        self.random = Random(seed)
        self.log.append(f"-- {name} ({seed})")
        limit = self.random.choice(("0", "64mb"))
        for change in (self.doors.native.sql, self.doors.texts["serve"]):
            change(f"SET {SMALL_CHANGES.name}={limit}")
            change(f"SET {CHANGES_BY.name}={'executors' if seed % 2 else 'auto'}")
        getattr(self, name)()
        self.compare()

    # --- how statements are sent, and tables read -----------------------------------------------------

    def send(self, text: str, counts: Counts | None, verbs: Verbs = {}) -> None:  # noqa: B006 - not changed
        """Send a statement by one of the doors that take its text, or carry it out by a verb."""
        if self.session is not None:
            door, run = "transaction", self.session
        else:
            door = self.random.choice([*self.doors.texts, *verbs])
            run = self.doors.texts.get(door, self.doors.driver.sql)
        self.log.append(f"/* {door} */ {text}")
        if door in verbs:
            verbs[door]()
            return
        rows = run(text).collect()
        found = counts and tuple(
            rows[0][f"num_{change}_rows"] for change in ("inserted", "updated", "deleted")
        )
        assert found == counts, f"{door} reports {found} inserted, updated, deleted rows instead of {counts}"

    def compare(self) -> None:
        """Read all rows, and those of a condition, by every reader."""
        doors, types = self.doors, self.types
        columns = ", ".join(selected(column, types[column]) for column in self.model.all_columns)
        want = self.wanted(self.model)
        for door in (self.random.choice(["driver", "serve"]), "native"):
            found = doors.texts[door](f"SELECT {columns} FROM {self.name}").collect()
            self.same(door, self.rows(found), want)
        table = doors.arrow.table(self.name)
        found = table.to_arrow(columns=list(self.model.all_columns)).to_pylist()
        self.same("to_arrow", self.rows(found), want)
        where = self.condition()
        if self.random.random() < 0.5:
            frame = doors.driver.table(self.name).scan(columns=["n"], where=where.sql).to_df()
        else:
            frame = doors.native.table(self.name).filter(where.sql).select("n")
        assert sorted(row[0] for row in frame.collect()) == self.model.chosen(where), (
            f"Spark WHERE {where.sql}"
        )
        for other in (where, *(self.condition() for _ in range(5))):
            with suppress(HiveAcidError):  # a condition that Arrow does not take
                names = table.to_arrow(columns=["n"], where=other.sql).column(0).to_pylist()
                assert sorted(names) == self.model.chosen(other), f"to_arrow WHERE {other.sql}"

    def wanted(self, model: Model) -> Counter[tuple[Any, ...]]:
        return self.rows(list(model.rows.values()))

    def rows(self, rows: Sequence[Any]) -> Counter[tuple[Any, ...]]:
        columns = self.model.all_columns
        return Counter(tuple(seen(row[column], self.types[column]) for column in columns) for row in rows)

    def same(self, reader: str, found: Counter[tuple[Any, ...]], want: Counter[tuple[Any, ...]]) -> None:
        """Raise AssertionError with the rows that differ."""
        differences = [list(rows.elements())[:3] for rows in (found - want, want - found)]
        assert differences == [[], []], f"{reader}: rows too many, and missing: {differences}"

    # --- parts of statements --------------------------------------------------------------------------

    def condition(self, prefix: str = "") -> Expression:
        # NULL in IN: Spark's ORC reader drops rows of it where it filters by statistics itself (insert-only files).
        return typed_condition(self.random, self.types, prefix, nulls=not self.kinds.insert_only)

    def new_row(self, n: int | None = None) -> Row:
        if n is None:
            n, self.next_name = self.next_name, self.next_name + 1
        places = self.kinds.places
        return {
            column: n if column == "n" else any_value(self.random, kind, place=column in places)
            for column, kind in self.types.items()
        }

    def free_columns(self) -> list[str]:
        return [c for c in self.model.columns if c not in ("n", self.kinds.bucketed_by)]

    def source(self, rows: Sequence[Row], columns: Sequence[str]) -> str:
        """Return rows as a relation of SQL."""
        if not rows:
            nulls = ", ".join(f"{written(None, self.types[column])} AS {column}" for column in columns)
            return f"(SELECT {nulls} WHERE false)"
        values = ", ".join(f"({self.listed(row, columns)})" for row in rows)
        return f"(SELECT * FROM VALUES {values} AS v({', '.join(columns)}))"

    def listed(self, row: Row, columns: Sequence[str]) -> str:
        return ", ".join(written(row[column], self.types[column]) for column in columns)

    def frame(self, rows: Sequence[Row], columns: Sequence[str]) -> DataFrame:
        return self.doors.native.sql(f"SELECT * FROM {self.source(rows, columns)}")

    def by_table(self, name: str, call: Callable[[AcidTable], object]) -> dict[str, Callable[[], object]]:
        """Return a verb of Python, for the driver's way and for jobs."""
        ways = {"driver": self.doors.driver, "jobs": self.doors.jobs}
        return {f"{name} by {way}": partial(call, acid.table(self.name)) for way, acid in ways.items()}

    def arrow(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        return [{c: in_arrow(value, self.types[c]) for c, value in row.items()} for row in rows]

    def assigned(self, prefix: str = "") -> dict[str, Expression]:
        """Return new values of some columns that may change."""
        random = self.random
        free = self.free_columns()
        values: dict[str, Expression] = {}
        for column in random.sample(free, min(len(free), random.randint(1, 3))):
            kind = self.types[column]
            alike = [other for other in self.model.all_columns if self.types[other] == kind]
            if random.random() < 0.4:
                values[column] = _column(random.choice(alike), prefix)
            elif kind == "STRING" and random.random() < 0.5:
                values[column] = Expression(f"substr(concat({prefix}{column}, 'u'), 1, 20)", _longer(column))
            else:
                value = any_value(random, kind)
                values[column] = Expression(written(value, kind), partial(_constant, value))
        return values

    # --- statements -----------------------------------------------------------------------------------

    def insert(self) -> None:
        """Rows, by every way to write them."""
        rows = [self.new_row() for _ in range(self.random.choice([1, 1, 2, 5, 12]))]
        columns = list(self.model.all_columns)
        if self.random.random() < 0.4:
            self.random.shuffle(columns)
        source = self.source(rows, columns)
        listed = ", ".join(f"({self.listed(row, columns)})" for row in rows)
        text = f"INSERT INTO {self.name} ({', '.join(columns)}) " + self.random.choice(
            [f"VALUES {listed}", f"SELECT * FROM {source}", f"SELECT /*+ REPARTITION(3) */ * FROM {source}"]
        )
        frame = partial(self.frame, rows, self.model.all_columns)
        self.next_batch += 1
        verbs: Verbs = {
            **self.by_table("insert()", lambda table: table.insert(frame())),
            "writeTo.append": lambda: frame().writeTo(self.name).append(),
            "insertInto": lambda: frame().write.insertInto(self.name),
            "append()": lambda: self.append(rows),
            "stream": lambda: self.stream(rows),
            "stream_writer": lambda: self.stream_writer()(frame(), self.next_batch),
        }
        self.send(text, (len(rows), 0, 0), verbs)
        self.model.insert(rows)

    def append(self, rows: Sequence[Row]) -> None:
        """Append with Arrow."""
        table = self.doors.arrow.table(self.name)
        table.append(pa.Table.from_pylist(self.arrow(rows), schema=table.schema))

    def stream(self, rows: Sequence[Row]) -> None:
        """Write by Hive's streaming, two transactions of one batch."""
        with Connection(self.name, warehouse=self.doors.warehouse) as stream:
            for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                with stream.transaction():
                    stream.write(self.arrow(part))

    def stream_writer(self, **options: Any) -> Callable[[DataFrame, int], None]:
        table = self.doors.driver.table(self.name)
        return table.stream_writer(f"q{len(options)}", checkpoint="c", **options)

    def insert_place(self) -> None:
        """INSERT INTO or OVERWRITE one partition by name, the default one by any of its names."""
        if not self.kinds.places or not self.model.rows:
            return
        known = self.random.choice(list(self.model.rows.values()))
        place = {column: known[column] for column in self.kinds.places}
        rows = [{**self.new_row(), **place} for _ in range(self.random.choice([1, 3]))]
        names = ["NULL", "'__HIVE_DEFAULT_PARTITION__'"]
        spec = ", ".join(
            f"{c} = {self.random.choice(names) if value is None else written(value, self.types[c])}"
            for c, value in place.items()
        )
        over = self.random.random() < 0.4 and self.session is None
        verb = "OVERWRITE TABLE" if over else "INTO TABLE"
        table, columns = self.doors.driver.table(self.name), list(self.model.columns)
        call = table.overwrite if over else table.insert
        # a datetime without a zone is one of Python's zone, as in Spark's frames
        given = {
            c: str(value) if self.types[c] == "TIMESTAMP" and value else value for c, value in place.items()
        }
        self.send(
            f"INSERT {verb} {self.name} PARTITION ({spec}) SELECT * FROM {self.source(rows, columns)}",
            (len(rows), 0, 0),
            {f"{call.__name__}()": lambda: call(self.frame(rows, columns), partition=given)},
        )
        if over:
            self.model.overwrite(rows, place, all_of_it=True)
        else:
            self.model.insert(rows)

    def overwrite(self) -> None:
        """INSERT OVERWRITE: new rows, or some of the table's own."""
        columns = list(self.model.all_columns)
        if self.random.random() < 0.5:
            where = self.condition()
            rows = [self.model.rows[n] for n in self.model.chosen(where)]
            text = f"SELECT {', '.join(columns)} FROM {self.name} WHERE {where.sql}"
            verbs: Verbs = {}
        else:
            rows = [self.new_row() for _ in range(self.random.choice([0, 1, 3]))]
            text = f"SELECT * FROM {self.source(rows, columns)}"
            frame = partial(self.frame, rows, columns)
            verbs = {
                **self.by_table("overwrite()", lambda table: table.overwrite(frame())),
                "overwritePartitions": lambda: frame().writeTo(self.name).overwritePartitions(),
                "insertInto": lambda: frame().write.insertInto(self.name, overwrite=True),
            }
        self.send(f"INSERT OVERWRITE TABLE {self.name} {text}", (len(rows), 0, 0), verbs)
        self.model.overwrite(rows, {}, all_of_it=not self.kinds.places)

    def update(self) -> None:
        """UPDATE."""
        values, where = self.assigned(), self.condition()
        texts = {column: value.sql for column, value in values.items()}
        listed = ", ".join(f"{column} = {text}" for column, text in texts.items())
        count = len(self.model.chosen(where))
        verbs = self.by_table("update()", lambda table: table.update(texts, where.sql))
        if values:
            self.send(f"UPDATE {self.name} SET {listed} WHERE {where.sql}", (0, count, 0), verbs)
            self.model.update(values, where)

    def delete(self) -> None:
        """DELETE, also by a subquery."""
        where = self.condition()
        if self.model.rows and self.random.random() < 0.25:
            names = self.random.sample(sorted(self.model.rows), min(3, len(self.model.rows)))
            query = " UNION ALL ".join(f"SELECT {n} AS x" for n in names)
            where = Expression(f"n IN ({query})", lambda row: row["n"] in names)
        count = len(self.model.chosen(where))
        verbs = self.by_table("delete()", lambda table: table.delete(where.sql))
        self.send(f"DELETE FROM {self.name} WHERE {where.sql}", (0, 0, count), verbs)
        self.model.delete(where)

    def merge(self) -> None:
        """MERGE with any set of clauses, or all rows of the source by their key."""
        random, by_key = self.random, self.random.random() < 0.4
        known = random.sample(sorted(self.model.rows), min(len(self.model.rows), random.randint(0, 6)))
        kept = [column for column in (*self.kinds.places, self.kinds.bucketed_by) if column and by_key]
        source = [{**self.new_row(n), **{c: self.model.rows[n][c] for c in kept}} for n in known]
        source += [self.new_row() for _ in range(random.randint(0 if known else 1, 3))]
        columns = self.model.all_columns
        of_source = {c: Expression(f"s.{c}", itemgetter(f"s.{c}")) for c in columns}
        clauses = (
            [
                Clause("matched", "update", None, {c: of_source[c] for c in self.free_columns()}),
                Clause("source", "insert", None, of_source),
            ]
            if by_key
            else self.clauses(of_source)
        )
        counts = merge(self.model, [{"k": row["n"], **row} for row in source], clauses)
        texts, on = " ".join(map(clause_text, clauses)), "t.n = s.n"
        frame = partial(self.frame, source, columns)
        verbs = self.by_table("merge()", lambda table: built(table.merge(frame(), on=on), clauses).execute())
        if by_key:
            self.next_batch += 1
            new = {c: F.col(f"s.{c}") for c in self.free_columns()}
            merge_into = lambda: (  # noqa: E731
                frame().alias("s").mergeInto(self.name, F.expr(f"s.n = {self.name}.n"))
                .whenMatched().update(new).whenNotMatched().insertAll().merge()
            )  # fmt: skip
            if hasattr(DataFrame, "mergeInto"):  # Spark 4
                verbs["mergeInto"] = merge_into
            verbs["stream_writer"] = lambda: self.stream_writer(merge_on="n")(frame(), self.next_batch)
        text = f"MERGE INTO {self.name} t USING {self.source(source, columns)} s ON {on} {texts}"
        self.send(text, counts, verbs)

    def clauses(self, of_source: Mapping[str, Expression]) -> list[Clause]:
        """Return some clauses."""
        taken = {c: self.random.choice([of_source[c], value]) for c, value in self.assigned("t.").items()}
        other = self.assigned("t.")
        even = Expression("s.n % 2 = 0", lambda row: row["s.n"] % 2 == 0)
        possible = [
            Clause("matched", "delete", self.condition("t."), {}),
            Clause("matched", "update", self.condition("t."), taken),
            Clause("matched", "update", None, taken),
            Clause("source", "insert", even, of_source),
            Clause("source", "insert", None, of_source),
            Clause("target", "delete", self.condition("t."), {}),
            Clause("target", "update", self.condition("t."), other),
        ]
        possible = [clause for clause in possible if clause.values or clause.action == "delete"]
        return [clause for clause in possible if self.random.random() < 0.5] or possible[:1]

    def transaction(self) -> None:
        """Several statements of one session; it sees its own rows, and the others see none of them before."""
        door = self.random.choice(list(self.doors.texts))
        before, session = self.model.copy(), self.doors.texts[door]
        give_up = self.random.random() < 0.3
        kinds = ["insert", "insert_place", *(() if self.kinds.insert_only else sorted(ONLY_FULL_ACID))]
        columns = ", ".join(selected(column, self.types[column]) for column in self.model.all_columns)
        session("START TRANSACTION")
        self.log.append(f"/* {door} */ START TRANSACTION")
        self.session = session
        try:
            for kind in self.random.choices(kinds, k=self.random.randint(2, 4)):
                getattr(self, kind)()
                found = self.rows(session(f"SELECT {columns} FROM {self.name}").collect())
                self.same("inside of the transaction", found, self.wanted(self.model))
            others = self.doors.arrow.table(self.name).to_arrow().to_pylist()
            self.same("outside of the transaction", self.rows(others), self.wanted(before))
        except BaseException:
            session("ROLLBACK")
            raise
        finally:
            self.session = None
        self.log.append("ROLLBACK" if give_up else "COMMIT")
        session(self.log[-1])
        if give_up:
            self.model = before

    def truncate(self) -> None:
        """TRUNCATE TABLE."""
        self.send(f"TRUNCATE TABLE {self.name}", None)
        self.model.remove(list(self.model.rows))

    def compact(self) -> None:
        """Compact the table's partitions; nothing to do is fine."""
        kind = self.random.choice(["minor", "major", *(() if self.kinds.bucketed_by else ("rebalance",))])
        self.log.append(f"-- compact {kind}")
        with suppress(CompactionRefusedError):
            self.random.choice([self.doors.driver, self.doors.jobs]).table(self.name).compact(kind)

    def clean(self) -> None:
        """Remove what nobody can read any more."""
        self.doors.driver.clean()

    def add_column(self) -> None:
        """ALTER TABLE ADD COLUMNS, of any type."""
        name, kind = f"z{len(self.model.columns)}", self.random.choice(list(POOLS))
        self.send(f"ALTER TABLE {self.name} ADD COLUMNS ({name} {kind})", None)
        self.types[name] = kind
        self.model.add_column(name)

    def change_column(self) -> None:
        """ALTER TABLE: another name, unless files are read by names, and perhaps a wider type, in Hive's words or Spark's."""
        column = self.random.choice(self.free_columns())
        old = self.types[column]
        kind = self.random.choice([old, *WIDER.get(old, ())])
        by_name = self.kinds.level == "hive3" or (kind != old and self.random.random() < 0.5)
        name = column if by_name else f"r{len(self.log)}"
        kinds = {c: self.types[c] for c in self.model.columns}
        replaced = ", ".join(f"{name} {kind}" if c == column else f"{c} {k}" for c, k in kinds.items())
        ways = [f"CHANGE COLUMN {column} {name} {kind}", f"REPLACE COLUMNS ({replaced})"]
        ways += [f"ALTER COLUMN {column} TYPE {kind}"] if name == column else []
        ways += [f"RENAME COLUMN {column} TO {name}"] if kind == old else []
        self.send(f"ALTER TABLE {self.name} {self.random.choice(ways)}", None)
        self.types = {name if c == column else c: kind if c == column else k for c, k in self.types.items()}
        self.model.change_column(column, name, lambda value: widened(value, old, kind))


def _column(name: str, prefix: str) -> Expression:
    return Expression(f"{prefix}{name}", itemgetter(name))


def _longer(column: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[column] is None else (row[column] + "u")[:20]


def _constant(value: Any, _: Row) -> Any:
    return value
