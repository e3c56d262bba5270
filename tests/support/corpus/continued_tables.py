"""Adopted tables of other engines, gone on with: every statement against a plain model of it.

The model starts from the rows read, applies each statement to a list of dicts, and knows of each row whether
the statement touched it: an untouched row keeps its row id, and a compaction changes nothing at all. What lies
on disk is read again by the independent `sort_merge_reader`. Many tables are looked at by one query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F

from support.corpus.engine_rows import IDENTITY, Row, plain, rows_of, same, without_ids
from support.corpus.golden_tables import RowId
from support.corpus.sort_merge_reader import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

_STATE = "__state"


@dataclass
class Continued:
    """An adopted table, the rows it must hold, and the columns that statements use.

    ``key`` is the first column, ``changed`` one that may be updated. Rows whose id is not known yet (new
    ones, new versions) have None there until the next look.
    """

    acid: AcidSession
    table: AcidTable
    rows: list[Row] = field(repr=False)

    @property
    def key(self) -> str:
        return self.table.definition.columns[0].name

    @property
    def changed(self) -> str:
        definition = self.table.definition
        fixed = {self.key, *(definition.bucketing.columns if definition.bucketing else ())}
        free = [c for c in definition.columns if c.name not in fixed]
        texts = [c.name for c in free if c.type.startswith(("string", "varchar"))]
        return texts[0] if texts else free[0].name

    @property
    def partition_names(self) -> list[str]:
        return self.table.definition.partition_column_names

    def keys(self) -> list[int]:
        return sorted({row[self.key] for row in self.rows if row[self.key] is not None})

    def new_text(self, alias: str = "") -> str:
        """Return the expression that statements set `changed` to; `changed_value` computes the same."""
        column = f"{alias}`{self.changed}`"
        return f"concat(coalesce({column}, ''), '+')" if self.is_text else f"coalesce({column}, 0) + 1"

    def changed_value(self, value: Any) -> Any:
        return f"{value or ''}+" if self.is_text else (value or 0) + 1

    @property
    def is_text(self) -> bool:
        types = {c.name: c.type for c in self.table.definition.columns}
        return types[self.changed].startswith(("string", "varchar"))

    def new_row(self, key: int, changed: Any) -> Row:
        """Return a row that is NULL but for its key, the changed column and a partition that exists."""
        names = [c.name for c in self.table.definition.all_columns]
        here = {name: self.rows[0][name] for name in self.partition_names}
        return {IDENTITY: None, **dict.fromkeys(names), self.key: key, self.changed: changed, **here}

    def changes(self, chosen: Callable[[Any], bool]) -> None:
        """Say that an update reached the rows whose key is chosen."""
        for row in self.rows:
            if row[self.key] is not None and chosen(row[self.key]):
                row[self.changed] = self.changed_value(row[self.changed])
                row[IDENTITY] = None

    def compare(self, seen: list[Row]) -> None:
        """Compare with the rows read, and with those of the independent reader; learn the ids of new rows."""
        assert same(without_ids(seen)) == same(without_ids(self.rows)), self.table.definition.location
        kept = Counter(same(row for row in self.rows if row[IDENTITY] is not None))
        assert kept <= Counter(same(seen))
        identities = [(self.place(row), row[IDENTITY]) for row in seen]
        assert len(set(identities)) == len(identities)
        self.rows = seen
        assert self.on_disk() == sorted(
            repr((self.place(row), row[IDENTITY], row[self.key], row[self.changed])) for row in seen
        )

    def place(self, row: Row) -> str:
        values = {name: row[name] for name in self.partition_names}
        return "/".join(
            f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
            for name, value in values.items()
        )

    def on_disk(self) -> list[str]:
        store, name = self.acid.context.store, self.table.name
        write_ids = store.valid_write_ids(store.valid_txns(), [name])[name]
        found = read_table(
            Path(self.table.definition.location), write_ids.to_string(), len(self.partition_names)
        )
        at = [c.name for c in self.table.definition.columns].index(self.changed)
        return sorted(
            repr((unquote(place), _identity(row), row[3][0], plain(row[3][at])))
            for place, rows in found.items()
            for row in rows
        )


def read_together(frames: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Collect frames by name, those of one schema in one job."""
    found: dict[str, list[Row]] = {name: [] for name in frames}
    by_schema = sorted(frames.items(), key=lambda pair: str(pair[1].schema))
    for _, group in groupby(by_schema, key=lambda pair: str(pair[1].schema)):
        tagged = [frame.withColumn(_STATE, F.lit(name)) for name, frame in group]
        for row in rows_of(reduce(lambda left, right: left.unionByName(right), tagged)):
            found[row.pop(_STATE)].append(row)
    return found


def continued(acid: AcidSession, tables: Sequence[AcidTable]) -> list[Continued]:
    """Begin the models of full-ACID tables with the rows read now."""
    read = read_together({str(table.name): table.scan(row_ids=True).to_df() for table in tables})
    return [Continued(acid, table, read[str(table.name)]) for table in tables]


def look(tables: Sequence[Continued]) -> None:
    """Compare all tables with their models."""
    read = read_together({str(one.table.name): one.table.scan(row_ids=True).to_df() for one in tables})
    for one in tables:
        one.compare(read[str(one.table.name)])


def _identity(row: Iterable[Any]) -> RowId:
    return RowId(*tuple(row)[:3])


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def insert(it: Continued) -> None:
    """Insert four rows by VALUES."""
    top = max(it.keys(), default=0)
    new = [it.new_row(top + n, "new" if it.is_text else n) for n in (1, 2, 3, 4)]
    columns = [it.key, it.changed, *it.partition_names]
    values = ", ".join(f"({', '.join(_literal(row[c]) for c in columns)})" for row in new)
    listed = ", ".join(f"`{column}`" for column in columns)
    it.acid.sql(f"INSERT INTO {it.table.name} ({listed}) VALUES {values}")
    it.rows += new


def update(it: Continued) -> None:
    """Update every second row."""
    it.acid.sql(
        f"UPDATE {it.table.name} SET `{it.changed}` = {it.new_text()} WHERE `{it.key}` % 2 = 0 AND `{it.key}` >= 0"
    )
    it.changes(lambda key: key % 2 == 0 and key >= 0)


def delete(it: Continued) -> None:
    """Delete the rows of the lowest key."""
    gone = it.keys()[0]
    it.table.delete(f"`{it.key}` = {gone}")
    it.rows = [row for row in it.rows if row[it.key] != gone]


def merge(it: Continued) -> None:
    """Delete, update and insert a row in one MERGE."""
    keys = it.keys()
    deleted, updated, new = keys[-1], keys[-2], keys[-1] + 5
    row = it.new_row(new, None)
    columns = [it.key, it.changed, *it.partition_names]
    values = ", ".join(["s.k", "NULL", *(_literal(row[name]) for name in it.partition_names)])
    it.acid.sql(
        f"""MERGE INTO {it.table.name} AS t
            USING (SELECT * FROM VALUES ({deleted}, 'd'), ({updated}, 'u'), ({new}, 'i') AS v(k, op)) AS s
            ON t.`{it.key}` = s.k
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET `{it.changed}` = {it.new_text("t.")}
            WHEN NOT MATCHED THEN INSERT ({", ".join(f"`{c}`" for c in columns)}) VALUES ({values})"""
    )
    it.changes(lambda key: key == updated)
    it.rows = [*(old for old in it.rows if old[it.key] != deleted), row]


def go_on(tables: Sequence[Continued]) -> None:
    """Do every statement and both compactions on each table; look at all of them in between."""
    for steps in ((insert, update, delete, merge), (minor,), (update,), (major,)):
        for step in steps:
            for one in tables:
                step(one)
        look(tables)


def minor(it: Continued) -> None:
    """Compact without a base."""
    it.table.compact("minor")


def major(it: Continued) -> None:
    """Compact into a base, by a statement."""
    it.acid.sql(f"ALTER TABLE {it.table.name} COMPACT 'major' AND WAIT")


def go_on_insert_only(acid: AcidSession, table: AcidTable) -> None:
    """Fill, compact and overwrite an insert-only table of the corpus; they all have columns a and b."""
    rows = rows_of(table.to_df())
    acid.sql(f"INSERT INTO {table.name} VALUES (100, 'new'), (101, NULL)")
    acid.sql(f"INSERT INTO {table.name} SELECT a + 200, b FROM {table.name} WHERE a = 100")
    rows += [{"a": 100, "b": "new"}, {"a": 101, "b": None}, {"a": 300, "b": "new"}]
    assert same(rows_of(table.to_df())) == same(rows)
    table.compact("minor")
    assert same(rows_of(table.to_df())) == same(rows)
    # One delta without a base is nothing to compact for Hive either: a second delta makes it two.
    acid.sql(f"INSERT INTO {table.name} VALUES (400, 'last')")
    rows.append({"a": 400, "b": "last"})
    table.compact("major")
    assert same(rows_of(table.to_df())) == same(rows)
    acid.sql(f"INSERT OVERWRITE TABLE {table.name} SELECT a, b FROM {table.name} WHERE a >= 100")
    assert same(rows_of(table.to_df())) == same(row for row in rows if row["a"] >= 100)
