"""Random statements with random conditions, by either engine: what one changes is what the other would have chosen.

HIVEACID_TEST_COUNT (3) tables, from HIVEACID_TEST_SEED (1) on, twelve statements each. A seed says the table and its
statements: a failure names its seed and tells its steps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest
from hive_chains import FULL, Chain, Kind, Row, Step, looked_up
from hive_client import Hive
from hive_server import HiveServers

from support.exhaustive import COUNT, steady_seed

if TYPE_CHECKING:
    from hiveacid import AcidSession

CLEANS = True
STEPS = 12
SEEDS = range(steady_seed(), steady_seed() + (COUNT or 3))
TYPES = ("bigint", "double", "decimal(10,2)", "string", "boolean", "date", "timestamp", "varchar(10)")
LITERALS = {
    "int": ("0", "7", "13", "-1", "NULL"),
    "bigint": ("1", "9223372036854775807", "-9223372036854775807", "id"),
    "double": ("0.1D", "-2.5D", "1e300D"),
    "decimal(10,2)": ("-0.01", "0", "12345678.9", "0.005"),
    "string": ("'two words'", "''", "'TWO'", "v"),
    "boolean": ("true", "false"),
    "date": ("DATE '1999-12-31'", "DATE '2024-02-29'", "cast('1900-01-02' AS date)"),
    "timestamp": ("TIMESTAMP '2001-02-03 04:05:06.789'", "TIMESTAMP '1969-07-20 20:17:40'"),
    "varchar(10)": ("'ten chars!'", "'ü'", "'ten chars! and more'"),
}
ODD = (
    "length(v) > 4",
    "v LIKE '%u%'",
    "c3 LIKE 't_o%'",
    "upper(c3) = 'TWO WORDS'",
    "coalesce(c0, id) = id",
    "c1 + c1 > 0",
    "year(c5) = 1999",
    "c2 * 2 < 1",
    "c5 < c6",
    "substr(v, 2, 1) = '1'",
    "id BETWEEN 3 AND 11",
    "c4",
    "if(c4, id > 5, id < 9)",
    "CASE WHEN c0 IS NULL THEN id % 2 = 0 ELSE c4 END",
)

OF_PARTITIONS = ("p IN ('x', 'z')", "p <> 'y'")
logger = logging.getLogger(__name__)


def kind_of(draw: Random) -> Kind:
    """Return a random kind of table."""
    buckets = draw.choice((0, 0, 2, 3))
    version = draw.choice((1, 2)) if buckets else 2
    properties = FULL + (",'bucketing_version'='1'" if version == 1 else "")
    return Kind("random", draw.choice("OT"), "ORC", draw.random() < 0.6, buckets, properties, types=TYPES)


def condition(draw: Random, kind: Kind, depth: int = 2) -> str:
    """Return a random condition on columns id, v, c0… and, where there are partitions, p."""
    if depth and draw.random() < 0.5:
        left, right = condition(draw, kind, depth - 1), condition(draw, kind, depth - 1)
        return draw.choice([f"({left} AND {right})", f"({left} OR {right})", f"(NOT ({left}))"])
    types = ("int", *TYPES)
    place = draw.randrange(len(types))
    column = "id" if place == 0 else f"c{place - 1}"
    shape = draw.choice(["compare", "compare", "null", "in", "odd"])
    if shape == "odd":
        return draw.choice(ODD + (OF_PARTITIONS if kind.partitioned else ()))
    if shape == "null":
        return f"{column} IS {draw.choice(['', 'NOT '])}NULL"
    choices = LITERALS[types[place]]
    if shape == "in" and types[place] != "boolean":
        return f"{column} IN ({', '.join(draw.sample(choices, 2))})"
    return f"{column} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {draw.choice(choices)}"


_VERBS = (
    *["update_where"] * 4,
    *["delete_where"] * 3,
    "merge",
    "merge",
    "insert",
    "overwrite",
    "abort",
    "minor",
    "major",
    "truncate",
    "drop_partition",
)


def drawn(draw: Random, kind: Kind) -> Iterator[Step]:
    """Return random steps without end: half of them change what a condition finds."""
    yield "T", "insert", "1-8"
    yield "O", "insert", "9-16"
    key = 17
    while True:
        engine, verb = draw.choice("OT"), draw.choice(_VERBS)
        if verb.endswith("_where"):
            yield engine, verb, condition(draw, kind)
        elif verb in ("minor", "major"):
            yield "T", verb
        elif verb == "abort":
            yield "O", verb, "900-901"
        elif verb == "merge":
            yield engine, verb, f"{key - 3}-{key + 2}"
            key += 3
        elif verb in ("truncate", "drop_partition"):
            yield engine, verb, draw.choice("xyz")
        else:
            yield engine, verb, f"{key}-{key + 3}"
            key += 4


class RandomChain(Chain):
    """A chain whose changes have conditions in SQL: which rows they find, both engines are asked before."""

    def found(self, condition_: str) -> list[int]:
        query = f"SELECT id FROM {self.name} WHERE {condition_}"
        ours = sorted(row[0] for row in self.acid.sql(query).collect())
        assert ours == sorted(row[0] for row in looked_up(self.hive, query)), query
        return ours

    def finish(self) -> None:
        """As of other chains; Hive 4.0's compactions mark old numbers of rows exact (docs/metastore.md says so)."""
        if not self.servers.is_hive3:
            partition = " PARTITION (p)" if self.kind.partitioned else ""
            self.hive.sql(f"ANALYZE TABLE {self.name}{partition} COMPUTE STATISTICS")
        super().finish()

    def may_misplace(self) -> bool:
        """As of other chains; without partitions, too, by INSERT OVERWRITE with UNION ALL and what follows."""
        return bool(self.servers.is_hive3 and self.kind.buckets)

    def _update_where(self, engine: str, condition_: str) -> None:
        for key in self.found(condition_):
            old = self.rows[key].values
            self.rows[key] = Row((key, f"{old[1]}u{self.turn}", *old[2:]))
        self.execute(engine, f"UPDATE @ SET v = concat(v, 'u{self.turn}') WHERE {condition_}")

    def _delete_where(self, engine: str, condition_: str) -> None:
        keys = self.found(condition_)[:6]
        for key in keys:
            self.rows.pop(key)
        some = ", ".join(map(str, keys)) or "NULL"
        self.execute(engine, f"DELETE FROM @ WHERE ({condition_}) AND id IN ({some})")

    def _truncate(self, engine: str, place: str) -> None:
        self._forget(place)
        self.execute(engine, f"TRUNCATE TABLE @{self._of(place)}")

    def _drop_partition(self, engine: str, place: str) -> None:
        if self.kind.partitioned:
            self._forget(place)
            self.execute(engine, f"ALTER TABLE @ DROP IF EXISTS{self._of(place)}")

    def _of(self, place: str) -> str:
        return f" PARTITION (p='{place}')" if self.kind.partitioned else ""

    def _forget(self, place: str) -> None:
        partitioned = self.kind.partitioned
        self.rows = {key: row for key, row in self.rows.items() if partitioned and row.values[-1] != place}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_statements(seed: int, acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    draw = Random(seed)
    kind = kind_of(draw)
    told: list[str] = []

    def said(text: str) -> None:
        told.append(text)
        logger.info("Hive %s, seed %d: %s", hive.version, seed, text)

    try:
        chain = RandomChain(kind, f"random_{seed}", acid, session, hive)
        chain.run(islice(drawn(draw, kind), STEPS), said=said)
    except BaseException as error:
        error.add_note(f"seed {seed}, {kind}, after {told}")
        raise
