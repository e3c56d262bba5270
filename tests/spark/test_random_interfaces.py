"""Random statements by every interface against one model, and random queries against plain Spark's on the same rows.

Settings, by environment variables:

    HIVEACID_TEST_COUNT    how many random tables get statements, and how many sets of tables get queries (1)
    HIVEACID_TEST_SEED     where to begin (on CI 1, elsewhere another one each time)

A failure prints the shortest history that was found to fail, as statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import HiveAcidError
from support.exhaustive import ALL, COUNT, seed
from support.random_history.histories import History, drawn, shrunk
from support.random_history.interfaces import ONLY_FULL_ACID, WEIGHTS, Doors, InterfaceTable, Kinds
from support.random_history.queries import TABLES, Asker, answer, differ

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession

REPEATS = COUNT or 1
STEPS = 8
QUERIES = 24 if ALL else 12
CHANGES = 8  # conditions of UPDATE and DELETE for a set of tables
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia")
SHRINKING = 120.0  # seconds at most to look for a shorter history that fails


@pytest.fixture
def doors(native: NativeSession) -> Iterator[Doors]:
    zone = native.conf.get("spark.sql.session.timeZone")
    made = Doors(native, native.acid.context.warehouse)
    yield made
    made.close()
    native.conf.set("spark.sql.session.timeZone", str(zone))


def failure(doors: Doors, name: str, kinds: Kinds, statements: History) -> str:
    """Carry out a history; return its statements if it fails, or nothing."""
    table = InterfaceTable(doors, name, kinds)
    try:
        for kind, number in statements:
            table.run(kind, number)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong
        return "\n".join([*table.log, f"{type(error).__name__}: {str(error)[:2000]}"])
    return ""


@pytest.mark.parametrize("repeat", range(REPEATS))
def test_random_statements_by_every_interface(doors: Doors, repeat: int) -> None:
    start = f"{seed()} {repeat}"
    random = Random(start)
    kinds, zone, number = Kinds.any(random), random.choice(ZONES), count()
    doors.use_zone(zone)  # a frame of another session is written in the zone of the connection
    weights = {
        kind: weight for kind, weight in WEIGHTS.items() if not (kinds.insert_only and kind in ONLY_FULL_ACID)
    }
    statements = drawn(start, weights, STEPS)
    found = failure(doors, f"t{next(number)}", kinds, statements)
    if found:
        shorter = shrunk(
            statements, lambda tried: bool(failure(doors, f"t{next(number)}", kinds, tried)), SHRINKING
        )
        again = failure(doors, f"t{next(number)}", kinds, shorter)
        pytest.fail(f"seed {start}, time zone {zone}\n{again or found}")


@pytest.mark.parametrize("repeat", range(REPEATS))
def test_random_queries_give_what_spark_gives(doors: Doors, repeat: int) -> None:
    start = f"queries {seed()} {repeat}"
    random = Random(start)
    zone = random.choice(ZONES)
    doors.use_zone(zone)  # Spark's own tables hold instants
    names = random.sample(list(TABLES), 2)
    for name in names:
        table = InterfaceTable(doors, name, TABLES[name])
        for kind in (
            "insert",
            "insert",
            "insert",
            *(() if table.kinds.insert_only else ("update", "delete")),
            "insert",
        ):
            table.random = Random(random.randrange(10**9))
            getattr(table, kind)()
        doors.native.sql(f"CREATE TABLE s_{name} USING parquet AS SELECT * FROM {name}")
    asker = Asker(random, names)
    differences = [found for _ in range(QUERIES) if (found := difference(doors, asker))]
    names = [name for name in names if not TABLES[name].insert_only]
    for name in names:
        wheres = [asker.condition(name, functions=number % 2 == 0) for number in range(CHANGES // len(names))]
        differences += [found for where in wheres if (found := change_difference(doors, random, name, where))]
    assert not differences, f"seed {start}, time zone {zone}, tables {names}\n" + "\n\n".join(differences)


def difference(doors: Doors, asker: Asker) -> str:
    """Ask one question, by SQL or as a condition without Spark; return how the answers differ."""
    random = asker.random
    if random.random() < 0.25:
        name = random.choice(list(asker.tables))
        wheres = [asker.condition(name, functions=random.random() < 0.3) for _ in range(6)]
        return condition_difference(doors, name, wheres)
    question = asker.question()
    door = random.choice(["native", "driver", "jobs", "serve"])
    ours = doors.texts[door]
    if question.view:
        ours(f"CREATE OR REPLACE VIEW w AS {question.ours(random, question.view)}")
        doors.native.sql(f"CREATE OR REPLACE TEMPORARY VIEW s_w AS {question.theirs(question.view)}")
    text = question.ours(random, question.text)
    theirs = question.theirs(question.text)
    found, wanted = answer(ours, text), answer(doors.native.sql, theirs)
    if not differ(found, wanted):
        return ""
    return (
        f"{door}: {question.view}; {text}\n  hiveacid {shown(found, wanted)}\n  Spark {shown(wanted, found)}"
    )


def condition_difference(doors: Doors, name: str, wheres: list[str]) -> str:
    """Select by conditions: one query with a scan for each, the first one by a scan of Python, all without Spark."""
    places = enumerate(wheres)
    query = " UNION ALL ".join(
        f"SELECT {place} AS place, n FROM {{0}} WHERE {where}" for place, where in places
    )
    wanted = answer(doors.native.sql, query.format(f"s_{name}"))
    found = answer(doors.native.sql, query.format(name))
    if isinstance(wanted, str) or found != wanted:
        return f"{query}\n  hiveacid {found}\n  Spark {wanted}" if differ(found, wanted) else ""
    scan = doors.driver.table(name).scan(columns=["n"], where=wheres[0]).to_df()
    numbers = {"scan of 0": [row[0] for row in scan.collect()]}
    for place, where in enumerate(wheres):
        with suppress(HiveAcidError):  # functions and such are refused
            rows = doors.arrow.table(name).to_arrow(["n"], where=where)
            numbers[f"to_arrow of {place}"] = rows.column(0).to_pylist()
    for reader, names in numbers.items():
        place = int(reader.rpartition(" ")[2])
        of_place = [row for row in wanted if row.startswith(f"({place},")]
        if sorted(repr((place, n)) for n in names) != of_place:
            return f"{name} WHERE {wheres[place]}\n  {reader}: {names}\n  Spark {of_place}"
    return ""


def change_difference(doors: Doors, random: Random, name: str, where: str) -> str:
    """Change the rows that a condition selects, by the driver and by a job; return how they differ from plain Spark's."""
    if random.random() < 0.6:
        statement, columns = f"DELETE FROM {name} WHERE {where}", "n, CAST(ROW__ID AS STRING)"
        theirs = f"SELECT n FROM s_{name} WHERE NOT coalesce({where}, false)"
    else:
        value = random.choice(
            ["'new'", "concat(coalesce(s, ''), n)", "substring(s, 1, 1)", "CAST(n % 7 AS STRING)"]
        )
        statement, columns = f"UPDATE {name} SET s = {value} WHERE {where}", "n, s"
        theirs = f"SELECT n, if({where}, {value}, s) FROM s_{name}"
    found = {
        door: changed_by(doors, door, statement, f"SELECT {columns} FROM {name}")
        for door in ("driver", "jobs")
    }
    if differ(found["driver"], found["jobs"]):
        return f"{statement}\n  driver {found['driver']}\n  jobs {found['jobs']}"
    wanted, rows = answer(doors.native.sql, theirs), found["driver"]
    if statement.startswith("DELETE") and not isinstance(rows, str):
        rows = sorted(f"({row.split(',')[0][1:]},)" for row in rows)
    return f"{statement}\n  hiveacid {rows}\n  Spark {wanted}" if differ(rows, wanted) else ""


def changed_by(doors: Doors, door: str, statement: str, query: str) -> list[str] | str:
    """Return the rows of a query after a statement, or its error, and take the statement back."""
    sql = doors.texts[door]
    sql("START TRANSACTION")
    try:
        changed = answer(sql, statement)
        return changed if isinstance(changed, str) else answer(sql, query)
    finally:
        sql("ROLLBACK")


def shown(rows: list[str] | str, others: list[str] | str) -> str:
    """Return an error, or the rows that only one side has."""
    if isinstance(rows, str) or isinstance(others, str):
        return str(rows)[:400]
    return str(list((Counter(rows) - Counter(others)).elements())[:4])
