"""Chains of statements that Hive and hiveacid run by turns on one table, against a plain model of its rows.

Tables are data (:data:`KINDS`), and so are the steps of a chain. Every row has an id of its own, so that the model is
a dict; of each row it knows the row id that was seen, and whether a statement touched it since.
"""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hive_client import Hive, HiveError, row_id
from hive_compaction import Compactions
from hive_files import write_file
from hive_server import HiveServers
from hive_types import TYPES, literal, mine, sample, theirs

from hiveacid.core.snapshot.check_findings import FindingKind as Found
from hiveacid.core.snapshot.check_findings import Severity

if TYPE_CHECKING:
    from hiveacid import AcidSession

Values = tuple[Any, ...]
FULL = "'transactional'='true'"
INSERTS = "'transactional'='true','transactional_properties'='insert_only'"
PLACES = ("hdfs", "s3")


def wanted_chains(*, elsewhere: bool) -> list[str]:
    """Return the words of HIVEACID_TEST_CHAINS: those that name a place of tables elsewhere, or the others."""
    words = filter(None, os.environ.get("HIVEACID_TEST_CHAINS", "").split(","))
    return [word for word in words if (word.partition(":")[0] in PLACES) == elsewhere]


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    ``maker`` (O: we, T: Hive) makes it with ``properties``; ``converted``: without them, and Hive turns it into a
    transactional table when there are rows. ``types``: more columns, of these types.
    """

    name: str
    maker: str = "O"
    stored: str = "ORC"
    partitioned: bool = False
    buckets: int = 0
    properties: str = FULL
    converted: bool = False
    types: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        return self.properties != INSERTS

    def loads(self) -> bool:
        """Tell whether files can be loaded as they are: Hive itself refuses it for buckets."""
        return not self.buckets and not self.types

    def columns(self) -> str:
        more = "".join(f", c{number} {one}" for number, one in enumerate(self.types))
        return f"id INT, v STRING{more}"

    def create(self) -> str:
        partitioned = " PARTITIONED BY (p STRING)" if self.partitioned else ""
        buckets = f" CLUSTERED BY (id) INTO {self.buckets} BUCKETS" if self.buckets else ""
        properties = "'transactional'='false'" if self.converted else self.properties
        return (
            f"CREATE TABLE @ ({self.columns()}){partitioned}{buckets} STORED AS {self.stored} "
            f"TBLPROPERTIES ({properties})"
        )


KINDS = (
    Kind("plain"),
    Kind("partitioned", maker="T", partitioned=True),
    Kind("bucketed_v1", buckets=2, properties=f"{FULL},'bucketing_version'='1'"),
    Kind("bucketed_v2", maker="T", buckets=3),
    Kind("partitioned_bucketed", partitioned=True, buckets=2),
    Kind("inserts_orc", properties=INSERTS),
    Kind("inserts_parquet", maker="T", stored="PARQUET", properties=INSERTS),
    Kind("inserts_text", stored="TEXTFILE", properties=INSERTS, partitioned=True),
    Kind("converted", maker="T", converted=True),
    Kind("converted_bucketed", maker="T", converted=True, buckets=2),
    Kind("all_types", types=TYPES),
)

Step = tuple[str, ...]
"""Engine (O: we, T: Hive), verb, and what :class:`Chain` takes for it."""
_BEGIN: tuple[Step, ...] = (
    ("T", "insert", "1-6"),
    ("O", "insert", "7-12"),
)
_OF_FULL: tuple[Step, ...] = (
    ("T", "update", "3", "0"),
    ("O", "delete", "5", "0"),
    ("O", "update", "4", "1"),
    ("T", "delete", "7", "4"),
    ("T", "minor"),
    ("O", "merge", "11-15"),
    ("T", "merge", "14-18"),
    ("O", "abort", "90-91"),
    ("O", "minor"),
    ("T", "delete", "9", "2"),
    ("T", "major"),
    ("O", "update", "3", "1"),
    ("O", "load", "20-22"),
    ("T", "load", "23-24"),
    ("T", "update", "2", "0"),
    ("T", "minor"),
    ("T", "clean"),
    ("O", "delete", "8", "6"),
    ("O", "major"),
    ("T", "delete", "9", "8"),
    ("T", "overwrite", "30-33"),
    ("O", "insert", "34-37"),
    ("O", "overwrite", "40-44"),
    ("T", "update", "2", "1"),
    ("T", "major"),
    ("T", "clean"),
    ("O", "merge", "43-47"),
    ("T", "insert", "50-52"),
    ("O", "minor"),
    ("T", "update", "3", "0"),
    ("O", "major"),
    ("T", "clean"),
    ("O", "delete", "4", "3"),
)
_OF_INSERTS: tuple[Step, ...] = (
    ("O", "load", "13-14"),
    ("T", "load", "15-16"),
    ("T", "minor"),
    ("O", "abort", "90-91"),
    ("T", "insert", "17-18"),
    ("O", "insert", "19-20"),
    ("O", "minor"),
    ("T", "insert", "39-40"),
    ("T", "major"),
    ("T", "clean"),
    ("O", "overwrite", "21-24"),
    ("T", "insert", "25-26"),
    ("T", "overwrite", "30-33"),
    ("O", "insert", "34-36"),
    ("T", "minor"),
    ("O", "load", "37-38"),
    ("O", "major"),
    ("T", "clean"),
    ("T", "insert", "41-42"),
)


def steps(kind: Kind) -> tuple[Step, ...]:
    """Return the chain of a kind of table."""
    wanted = (*_BEGIN, *(_OF_FULL if kind.full else _OF_INSERTS))
    if kind.converted:  # there, we are the first to compact Hive's originals
        wanted = tuple(
            ("TO"[one[0] == "T"], *one[1:]) if one[1] in ("minor", "major") else one for one in wanted
        )
    return tuple(one for one in wanted if one[1] != "load" or kind.loads())


def numbers(text: str) -> list[int]:
    first, last = text.split("-")
    return list(range(int(first), int(last) + 1))


def assert_same(one: Iterable[str], other: Iterable[str], what: str) -> None:
    """Compare as multisets; say what only one side has."""
    mine_, theirs_ = Counter(one), Counter(other)
    assert mine_ == theirs_, f"{what}: {sorted(mine_ - theirs_)} against {sorted(theirs_ - mine_)}"


def looked_up(hive: Hive, query: str) -> list[Values]:
    """Ask Hive, again where its cleaner deleted what it was listing: 3.1.3 fails then."""
    for _ in range(5):
        try:
            return hive.sql(query)
        except HiveError as error:
            if not any(sign in str(error) for sign in ("ls: cannot access", "FileNotFoundException")):
                raise
    return hive.sql(query)


@dataclass
class Row:
    """A row of the model; ``identity`` is the row id that was seen last, None where a statement gave a new one."""

    values: Values
    identity: tuple[int, ...] | None = None


@dataclass
class Chain:
    """One table, its model, and the two engines."""

    kind: Kind
    name: str
    acid: AcidSession
    hive: Hive
    servers: HiveServers
    rows: dict[int, Row] = field(default_factory=dict)
    highest: int = 0
    turn: int = 0

    def run(self, wanted: Iterable[Step], *, said: Callable[[str], None] | None = None) -> None:
        """Make the table; run the steps, each with a look of both engines at all rows."""
        Compactions(self.servers).hold()
        self.execute(self.kind.maker, self.kind.create())
        for step in wanted:
            self.turn += 1
            began = time.monotonic()
            self.step(step)
            middle = time.monotonic()
            self.check(f"{self.kind.name}, turn {self.turn}: {' '.join(step)}")
            if said:
                said(f"{middle - began:5.1f} {time.monotonic() - middle:5.1f}  {self.kind.name} {step}")
            if self.kind.converted and self.turn == len(_BEGIN):
                self.hive.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({FULL})")
        self.finish()

    def step(self, step: Step) -> None:
        engine, verb, *words = step
        getattr(self, f"_{verb}")(engine, *words)

    def execute(self, engine: str, statement: str) -> None:
        text = statement.replace("@", self.name)
        if engine == "O":
            self.acid.sql(text)
        else:
            self.hive.sql(text)

    # --- steps ------------------------------------------------------------------------------------
    def _insert(self, engine: str, words: str) -> None:
        self.execute(engine, f"INSERT INTO TABLE @ {self._partition()}{self._query(self._put(words))}")

    def _abort(self, engine: str, words: str) -> None:
        rows = self._new(words)
        for statement in (
            "START TRANSACTION",
            f"INSERT INTO TABLE @ {self._partition()}{self._query(rows)}",
            "ROLLBACK",
        ):
            self.execute(engine, statement)

    def _overwrite(self, engine: str, words: str) -> None:
        """Replace all; of a partitioned table the partition of the first row."""
        rows = self._new(words)
        partition = ""
        if self.kind.partitioned:
            place = rows[0][-1]
            rows = [(*row[:-1], place) for row in rows]
            partition = f"PARTITION (p='{place}') "
        kept = {key: row for key, row in self.rows.items() if partition and row.values[-1] != rows[0][-1]}
        self.rows = kept | {row[0]: Row(row) for row in rows}
        shown = [row[:-1] for row in rows] if partition else rows
        query = self._query(shown)
        if self.kind.types:  # 4.0.1 refuses UNION ALL there, unless a reducer comes after it
            query = f"SELECT * FROM ({query}) u ORDER BY id"
        self.execute(engine, f"INSERT OVERWRITE TABLE @ {partition}{query}")

    def _update(self, engine: str, divisor: str, rest: str) -> None:
        for key in self._chosen(divisor, rest):
            old = self.rows[key].values
            self.rows[key] = Row((key, f"{old[1]}u{self.turn}", *old[2:]))
        self.execute(engine, f"UPDATE @ SET v = concat(v, 'u{self.turn}') WHERE id % {divisor} = {rest}")

    def _delete(self, engine: str, divisor: str, rest: str) -> None:
        for key in self._chosen(divisor, rest):
            del self.rows[key]
        self.execute(engine, f"DELETE FROM @ WHERE id % {divisor} = {rest}")

    def _merge(self, engine: str, words: str) -> None:
        """Of rows that are there delete those with an id divisible by four, update the others; insert the rest."""
        source = self._new(words)
        for row in source:
            old = self.rows.pop(row[0], None)
            if old is None:
                self.rows[row[0]] = Row(row)
            elif row[0] % 4:
                self.rows[row[0]] = Row((row[0], row[1], *old.values[2:]))
        names = self._names()
        self.execute(
            engine,
            f"MERGE INTO @ t USING ({self._query(source, names)}) s ON t.id = s.id "
            "WHEN MATCHED AND t.id % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{name}' for name in names)})",
        )

    def _load(self, engine: str, words: str) -> None:
        rows = self._put(words)
        places = sorted({row[-1] for row in rows}) if self.kind.partitioned else [None]
        for place in places:
            path = self.servers.place / "tmp" / f"{self.name}_{self.turn}_{place}"
            write_file(path, self.kind.stored, [row[:2] for row in rows if place is None or row[-1] == place])
            partition = "" if place is None else f" PARTITION (p='{place}')"
            self.execute(engine, f"LOAD DATA LOCAL INPATH '{path}' INTO TABLE @{partition}")

    def _minor(self, engine: str) -> None:
        self._compact(engine, "minor")

    def _major(self, engine: str) -> None:
        self._compact(engine, "major")

    def _compact(self, engine: str, how: str) -> None:
        if self.servers.is_hive3 and not self.kind.full and how == "major":
            return  # a bug of 3.1.3: its worker fails on insert-only tables
        if self.servers.is_hive3 and self.kind.types and how == "minor":
            return  # a bug of 3.1.3: each file without buckets gets all delete events, and reads row by row fail
        if engine == "O" and not self.servers.is_hive3:
            self._compact_here(how)
            return
        places = sorted({row.values[-1] for row in self.rows.values()}) if self.kind.partitioned else [None]
        queue = Compactions(self.servers)
        queue.forget()
        for place in places:
            partition = "" if place is None else f" PARTITION (p='{place}')"
            self.execute(engine, f"ALTER TABLE @{partition} COMPACT '{how}'")
        queue.wait()

    def _compact_here(self, how: str) -> None:
        """Compact with Spark, every partition that has something to do: at least one has."""
        queue = Compactions(self.servers)
        queue.forget()
        self.acid.set("hiveacid.compactor.here", "true")
        try:
            reports = self.acid.sql(f"ALTER TABLE {self.name} COMPACT '{how}'").collect()
        finally:
            self.acid.set("hiveacid.compactor.here", "false")
        states = {report.state for report in reports}
        assert {"ready for cleaning", "succeeded"} & states, reports  # held: succeeded
        assert states <= {"ready for cleaning", "succeeded", "refused"}, reports

    def _clean(self, engine: str) -> None:
        del engine
        gc.collect()
        self.acid.context.read_leases.close()
        Compactions(self.servers).clean(self.acid.context.fs, self.acid.table(self.name).definition.location)

    # --- looks ------------------------------------------------------------------------------------
    def check(self, turn: str) -> None:
        """Compare both engines with the model, row ids and all."""
        names = ", ".join(self._shown())
        identity = (
            "ROW__ID, " if self.kind.full and (not self.kind.converted or self.turn > len(_BEGIN)) else ""
        )
        query = f"SELECT {identity}{names} FROM {self.name}"
        skip = 1 if identity else 0
        ours = [
            (tuple(row[0]) if skip else None, self._mine(tuple(row)[skip:]))
            for row in self.acid.sql(query).collect()
        ]
        others = [
            (row_id(row[0]) if skip else None, self._theirs(row[skip:]))
            for row in looked_up(self.hive, query)
        ]
        assert_same(map(repr, ours), map(repr, others), f"{turn}: hiveacid and Hive")
        expected = (repr(row.values) for row in self.rows.values())
        assert_same((repr(values) for _, values in ours), expected, f"{turn}: engines and model")
        if skip:
            self._learn(ours, turn)

    def _learn(self, seen: list[tuple[tuple[int, ...] | None, Values]], turn: str) -> None:
        """Learn row ids: what no statement touched keeps its own; new rows have write ids that are new."""
        fresh = set()
        for identity, values in seen:
            assert identity is not None
            row = self.rows[values[0]]
            if row.identity is None:
                fresh.add(identity[0])
            else:
                assert row.identity == identity, turn
            row.identity = identity
        places = [
            (row.values[-1] if self.kind.partitioned else None, row.identity) for row in self.rows.values()
        ]
        assert len(set(places)) == len(places), turn
        if self.highest or not self.kind.converted:  # the first look at originals: all of them are new
            assert all(one > self.highest for one in fresh), turn
        self.highest = max([self.highest, *fresh])

    def finish(self) -> None:
        """Look at what lies there: our check finds no damage, and Hive counts right with what statistics say."""
        found = self.acid.table(self.name).inspect.check()
        damage = [one for one in found if one.severity is Severity.DAMAGE]
        assert damage == [], damage
        assert self.may_misplace() or all(one.kind is not Found.OTHER_HASH_BUCKET for one in found), found
        self.hive.sql("SET hive.compute.query.using.stats=true")
        try:
            assert self.hive.sql(f"SELECT count(*) FROM {self.name}") == [(len(self.rows),)]
        finally:
            self.hive.sql("SET hive.compute.query.using.stats=false")
        self.execute("T" if self.kind.maker == "O" else "O", "DROP TABLE @")

    def may_misplace(self) -> bool:
        """Tell whether Hive puts rows where the other bucketing version has them: bugs of 3.1.3.

        Its MERGE does into bucketed tables (version 1 in place of 2), its INSERT … VALUES into tables of version 1 (2 in
        place of 1).
        """
        return bool(self.servers.is_hive3 and self.kind.buckets)

    # --- rows and texts ---------------------------------------------------------------------------
    def _names(self) -> list[str]:
        return [
            "id",
            "v",
            *(f"c{n}" for n in range(len(self.kind.types))),
            *(["p"] if self.kind.partitioned else []),
        ]

    def _shown(self) -> list[str]:
        types = dict(zip(self._names()[2:], self.kind.types, strict=False))
        forms = {"binary": "hex({})", "date": "cast({} AS STRING)", "timestamp": "cast({} AS STRING)"}
        return [forms.get(types.get(name, ""), "{}").format(name) for name in self._names()]

    def _new(self, words: str) -> list[Values]:
        more = [sample(key, self.kind.types) for key in numbers(words)]
        place = [("xyz"[key % 3],) if self.kind.partitioned else () for key in numbers(words)]
        return [
            (key, f"r{key}t{self.turn}", *middle, *end)
            for key, middle, end in zip(numbers(words), more, place, strict=True)
        ]

    def _put(self, words: str) -> list[Values]:
        rows = self._new(words)
        self.rows |= {row[0]: Row(row) for row in rows}
        return rows

    def _partition(self) -> str:
        return "PARTITION (p) " if self.kind.partitioned else ""

    def _query(self, rows: list[Values], names: list[str] | None = None) -> str:
        """Return a query of these rows: VALUES where it can be, else SELECT … UNION ALL."""
        types = ("int", "string", *self.kind.types, "string")
        if names is None and not self.kind.types:
            return f"VALUES {', '.join(f'({self._texts(row, types)})' for row in rows)}"
        names = names or self._names()
        selects = []
        for row in rows:
            texts = [
                f"{literal(value, kind)} AS {name}"
                for value, kind, name in zip(row, types, names, strict=False)
            ]
            selects.append(f"SELECT {', '.join(texts)}")
        return " UNION ALL ".join(selects)

    def _texts(self, row: Values, types: tuple[str, ...]) -> str:
        return ", ".join(literal(value, kind) for value, kind in zip(row, types, strict=False))

    def _chosen(self, divisor: str, rest: str) -> list[int]:
        return [key for key in self.rows if key % int(divisor) == int(rest)]

    def _mine(self, values: Values) -> Values:
        return tuple(
            mine(value, kind)
            for value, kind in zip(values, ("int", "string", *self.kind.types, "string"), strict=False)
        )

    def _theirs(self, values: Values) -> Values:
        return tuple(
            theirs(value, kind)
            for value, kind in zip(values, ("int", "string", *self.kind.types, "string"), strict=False)
        )
