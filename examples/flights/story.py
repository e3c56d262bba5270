"""The steps of the demo, each of which changes the tables and the model that they are compared with."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flights import corrections
from flights.model import STORM_DAY, Model, require_equal
from flights.source import COLUMNS, Source
from hiveacid import AcidSession

DIMENSION_KEYS = (("airlines", "carrier"), ("airports", "faa"), ("planes", "tailnum"))
CLEANING_TURNS = 10
STORM_DELAY = 30  # minutes
DIVERSION_DELAY = 120  # minutes

Advance = Callable[[], None]


@dataclass(frozen=True)
class Files:
    """Data files of the flights: those that a reader opens now, and all that are on disk."""

    read: int
    on_disk: int


@dataclass(frozen=True)
class Step:
    """One step: its title, its number of units of progress, its function, and the tables that it changes."""

    title: str
    units: int
    run: Callable[[Advance], None]
    tables: tuple[str, ...] = ("flights",)


@dataclass
class Story:
    """The tables, the model of their content, and a reader that keeps an old snapshot."""

    spark: SparkSession
    acid: AcidSession
    source: Source
    months: int
    warehouse: Path
    model: Model = field(init=False)
    reader: DataFrame | None = field(default=None, init=False)
    reader_expects: DataFrame | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin with the model of an empty warehouse."""
        self.model = Model.of(self.source)

    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order; the months from March on are loaded after the deletions."""
        flights_later = tuple(self._load_month(month) for month in range(3, self.months + 1))
        dimensions = tuple(name for name, _ in DIMENSION_KEYS)
        return (
            Step("make the tables, load the dimensions", 4, self.make_tables, (*dimensions, "flights")),
            self._load_month(1),
            Step("a reader opens a snapshot and keeps it", 1, self.open_reader),
            Step(
                "hourly corrections of planes, by MERGE",
                len(corrections.CORRECTION_HOURS),
                self.planes,
                ("planes",),
            ),
            Step("corrections of airports and airlines", 2, self.places, ("airports", "airlines")),
            Step("minor compaction of January", 1, self.compactor("minor", (1,))),
            self._load_month(2),
            Step("late delays arrive, by UPDATE", 2, self.delays),
            Step("three planes are forgotten, one transaction", 2, self.forget, ("flights", "planes")),
            *flights_later,
            Step(
                "major compaction of every month",
                self.months,
                self.compactor("major", tuple(range(1, self.months + 1))),
            ),
            Step("major compaction of the planes", 1, self.compact_planes, ("planes",)),
            Step(
                "the reader goes, and the files that only it could read",
                1,
                self.close_reader,
                ("flights", "planes"),
            ),
        )

    def _load_month(self, month: int) -> Step:
        _, days = calendar.monthrange(2013, month)

        def run(advance: Advance) -> None:
            before, flights = self.model, self.acid.table("flights")
            for day in range(1, days + 1):
                flights.insert(self.source.flights.where((F.col("month") == month) & (F.col("day") == day)))
                self.model = self.model.with_flights_until(month, day, before)
                advance()

        return Step(f"{calendar.month_name[month]}, day by day: {days} transactions", days, run)

    def make_tables(self, advance: Advance) -> None:
        """Create all four tables and load the dimensions."""
        for name, _ in DIMENSION_KEYS:
            self.acid.sql(_create_table(name, ""))
            self.acid.table(name).insert(getattr(self.source, name))
            advance()
        layout = "PARTITIONED BY (month INT) CLUSTERED BY (tailnum) INTO 2 BUCKETS"
        self.acid.sql(_create_table("flights", layout))
        advance()

    def open_reader(self, advance: Advance) -> None:
        """Keep a DataFrame of the flights at this moment; later changes must not be visible in it."""
        self.reader = self.acid.table("flights").scan().to_df()
        self.reader_expects = self.model.tables["flights"].cache()
        advance()

    def planes(self, advance: Advance) -> None:
        """Merge a batch of corrections for every hour."""
        for hour in corrections.CORRECTION_HOURS:
            self._merge("planes", "tailnum", corrections.planes(self.source, hour))
            advance()

    def places(self, advance: Advance) -> None:
        """Merge the corrections of airports by the Python API, those of airlines by SQL."""
        self._merge("airports", "faa", corrections.airports(self.spark, self.source))
        advance()
        renamed = corrections.airlines(self.spark)
        renamed.createOrReplaceTempView("airline_corrections")
        self.acid.sql(
            """
            MERGE INTO airlines AS t USING airline_corrections AS s ON t.carrier = s.carrier
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET name = s.name
            WHEN NOT MATCHED THEN INSERT VALUES (s.carrier, s.name)
            """
        )
        self.model = self.model.merged("airlines", "carrier", renamed)
        advance()

    def _merge(self, name: str, key: str, batch: DataFrame) -> None:
        columns = [column for column, _ in COLUMNS[name]]
        values = {column: f"s.{column}" for column in columns}
        changed = {column: value for column, value in values.items() if column != key}
        (
            self.acid.table(name)
            .merge(batch, on=f"t.{key} = s.{key}")
            .when_matched_delete("s.op = 'd'")
            .when_matched_update(changed)
            .when_not_matched_insert(values, "s.op = 'u'")
            .execute()
        )
        self.model = self.model.merged(name, key, batch).cached(name)

    def delays(self, advance: Advance) -> None:
        """Add the storm's delay to its afternoon, and guess the delay of diverted flights."""
        self.acid.sql(
            f"""
            UPDATE flights SET dep_delay = dep_delay + {STORM_DELAY}, arr_delay = arr_delay + {STORM_DELAY}
            WHERE month = 2 AND day = {STORM_DAY} AND hour >= 12
            """
        )
        storm = (F.col("month") == 2) & (F.col("day") == STORM_DAY) & (F.col("hour") >= 12)  # noqa: PLR2004
        later = {name: F.col(name) + STORM_DELAY for name in ("dep_delay", "arr_delay")}
        self.model = self.model.updated(storm, later)
        advance()
        self.acid.table("flights").update(
            {"arr_delay": f"dep_delay + {DIVERSION_DELAY}"},
            where="arr_delay IS NULL AND dep_delay IS NOT NULL",
        )
        diverted = F.col("arr_delay").isNull() & F.col("dep_delay").isNotNull()
        self.model = self.model.updated(diverted, {"arr_delay": F.col("dep_delay") + DIVERSION_DELAY})
        self.model = self.model.cached("flights")
        advance()

    def forget(self, advance: Advance) -> None:
        """Delete three planes and all their flights, in one transaction over both tables."""
        tail_numbers = corrections.forgotten_planes(self.source, months=2)
        listed = ", ".join(f"'{number}'" for number in tail_numbers)
        with self.acid.transaction() as txn:
            txn.table("flights").delete(f"tailnum IN ({listed})")
            advance()
            txn.sql(f"DELETE FROM planes WHERE tailnum IN ({listed})")
        self.model = self.model.without_planes(tail_numbers).cached("flights").cached("planes")
        advance()

    def compactor(self, kind: str, months: tuple[int, ...]) -> Callable[[Advance], None]:
        """Return a step that compacts some partitions of the flights."""

        def run(advance: Advance) -> None:
            for month in months:
                self.acid.table("flights").compact(kind, partition={"month": str(month)}, wait=True)
                advance()

        return run

    def compact_planes(self, advance: Advance) -> None:
        """Compact the planes, by SQL."""
        self.acid.sql("ALTER TABLE planes COMPACT 'major' AND WAIT")
        advance()

    def close_reader(self, advance: Advance) -> None:
        """Release the old snapshot, and remove the files that only it could still read."""
        self.reader = self.reader_expects = None
        for _ in range(CLEANING_TURNS):
            self.acid.clean()
            files = self.files()
            if files.read == files.on_disk:
                break
            time.sleep(0.5)  # the JVM's garbage collector may take a while to release the plan
        advance()

    def check(self, tables: tuple[str, ...]) -> dict[str, int]:
        """Compare tables, and the old reader, with plain Spark; return the number of rows of each.

        Raises DifferenceError if one differs.
        """
        rows = {}
        for name in tables:
            rows[name] = require_equal(name, self.acid.table(name).scan().to_df(), self.model.tables[name])
        if self.reader is not None and self.reader_expects is not None:
            rows["old snapshot"] = require_equal("the old snapshot", self.reader, self.reader_expects)
        return rows

    def files(self) -> Files:
        """Count the data files of the flights: those that a reader opens now, and those on disk."""
        read = int(self.acid.table("flights").inspect.files().where("state = 'used'").count())
        return Files(read, sum(1 for _ in self.warehouse.glob("flights/**/bucket_*")))


def _create_table(name: str, layout: str) -> str:
    partitioned = "PARTITIONED BY" in layout
    columns = COLUMNS[name][:-1] if partitioned else COLUMNS[name]
    listed = ", ".join(f"`{column}` {kind}" for column, kind in columns)
    return f"CREATE TABLE {name} ({listed}) {layout} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
