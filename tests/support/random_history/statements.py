"""The statements that change rows, each by SQL or by Python, on the table and on its model."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from support.random_history.model import (
    NUMBERS,
    PLACES,
    TEXTS,
    Clause,
    Expression,
    Model,
    assignments,
    condition,
    literal,
    merge,
)
from support.random_history.table import HistoryTable, lies_in, listed

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.write.merge import TableMerger

_SOURCE = "k INT, v INT, w STRING, op STRING, p STRING, q INT"


class Statements(HistoryTable):
    """INSERT, INSERT OVERWRITE, UPDATE, DELETE, MERGE, TRUNCATE with random parts."""

    def insert(self, session: AcidSession | None = None, model: Model | None = None) -> None:
        """INSERT INTO: VALUES, a DataFrame, or a query on the table itself; dynamic, static, mixed."""
        session, model, random = session or self.acid, model or self.model, self.random
        kind = random.choice(["values", "frame", "query"])
        if kind == "query" and model.rows:
            self._insert_query(session, model)
            return
        fixed = self.fixed()
        rows = self.new_rows(random.randint(1, 8), fixed)
        columns = self.given_columns(model, fixed)
        for row in rows:
            for column in set(row) - set(columns) - set(fixed):
                del row[column]
        count = model.insert(rows)
        if kind == "values":
            values = ", ".join(f"({', '.join(literal(row[c]) for c in columns)})" for row in rows)
            call: Any = f"INSERT INTO t {self.spec(fixed)} ({', '.join(columns)}) VALUES {values}"
        else:
            frame = self.frame(rows, [c for c in model.all_columns if c not in fixed])
            call = lambda table: table.insert(frame, partition=fixed or None)  # noqa: E731
            self.log.append(f"# insert {rows} into {fixed}")
        self.counted(count, 0, 0, session, call)

    def _insert_query(self, session: AcidSession, model: Model) -> None:
        where = condition(self.random, self.layout.partitioned)
        names = model.chosen(where)
        first = self.take_names(len(names))
        rows = [{**model.rows[n], "n": first + at} for at, n in enumerate(names)]
        columns = ", ".join(model.all_columns[1:])
        count = model.insert(rows)
        query = f"SELECT CAST({first - 1} + row_number() OVER (ORDER BY n) AS INT), {columns} FROM t WHERE {where.sql}"
        self.counted(count, 0, 0, session, f"INSERT INTO t {query}")

    def overwrite(self, session: AcidSession | None = None, model: Model | None = None) -> None:
        """INSERT OVERWRITE: new rows, or what the table holds, changed."""
        session, model, random = session or self.acid, model or self.model, self.random
        fixed = self.fixed()
        whole = not self.layout.partitioned or len(fixed) == 2
        if random.random() < 0.4 and not fixed:
            where = condition(random, self.layout.partitioned)
            rows = [{**model.rows[n], "a": n} for n in model.chosen(where)]
            columns = ", ".join(model.all_columns[2:])
            call: Any = f"INSERT OVERWRITE TABLE t SELECT n, n, {columns} FROM t WHERE {where.sql}"
        else:
            rows = self.new_rows(random.randint(0, 6), fixed)
            frame = self.frame(rows, [c for c in model.all_columns if c not in fixed])
            if random.random() < 0.5:
                frame.createOrReplaceTempView("src")
                call = f"INSERT OVERWRITE TABLE t {self.spec(fixed)} SELECT * FROM src"
            else:
                call = lambda table: table.overwrite(frame, partition=fixed or None)  # noqa: E731
            self.log.append(f"# rows {rows} over {fixed}")
        count = model.overwrite(rows, fixed, all_of_it=whole)
        self.counted(count, 0, 0, session, call)

    def update(self, session: AcidSession | None = None, model: Model | None = None) -> None:
        """UPDATE."""
        model = model or self.model
        values = assignments(self.random, model.columns)
        where = condition(self.random, self.layout.partitioned)
        count = model.update(values, where)
        self.counted(0, count, 0, session or self.acid, self.update_call(values, where))

    def update_call(self, values: dict[str, Expression], where: Expression) -> Any:
        listed = ", ".join(f"{column} = {value.sql}" for column, value in values.items())
        sql = f"UPDATE t SET {listed} WHERE {where.sql}"
        if self.random.random() < 0.5:
            return sql
        self.log.append(f"# {sql}")
        texts = {column: value.sql for column, value in values.items()}
        return lambda table: table.update(texts, where=where.sql)

    def delete(self, session: AcidSession | None = None, model: Model | None = None) -> None:
        """DELETE."""
        where = condition(self.random, self.layout.partitioned)
        count = (model or self.model).delete(where)
        call: Any = f"DELETE FROM t WHERE {where.sql}"
        if self.random.random() < 0.5:
            self.log.append(f"# {call}")
            call = lambda table: table.delete(where.sql)  # noqa: E731
        self.counted(0, 0, count, session or self.acid, call)

    def merge(self, session: AcidSession | None = None, model: Model | None = None) -> None:
        """MERGE with any set of clauses."""
        model, random = model or self.model, self.random
        known = random.sample(sorted(model.rows), min(len(model.rows), random.randint(0, 6)))
        fresh = self.take_names(3)
        source = [
            {
                "k": key,
                "v": random.choice(NUMBERS),
                "w": random.choice(TEXTS),
                "op": random.choice("uuudx"),
                "p": random.choice(PLACES),
                "q": random.choice([None, 0, 1]),
            }
            for key in (*known, *range(fresh, fresh + random.randint(0, 3)))
        ]
        clauses = self.clauses(model)
        counts = merge(model, source, clauses)
        frame = self.spark.createDataFrame([tuple(row.values()) for row in source], _SOURCE)
        self.log.append(f"# source {source}")
        if random.random() < 0.5:
            frame.createOrReplaceTempView("src")
            call: Any = "MERGE INTO t USING src AS s ON t.n = s.k " + " ".join(map(clause_text, clauses))
        else:
            self.log.append("# " + " ".join(map(clause_text, clauses)))
            call = lambda table: built(table.merge(frame, on="t.n = s.k"), clauses).execute()  # noqa: E731
        self.counted(*counts, session or self.acid, call)

    def clauses(self, model: Model) -> list[Clause]:
        """Return one to four clauses: conditional ones first, as SQL wants it."""
        random = self.random
        is_delete = Expression("s.op = 'd'", lambda row: row["s.op"] == "d")
        is_update = Expression("s.op = 'u'", lambda row: row["s.op"] == "u")
        old = Expression("t.a > 0", lambda row: None if row["a"] is None else row["a"] > 0)
        values = assignments(random, model.columns, "t.")
        values["a"] = Expression("s.v", lambda row: row["s.v"])
        insert = {
            "n": Expression("s.k", lambda row: row["s.k"]),
            "s": Expression("concat(s.w, 'm')", lambda row: None if row["s.w"] is None else row["s.w"] + "m"),
            "a": Expression("s.v", lambda row: row["s.v"]),
        }
        for column in model.partition_columns:
            insert[column] = Expression(f"s.{column}", itemgetter(f"s.{column}"))
        possible = [
            Clause("matched", "delete", is_delete, {}),
            Clause("matched", "update", random.choice([is_update, old]), values),
            Clause("matched", "update", None, {"s": Expression("s.w", lambda row: row["s.w"])}),
            Clause("source", "insert", is_update, insert),
            Clause("source", "insert", None, {**insert, "a": Expression("NULL", lambda _: None)}),
            Clause("target", "delete", Expression("t.n % 7 = 3", lambda row: row["n"] % 7 == 3), {}),
            Clause("target", "update", old, {"a": Expression("t.a - 5", lambda row: row["a"] - 5)}),
        ]
        kept = [clause for clause in possible if random.random() < 0.6]
        return kept or possible[:1]

    def truncate(self) -> None:
        """TRUNCATE TABLE, or a partition of it."""
        spec = self.one_place()
        where = f" PARTITION ({listed(spec)})" if spec else ""
        self.sql(f"TRUNCATE TABLE t{where}")
        self.model.remove([n for n, row in self.model.rows.items() if lies_in(row, spec or {})])


def clause_text(clause: Clause) -> str:
    head = {"matched": "MATCHED", "source": "NOT MATCHED", "target": "NOT MATCHED BY SOURCE"}[clause.rows]
    when = f"WHEN {head}" + ("" if clause.when is None else f" AND {clause.when.sql}")
    if clause.action == "delete":
        return f"{when} THEN DELETE"
    if clause.action == "update":
        listed = ", ".join(f"{column} = {value.sql}" for column, value in clause.values.items())
        return f"{when} THEN UPDATE SET {listed}"
    values = ", ".join(value.sql for value in clause.values.values())
    return f"{when} THEN INSERT ({', '.join(clause.values)}) VALUES ({values})"


def built(builder: TableMerger, clauses: list[Clause]) -> TableMerger:
    for clause in clauses:
        builder = _with_clause(builder, clause)
    return builder


def _with_clause(builder: TableMerger, clause: Clause) -> TableMerger:
    values = {column: value.sql for column, value in clause.values.items()}
    when = None if clause.when is None else clause.when.sql
    match clause.rows, clause.action:
        case "matched", "delete":
            return builder.when_matched_delete(when)
        case "matched", "update":
            return builder.when_matched_update(values, when)
        case "source", "insert":
            return builder.when_not_matched_insert(values, when)
        case "target", "delete":
            return builder.when_not_matched_by_source_delete(when)
        case _:
            return builder.when_not_matched_by_source_update(values, when)
