"""Random writes by every interface into a table with constraints, against a model: no row that breaks one gets in.

``HIVEACID_TEST_COUNT`` and ``HIVEACID_TEST_SEED`` as in ``test_random_interfaces.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.errors import AnalysisException

import hiveacid
from hiveacid.errors import ConstraintViolationError
from hiveacid.streaming import Connection
from support.exhaustive import COUNT, seed

if TYPE_CHECKING:
    from hiveacid import AcidSession

Value = int | str | None
Row = tuple[Value, Value, Value, Value]
DEFAULTS: dict[str, Value] = {"n": 5, "s": "x"}
NAMES = ("k", "n", "s", "p")
SCHEMA = pa.schema([("k", pa.int32()), ("n", pa.int32()), ("s", pa.string()), ("p", pa.string())])
LAYOUTS = ("", "CLUSTERED BY (k) INTO 2 BUCKETS STORED AS ORC")
STEPS = 22
CHECK = "n > 0 AND n <> 9"


def literal(value: Value) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@dataclass
class Walk:
    """Random writes into one table, and the rows that a model expects there."""

    acid: AcidSession
    random: Random
    scratch: Path
    table: str
    rows: Counter[Row] = field(default_factory=Counter)
    checked: bool = True  # the table has the constraint ck_n
    log: list[str] = field(default_factory=list)
    refused: int = 0

    def satisfies(self, row: Row) -> bool:
        k, n, s, p = row
        if k is None or not p:
            return False
        assert isinstance(k, int)
        if self.checked and n is not None and not (int(n) > 0 and n != 9):
            return False
        return s is None or s in ("x", "y") or k > 5

    def value(self, name: str) -> Value:
        odd = self.random.random() < 0.06
        if name == "k":
            return None if odd else self.random.randint(1, 9)
        if name == "n":
            return self.random.choice((-1, 0, 9)) if odd else self.random.choice((None, 1, 5, 7))
        if name == "s":
            return "z" if odd else self.random.choice((None, "x", "y"))
        return self.random.choice((None, "")) if odd else self.random.choice(("a", "b"))

    def some(self, most: int = 3) -> list[Row]:
        count = self.random.randint(1, most)
        return [tuple(map(self.value, NAMES)) for _ in range(count)]  # type: ignore[misc]

    def expect(
        self, write: Callable[[], object], said: str, new: Sequence[Row], left: Counter[Row] | None = None
    ) -> None:
        """Write ``new`` rows; the table then has them beside ``left``, or nothing has changed if one breaks a constraint."""
        self.log.append(said)
        if all(map(self.satisfies, new)):
            write()
            self.rows = Counter(self.rows if left is None else left) + Counter(new)
        else:
            # Spark wraps the error of a Python writer (`data_source`)
            broken = (ConstraintViolationError, AnalysisException)
            with pytest.raises(broken, match=r"the enabled constraint .*; nothing was written"):
                write()
            self.refused += 1
        found = self.acid.sql(f"SELECT k, n, s, p FROM {self.table}").collect()
        assert Counter(map(tuple, found)) == self.rows, said

    def sql(self, text: str, new: Sequence[Row], left: Counter[Row] | None = None) -> None:
        self.expect(lambda: self.acid.sql(text), text, new, left)

    # --- writes

    def insert(self) -> None:
        """INSERT of VALUES, with columns left out and with the word DEFAULT."""
        given = ["k", *self.random.sample(("n", "s"), self.random.randint(0, 2)), "p"]
        self.random.shuffle(given)
        new, texts = [], []
        for row in self.some():
            values = {
                **dict(zip(NAMES, row, strict=True)),
                **{name: DEFAULTS.get(name) for name in NAMES if name not in given},
            }
            words = {name: literal(values[name]) for name in given}
            for name in {*given} & {*DEFAULTS}:
                if self.random.random() < 0.3:
                    words[name], values[name] = "DEFAULT", DEFAULTS[name]
            new.append((values["k"], values["n"], values["s"], values["p"]))
            texts.append(f"({', '.join(words[name] for name in given)})")
        self.sql(f"INSERT INTO {self.table} ({', '.join(given)}) VALUES {', '.join(texts)}", new)

    def values(self) -> tuple[str, list[Row]]:
        new = self.some()
        return "VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in new), new

    def insert_select(self) -> None:
        text, new = self.values()
        self.sql(f"INSERT INTO {self.table} SELECT * FROM ({text})", new)

    def static_partition(self) -> None:
        new, p = self.some(), self.value("p")
        new = [(k, n, s, p) for k, n, s, _ in new]
        rows = ", ".join(f"({', '.join(map(literal, row[:3]))})" for row in new)
        self.sql(f"INSERT INTO {self.table} PARTITION (p={literal(p)}) SELECT * FROM (VALUES {rows})", new)

    def overwrite(self) -> None:
        text, new = self.values()
        partitions = {row[3] for row in new}
        left = Counter({row: count for row, count in self.rows.items() if row[3] not in partitions})
        self.sql(f"INSERT OVERWRITE TABLE {self.table} {text}", new, left)

    def replace_where(self) -> None:
        k = self.random.randint(1, 9)
        text, new = self.values()
        left = Counter({row: count for row, count in self.rows.items() if row[0] != k})
        self.sql(f"INSERT INTO {self.table} REPLACE WHERE k = {k} {text}", new, left)

    def multi_insert(self) -> None:
        text, new = self.values()
        doubled = [(k, n, DEFAULTS["s"], "c") for k, n, _, _ in new]
        self.sql(
            f"FROM ({text}) AS v (k, n, s, p) INSERT INTO {self.table} SELECT k, n, s, p "
            f"INSERT INTO {self.table} PARTITION (p='c') (k, n) SELECT k, n",
            [*new, *doubled],
        )

    def update(self) -> None:
        k, n = self.random.randint(1, 9), self.value("n")
        word = literal(n)
        if self.random.random() < 0.3:
            n, word = DEFAULTS["n"], "DEFAULT"
        matched = Counter(
            {row: count for row, count in self.rows.items() if row[0] is not None and int(row[0]) <= k}
        )
        values = {"n": word}
        new = [(row[0], n, row[2], row[3]) for row in matched.elements()]
        if self.random.random() < 0.5:  # the rows move
            p = self.value("p")
            values["p"] = literal(p)
            new = [(*row[:3], p) for row in new]
        if word != "DEFAULT" and self.random.random() < 0.5:
            table = self.acid.table(self.table)
            write = lambda: table.update(values, f"k <= {k}")  # noqa: E731
            self.expect(write, f"table.update {values} where k <= {k}", new, self.rows - matched)
        else:
            text = ", ".join(f"{name} = {value}" for name, value in values.items())
            self.sql(f"UPDATE {self.table} SET {text} WHERE k <= {k}", new, self.rows - matched)

    def delete(self) -> None:
        k = self.random.randint(1, 9)
        left = Counter({row: count for row, count in self.rows.items() if row[0] != k})
        self.sql(f"DELETE FROM {self.table} WHERE k = {k}", [], left)

    def merge(self) -> None:
        """MERGE of copies, or with defaults for columns left out."""
        source = {row[0]: row for row in self.some(4)}
        rows = ", ".join(f"({', '.join(map(literal, row))})" for row in source.values())
        copies = self.random.random() < 0.5
        matched = Counter({row: count for row, count in self.rows.items() if row[0] in source})
        new = []
        for row in matched.elements():
            _, n, s, p = source[row[0]]
            new.append((row[0], n, s, p) if copies else (row[0], n, DEFAULTS["s"], row[3]))
        keys = {row[0] for row in self.rows}
        for k, n, s, p in source.values():
            if k not in keys or k is None:
                new.append((k, n, s, p) if copies else (k, DEFAULTS["n"], s, p))
        clauses = (
            "UPDATE SET n = s.n, s = s.s, p = s.p WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n, s.s, s.p)"
            if copies
            else "UPDATE SET n = s.n, s = DEFAULT WHEN NOT MATCHED THEN INSERT (k, s, p) VALUES (s.k, s.s, s.p)"
        )
        text = (
            f"MERGE INTO {self.table} t USING (SELECT CAST(k AS INT) k, CAST(n AS INT) n, CAST(s AS STRING) s, "
            f"CAST(p AS STRING) p FROM (VALUES {rows}) AS v (k, n, s, p)) s ON t.k = s.k WHEN MATCHED THEN {clauses}"
        )
        self.sql(text, new, self.rows - matched)

    def frame(self) -> None:
        new = self.some()
        made = self.acid.context.env.spark.createDataFrame(new, "k int, n int, s string, p string")
        self.expect(lambda: self.acid.table(self.table).insert(made), f"table.insert {new}", new)

    def data_source(self) -> None:
        new = self.some()
        made = self.acid.context.env.spark.createDataFrame(new, "k int, n int, s string, p string")
        writer = made.write.format("hiveacid").option("warehouse", self.acid.context.warehouse)
        writer = writer.option("table", self.table).mode("append")
        self.expect(writer.save, f"format('hiveacid') {new}", new)

    def stream(self) -> None:
        new = self.some()
        static = len({row[3] for row in new}) == 1 and self.random.random() < 0.7
        partition = {"p": new[0][3]} if static else {}
        records = [dict(zip(NAMES[: 3 if static else 4], row, strict=False)) for row in new]

        def write() -> None:
            with (
                Connection(
                    f"default.{self.table}", warehouse=self.acid.context.warehouse, partition=partition
                ) as stream,
                stream.transaction(),
            ):
                stream.write(records)

        self.expect(write, f"stream {partition} {records}", new)

    def append(self) -> None:
        new = self.some()
        rows = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in new], schema=SCHEMA)

        def write() -> None:
            with hiveacid.open(self.acid.context.warehouse) as warehouse:
                warehouse.table(self.table).append(rows)

        self.expect(write, f"append {new}", new)

    def load(self) -> None:
        new = [(k, n, s, "b") for k, n, s, _ in self.some()]
        folder = self.scratch / f"load{len(self.log)}"
        folder.mkdir()
        rows = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in new], schema=SCHEMA)
        orc.write_table(rows.select(NAMES[:3]), folder / "000000_0")
        self.sql(f"LOAD DATA LOCAL INPATH '{folder}' INTO TABLE {self.table} PARTITION (p='b')", new)

    def alter(self) -> None:
        """Drop the CHECK of n, or add it again; rows that were written without it stay."""
        action = "DROP CONSTRAINT ck_n" if self.checked else f"ADD CONSTRAINT ck_n CHECK ({CHECK})"
        self.acid.sql(f"ALTER TABLE {self.table} {action}")
        self.log.append(action)
        self.checked = not self.checked


@pytest.mark.parametrize("repeat", range(COUNT or 1))
@pytest.mark.parametrize("layout", LAYOUTS, ids=["partitioned", "bucketed"])
def test_no_interface_lets_a_row_in_that_breaks_a_constraint(
    acid: AcidSession, tmp_path: Path, layout: str, repeat: int
) -> None:
    start = f"constraints {layout[:1]} {seed()} {repeat}"
    walk = Walk(acid, Random(start), tmp_path, "guarded")
    acid.sql(
        f"CREATE TABLE guarded (k INT NOT NULL, n INT DEFAULT 5, s STRING DEFAULT 'x', CONSTRAINT ck_n CHECK ({CHECK}), "
        "CHECK (s IN ('x', 'y') OR k > 5), PRIMARY KEY (k) DISABLE NOVALIDATE RELY) PARTITIONED BY (p STRING NOT NULL) "
        f"{layout} TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
    writes = [
        *(
            walk.insert,
            walk.insert_select,
            walk.static_partition,
            walk.overwrite,
            walk.replace_where,
            walk.multi_insert,
        ),
        *(
            walk.update,
            walk.update,
            walk.delete,
            walk.merge,
            walk.merge,
            walk.frame,
            walk.data_source,
            walk.stream,
        ),
        *(walk.append, walk.load, walk.alter),
    ]
    order = [*writes, *walk.random.choices(writes, k=max(0, STEPS - len(writes)))]
    walk.random.shuffle(order)
    try:
        for write in order:
            write()
    except BaseException as error:
        raise AssertionError(f"seed {start}\n" + "\n".join(walk.log)) from error
