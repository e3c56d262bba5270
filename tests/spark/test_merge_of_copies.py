"""MERGE whose values depend on the source alone, which Arrow joins: the same rows and row ids as when Spark joins them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid import errors
from hiveacid.core.format.names import ROW_ID
from hiveacid.spark.session import environment
from hiveacid.table.write import merge, merge_in_driver
from support.exhaustive import ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
COLUMNS = {
    "k": "INT", "big": "BIGINT", "name": "STRING", "amount": "DECIMAL(9,2)", "day": "DATE",
    "ok": "BOOLEAN", "ratio": "DOUBLE", "part": "FLOAT", "tiny": "TINYINT", "raw": "BINARY",
}  # fmt: skip
ROWS = (
    "SELECT CAST({k} AS INT) k, {k} * 1000000007 big, if({k} % 11 = 0, NULL, concat('n', {k})) name, "
    "CAST({k} / 4 AS DECIMAL(9,2)) amount, date_add(DATE'1600-01-01', CAST({k} * 30 AS INT)) day, "
    "if({k} % 6 = 0, NULL, {k} % 2 = 0) ok, if({k} = 3, double('NaN'), {k} / 3) ratio, CAST({k} / 8 AS FLOAT) part, "
    "CAST({k} % 5 AS TINYINT) tiny, if({k} % 7 = 0, NULL, CAST(concat('b', {k}) AS BINARY)) raw FROM range({first}, {end}, 1, 3)"
)
# (partition columns, bucketing) of the tables
LAYOUTS = [
    ((), ""),
    (("day", "tiny"), ""),
    (("name",), "CLUSTERED BY (big) INTO 3 BUCKETS"),
    ((), "CLUSTERED BY (name, k) INTO 4 BUCKETS"),
]
CONDITIONS = {
    "source": [
        "s.k > 5",
        "s.extra IN ('n1!', 'n7!')",
        "s.ok",
        "NOT s.ok AND s.amount < 9.5",
        "s.name IS NULL",
        "s.k % 3 = 1",
    ],
    "target": [
        "t.k > 5",
        "t.name <> 'n8'",
        "t.ok OR s.k = 4",
        "t.amount BETWEEN 2 AND 20 AND s.day > DATE'1602-01-01'",
    ],
    "computed": ["s.ratio > 1", "upper(s.name) = 'N4'", "s.k IN (3, 7) OR s.big % 4 = 1"],
    "spark": ["t.k < s.big", "t.ratio > s.ratio + 1"],
}
COMPUTED = {
    "big": "s.big + 1",
    "amount": "CAST(s.amount * 2 - s.k AS DECIMAL(9,2))",
    "day": "date_add(s.day, 1)",
    "ok": "s.k % 3 = 0",
    "ratio": "s.ratio / 0.5D",
    "tiny": "3Y",
    "raw": "CAST(s.extra AS BINARY)",
}
KEYS = [["k"], ["big"], ["name"], ["amount"], ["day"], ["k", "name"], ["name", "amount", "day"]]


@pytest.fixture(params=["local", "cluster"])
def master(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let statements run as with a local master, and as on a cluster."""
    if request.param == "cluster":
        monkeypatch.setattr(environment, "is_local_master", lambda _: False)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of changed rows of each MERGE that Arrow joins."""
    numbers: list[int] = []
    copied_rows = merge.copied_rows

    def noted(*given: Any) -> Any:
        rows = copied_rows(*given)
        numbers.append(rows.num_rows)
        return rows

    monkeypatch.setattr(merge, "copied_rows", noted)
    return numbers


def rows(acid: AcidSession, table: str, *, ids: bool) -> list[str]:
    more = f", {ROW_ID}, INPUT__FILE__NAME LIKE '%bucket_00000%'" if ids else ""
    return sorted(str(row) for row in acid.sql(f"SELECT *{more} FROM {table}").collect())


def statement(random: Random, fixed: tuple[str, ...]) -> str:
    keys = random.choice(KEYS)
    on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    some = random.sample([*COLUMNS], random.randint(1, len(COLUMNS)))
    values = {name: f"s.{name}" for name in some}
    if random.random() < 0.2 and "name" in some:
        values["name"] = random.choice(["s.extra", "upper(s.name)", "t.name", "'text'", "s.k"])
    for name in random.sample([*COMPUTED], random.randint(0, 2)):
        values[name] = COMPUTED[name]
    matched = random.choice(
        ["THEN DELETE", f"THEN UPDATE SET {', '.join(f'{name} = {value}' for name, value in values.items())}"]
    )
    values |= {name: f"s.{name}" for name in fixed}
    inserted = f"({', '.join(values)}) VALUES ({', '.join(v for v in values.values())})".replace(
        "t.name", "s.name"
    )
    of_both = [
        condition for kind in CONDITIONS.values() for condition in kind if kind is not CONDITIONS["spark"]
    ]
    of_both += random.sample(CONDITIONS["spark"], random.random() < 0.2)
    first = f"WHEN MATCHED AND {random.choice(of_both)} THEN DELETE " if random.random() < 0.4 else ""
    condition = f"AND {random.choice(of_both)} " if random.random() < 0.4 else ""
    inserting = (
        f"AND {random.choice(CONDITIONS['source'] + CONDITIONS['computed'])} "
        if random.random() < 0.3
        else ""
    )
    clauses = {
        "matched": f"{first}WHEN MATCHED {condition}{matched}",
        "inserted": f"WHEN NOT MATCHED {inserting}THEN INSERT {inserted}",
        "all": "WHEN NOT MATCHED THEN INSERT *",
    }
    chosen = random.choice(
        [["matched"], ["matched", "inserted"], ["matched", "all"], ["inserted"], ["matched", "inserted"]]
    )
    return f"MERGE INTO {{t}} t USING news s ON {on} {' '.join(clauses[name] for name in chosen)}"


@pytest.mark.sampled(4, "the same MERGEs with both masters, and in tables of other layouts")
@pytest.mark.parametrize("layout", LAYOUTS, ids=("plain", "partitioned", "both", "bucketed"))
@pytest.mark.usefixtures("master")
def test_random_merges_change_the_same_rows_as_spark(
    acid: AcidSession,
    spark: SparkSession,
    copied: list[int],
    monkeypatch: pytest.MonkeyPatch,
    layout: tuple[tuple[str, ...], str],
) -> None:
    tables = ("copies", "joins", "jobs")
    partitioned, buckets = layout
    fixed = (*partitioned, *(name for name in ("big", "name", "k") if name in buckets))
    order = [name for name in COLUMNS if name not in partitioned] + [*partitioned]
    columns = ", ".join(f"{name} {COLUMNS[name]}" for name in order if name not in partitioned)
    by = (
        f"PARTITIONED BY ({', '.join(f'{name} {COLUMNS[name]}' for name in partitioned)})"
        if partitioned
        else ""
    )
    for name in tables:
        acid.sql(f"CREATE TABLE {name} ({columns}) {by} {buckets} {ACID}")
        for first in (0, 40):
            given = f"SELECT {', '.join(order)} FROM ({ROWS.format(k='id', first=first, end=first + 40)})"
            acid.sql(f"INSERT INTO {name} {given}")
    random = Random(45)
    copying = merge_in_driver.copying_clauses
    for _ in range(30 if ALL else 8):
        first, step = random.randrange(60), random.randint(1, 4)
        news = ROWS.format(k=f"(id * {step} + {first})", first=0, end=random.randrange(30))
        spark.sql(f"SELECT *, concat(name, '!') extra FROM ({news})").createOrReplaceTempView("news")
        if random.random() < 0.2:  # several rows of a key
            spark.sql(
                "SELECT * FROM news UNION ALL SELECT * FROM news WHERE k % 2 = 0"
            ).createOrReplaceTempView("news")
        text = statement(random, fixed)
        outcomes = []
        for name in tables:
            acid.sql(f"SET hiveacid.changes.by = {'job' if name == 'jobs' else 'auto'}")
            monkeypatch.setattr(
                merge_in_driver, "copying_clauses", copying if name == "copies" else lambda *_: None
            )
            try:
                outcomes.append([*map(tuple, acid.sql(text.format(t=name)).collect())])
            except errors.HiveAcidError as error:
                outcomes.append([(type(error).__name__,)])
        assert outcomes[0] == outcomes[1] == outcomes[2], text
        assert rows(acid, "copies", ids=True) == rows(acid, "joins", ids=True), text
        assert rows(acid, "copies", ids=False) == rows(acid, "jobs", ids=False), text
    assert len(copied) > 3
    assert any(copied)
    assert not [*acid.table("copies").inspect.check()]
    for name in tables:
        acid.table(name).compact("major")
    assert rows(acid, "copies", ids=True) == rows(acid, "joins", ids=True)


def test_keys_and_rows_of_a_source_in_different_orders(
    acid: AcidSession, spark: SparkSession, copied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark promises no order of two collections of one frame."""
    collect = merge_in_driver.collect_as_arrow

    def reversed_if_whole(frame: Any) -> Any:
        found = collect(frame)
        return found.take([*reversed(range(found.num_rows))]) if len(frame.columns) > 1 else found

    monkeypatch.setattr(merge_in_driver, "collect_as_arrow", reversed_if_whole)
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    news = "SELECT * FROM VALUES (1, 'x'), (2, 'y'), (9, 'z') AS n (k, v)"
    spark.sql(news).createOrReplaceTempView("news")
    acid.sql(
        "MERGE INTO t USING news s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert copied == [3]
    found = acid.sql("SELECT * FROM t ORDER BY k").collect()
    assert [*map(tuple, found)] == [(1, "x"), (2, "y"), (3, "c"), (9, "z")]


def test_conditions_that_are_never_true(acid: AcidSession, spark: SparkSession, copied: list[int]) -> None:
    """A comparison with NULL refers to no column that Arrow would have to read."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("SELECT * FROM VALUES (1, 'x'), (9, 'z') AS n (k, v)").createOrReplaceTempView("news")
    never = "WHEN MATCHED AND s.v = NULL THEN DELETE", "WHEN NOT MATCHED AND NOT s.v = NULL THEN INSERT *"
    acid.sql(f"MERGE INTO t USING news s ON t.k = s.k {' '.join(never)}")
    assert copied == [0]
    acid.sql(f"MERGE INTO t USING news s ON t.k = s.k {never[0]} WHEN MATCHED THEN UPDATE SET v = s.v")
    assert copied == [0, 1]
    assert [*map(tuple, acid.sql("SELECT * FROM t ORDER BY k").collect())] == [(1, "x"), (2, "b")]


def test_texts_that_are_not_utf8_go_to_their_buckets(acid: AcidSession, spark: SparkSession) -> None:
    """Python cannot read them: Spark's join hashes their bytes."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING) CLUSTERED BY (v) INTO 3 BUCKETS {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a')")
    rows = "(1, CAST(X'FF' AS STRING)), (2, CAST(X'FE41' AS STRING))"
    spark.sql(f"SELECT * FROM VALUES {rows} AS n (k, v)").createOrReplaceTempView("news")
    acid.sql("MERGE INTO t USING news s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *")
    assert acid.sql("SELECT k, hex(v) FROM t ORDER BY k").collect() == [(1, "61"), (2, "FE41")]


def test_a_value_that_no_clause_uses_may_fail(
    acid: AcidSession, spark: SparkSession, copied: list[int]
) -> None:
    """Spark computes values of all rows of the source, whether they match or not."""
    acid.sql(f"CREATE TABLE t (k INT, v INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    spark.sql("SELECT * FROM VALUES (1, 5), (9, 0) AS n (k, v)").createOrReplaceTempView("news")
    merging = "MERGE INTO t USING news s ON t.k = s.k WHEN MATCHED {}THEN UPDATE SET v = 10 DIV s.v"
    acid.sql(merging.format("").replace("DIV s.v", "+ s.v"))
    assert copied == [1]
    acid.sql(merging.format("").replace("10 DIV s.v", "CAST(10 DIV s.v AS INT)"))
    assert copied == [1]
    assert [*map(tuple, acid.sql("SELECT * FROM t ORDER BY k").collect())] == [(1, 2), (2, 2)]
    spark.sql("SELECT * FROM VALUES (1, 0), (9, 5) AS n (k, v)").createOrReplaceTempView("news")
    with pytest.raises(errors.DataError, match="zero"):
        acid.sql(merging.format("").replace("10 DIV s.v", "CAST(10 DIV s.v AS INT)"))
    assert [*map(tuple, acid.sql("SELECT * FROM t ORDER BY k").collect())] == [(1, 2), (2, 2)]
