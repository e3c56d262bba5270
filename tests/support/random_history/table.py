"""One table under random statements, the model of `model.py` beside it, and how the two are compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import hiveacid
from hiveacid.config.setting_definitions import CHANGES_BY, SMALL_CHANGES
from support.clock import LaterClock
from support.corpus.sort_merge_reader import read_table
from support.random_history.feed import Feed
from support.random_history.model import NUMBERS, PLACES, TEXTS, Model, Row, literal
from support.recorded_files import require_recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

_TYPES = {"n": "INT", "a": "INT", "s": "STRING", "p": "STRING", "q": "INT"}


@dataclass(frozen=True)
class Layout:
    """A kind of table."""

    name: str
    partitioned: bool = False
    bucketing_version: int | None = None
    insert_only: bool = False
    retention: bool = False

    @property
    def create(self) -> str:
        properties = {"transactional": "true"}
        if self.insert_only:
            properties["transactional_properties"] = "insert_only"
        if self.bucketing_version:
            properties["bucketing_version"] = str(self.bucketing_version)
        if self.retention:
            properties["hiveacid.history.retention"] = "1d"
        columns = {"n": "INT", "a": "INT", "s": "STRING"}
        places = {"p": "STRING", "q": "INT"} if self.partitioned else {}
        return create_table("t", columns, places, "n" if self.bucketing_version else "", properties)


def create_table(
    name: str,
    columns: Mapping[str, str],
    places: Mapping[str, str],
    bucketed_by: str,
    properties: Mapping[str, str],
) -> str:
    """Return CREATE TABLE with names and types of columns; ``bucketed_by``: a column, or nothing."""
    typed, partitioned = (", ".join(f"{c} {kind}" for c, kind in part.items()) for part in (columns, places))
    listed_properties = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    return (
        f"CREATE TABLE {name} ({typed})"
        + (f" PARTITIONED BY ({partitioned})" if places else "")
        + (f" CLUSTERED BY ({bucketed_by}) INTO 3 BUCKETS" if bucketed_by else "")
        + f" STORED AS ORC TBLPROPERTIES ({listed_properties})"
    )


@dataclass
class Reader:
    """A DataFrame that somebody made once, and what it must give for ever."""

    frame: DataFrame
    rows: Counter[str]


@dataclass
class HistoryTable:
    """The table, its model, a second session on the same warehouse, and old readers."""

    spark: SparkSession
    layout: Layout
    warehouse: str
    random: Random = field(default_factory=Random)
    log: list[str] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    feed: Feed = field(default_factory=Feed)
    next_name: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        """Make the table."""
        self.acid = hiveacid.connect(self.spark, warehouse=self.warehouse)
        self.acid.context = replace(self.acid.context, clock=LaterClock())
        shared = {"hive.txn.xlock.write": "false"}  # updates exclude each other at commit only
        self.rival = hiveacid.connect(self.spark, warehouse=self.warehouse, settings=shared)
        self.acid.sql(self.layout.create)
        self.model = Model(partition_columns=("p", "q") if self.layout.partitioned else ())
        self.feed.note(self.table, self.model, lost=False)

    def close(self) -> None:
        """End both sessions."""
        self.readers.clear()
        self.acid.close()
        self.rival.close()

    def run(self, name: str, seed: int) -> None:
        """Carry out one statement and compare."""
        self.random = Random(seed)
        self.step += 1
        self.log.append(f"-- {self.step}: {name} ({seed})")
        self.acid.sql(
            f"SET {SMALL_CHANGES.name} = {self.random.choice(('0', '64mb'))}"
        )  # both ways to change rows
        self.acid.sql(f"SET {CHANGES_BY.name} = {'executors' if seed % 2 else 'auto'}")
        getattr(self, name)()
        self.compare()
        cleaned = name in ("compact", "clean") and not self.layout.retention
        self.feed.note(self.table, self.model, lost=cleaned or name == "drop_partition")
        if self.step % 5 == 0:
            self.feed.check(self.table, self.model, self.random)

    # --- what is compared -----------------------------------------------------------------------------

    def compare(self) -> None:
        """Compare rows with the model's; ids are unique, and those of untouched rows unchanged."""
        self.look(self.acid)
        require_recorded(self.acid, self.table)
        if self.readers and self.step % 3 == 0:
            self.read_again(self.random.choice(self.readers))
        if self.step % 6 == 0 and not self.layout.insert_only:
            self.look_on_disk()

    def look(self, session: AcidSession) -> None:
        identity = [] if self.layout.insert_only else ["ROW__ID"]
        columns = [*identity, *self.model.all_columns]
        if self.random.random() < 0.5:
            frame = session.sql(f"SELECT {', '.join(columns)} FROM t")
        else:
            frame = session.table("t").scan(row_ids=not self.layout.insert_only).to_df()
        seen = {}
        for row in frame.collect():
            values = row.asDict()
            row_id = values.pop("ROW__ID", None)
            assert row["n"] not in seen, f"row {row['n']} twice"
            seen[row["n"]] = values, None if row_id is None else tuple(row_id)
        assert {n: values for n, (values, _) in seen.items()} == self.model.rows
        if self.layout.insert_only:
            return
        if self.step % 3 == 0:
            assert session.sql("SELECT count(*) FROM t").collect() == [(len(seen),)]
        ids = {n: (*self.model.place(values), row_id) for n, (values, row_id) in seen.items()}
        assert len(set(ids.values())) == len(ids), "two rows have one ROW__ID"
        moved = {n: (was, ids[n]) for n, was in self.model.ids.items() if was is not None and was != ids[n]}
        assert not moved, f"rows that nobody touched have new ids: {moved}"
        self.model.ids = dict(ids)

    def look_on_disk(self) -> None:
        """Let an independent reader find the same rows and ids in the files."""
        store, table = self.acid.context.store, self.table
        write_ids = store.valid_write_ids(store.valid_txns(), [table.name])[table.name].to_string()
        found = read_table(Path(table.definition.location), write_ids, len(self.model.partition_columns))
        rows = {row[3][0]: (row[:3], row[3][1:3]) for inside in found.values() for row in inside}
        assert rows == {
            n: (self.model.ids[n][-1], (row["a"], row["s"])) for n, row in self.model.rows.items()
        }

    def read_again(self, reader: Reader) -> None:
        """Read an old DataFrame: it gives its old rows."""
        assert counted_rows(reader.frame) == reader.rows, "an old reader sees other rows than once"

    @property
    def table(self) -> AcidTable:
        return self.acid.table("t")

    def counted(self, inserted: int, updated: int, deleted: int, session: AcidSession, call: Any) -> None:
        """Run a statement by either way and compare what it reports. ``call``: SQL text or function of a table."""
        self.log.append(call if isinstance(call, str) else f"# python: {call.__doc__ or 'see the seed'}")
        if isinstance(call, str):
            row = session.sql(call).first()
            assert row is not None
            found = row["num_inserted_rows"], row["num_updated_rows"], row["num_deleted_rows"]
        else:
            report = call(session.table("t"))
            found = report.inserted, report.updated, report.deleted
        assert found == (inserted, updated, deleted), "the report's inserted, updated, deleted rows"

    # --- parts of statements --------------------------------------------------------------------------

    def sql(self, text: str) -> None:
        self.log.append(text)
        self.acid.sql(text)

    def take_names(self, count: int) -> int:
        first = self.next_name
        self.next_name += count
        return first

    def new_rows(self, count: int, fixed: Row) -> list[Row]:
        random, first = self.random, self.take_names(count)
        rows: list[Row] = []
        for n in range(first, first + count):
            row = {"n": n, "a": random.choice(NUMBERS), "s": random.choice(TEXTS)}
            row |= {column: random.choice([None, n]) for column in self.model.columns[3:]}
            if self.layout.partitioned:
                row |= {"p": random.choice(PLACES), "q": random.choice([None, 0, 1])}
            rows.append(row | fixed)
        return rows

    def given_columns(self, model: Model, fixed: Row) -> list[str]:
        """Return the columns that an INSERT names, in any order; ``n`` and dynamic partition columns always."""
        free = [c for c in model.columns if c == "n" or self.random.random() < 0.8]
        self.random.shuffle(free)
        return free + [c for c in model.partition_columns if c not in fixed]

    def frame(self, rows: list[Row], columns: list[str]) -> DataFrame:
        schema = ", ".join(f"{column} {_TYPES.get(column, 'INT')}" for column in columns)
        return self.spark.createDataFrame([tuple(row.get(c) for c in columns) for row in rows], schema)

    def fixed(self) -> Row:
        """Return the static part of a partition spec: none, the first column, or both."""
        if not self.layout.partitioned:
            return {}
        spec = {"p": self.random.choice(PLACES[:4]), "q": self.random.choice([0, 1])}
        return dict(list(spec.items())[: self.random.choice([0, 0, 1, 2])])

    def spec(self, fixed: Row) -> str:
        if not fixed:
            return ""
        dynamic = [column for column in self.model.partition_columns if column not in fixed]
        return f"PARTITION ({', '.join([listed(fixed), *dynamic])})"

    def one_place(self) -> Row | None:
        """Return a partition that has (or had) rows, or None for all of the table."""
        places = [place for place in self.model.places() if None not in place]
        if not self.layout.partitioned or not places or self.random.random() < 0.4:
            return None
        return dict(zip(self.model.partition_columns, self.random.choice(places), strict=True))


def listed(spec: Row) -> str:
    return ", ".join(f"{column} = {literal(value)}" for column, value in spec.items())


def lies_in(row: Row, spec: Row) -> bool:
    return all(row[column] == value for column, value in spec.items())


def counted_rows(frame: DataFrame) -> Counter[str]:
    return Counter(repr(sorted(row.asDict().items())) for row in frame.collect())
