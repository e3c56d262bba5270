"""Random UPDATEs and DELETEs of a table of all types, each also by jobs on a table with the same rows."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from hiveacid import errors
from support.exhaustive import ALL

if TYPE_CHECKING:
    from hiveacid import AcidSession

COLUMNS = {
    "k": "INT",
    "tiny": "TINYINT",
    "big": "BIGINT",
    "amount": "DECIMAL(9,2)",
    "wide": "DECIMAL(38,10)",
    "ratio": "DOUBLE",
    "part": "FLOAT",
    "name": "STRING",
    "short": "VARCHAR(5)",
    "code": "CHAR(4)",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "ok": "BOOLEAN",
    "raw": "BINARY",
    "list": "ARRAY<INT>",
    "pairs": "MAP<STRING,INT>",
    "pair": "STRUCT<a:INT,b:STRING>",
}
FILL = (
    "SELECT CAST(id AS INT) k, CAST(id % 5 AS TINYINT) tiny, id * 1000000007 big, CAST(id / 4 AS DECIMAL(9,2)) amount, "
    "CAST(id / 7 AS DECIMAL(38,10)) wide, if(id = 3, double('NaN'), id / 3) ratio, float(id) / 8 part, "
    "if(id % 4 = 0, NULL, concat('n', id % 7)) name, concat('s', id) short, concat('c', id % 3) code, "
    "date_add(DATE'1581-12-31', CAST(id * 30 AS INT)) day, "
    "timestamp_seconds(id * 86400 * 200) + INTERVAL 123 MICROSECONDS moment, "
    "if(id % 6 = 0, NULL, id % 2 = 0) ok, CAST(concat('b', id) AS BINARY) raw, array(CAST(id AS INT), NULL) list, "
    "if(id = 9, NULL, map('m', CAST(id AS INT))) pairs, "
    "if(id = 5, NULL, named_struct('a', CAST(id AS INT), 'b', NULL)) pair{more} FROM range({first}, {end}, 1, 2)"
)
CONDITIONS = [
    "k = {n}", "k BETWEEN {n} AND {n} + 0", "k IN ({n}, {m}, NULL)", "NOT (k > {n} OR name IS NULL)", "tiny = 3 AND k < {n}",
    "amount >= 2.5 AND amount < 4", "amount = {n}", "name = 'n3'", "name <> 'n3' AND k > {n}", "name IN ('n1', 'n2') AND ok", "ok <=> NULL",
    "NOT ok", "short = 's{n}'", "day < DATE'1582-10-15'", "day = '1600-01-01' OR k = {n}", "k = '{n}'", "wide < {n}", "code = 'c1 '",
    "ratio > 5", "moment < TIMESTAMP'1975-01-01 00:00:00'", "name LIKE 'n%' AND k = {n}", "k % 9 = 4", "pair.a = {n}", "big = {n} * 1000000007",
    "t.k = {n}", "k = (SELECT max(k) FROM t)", 'name = "n3"', "big > 9223372036854775807", "k = 1e1", "size(list) = 2 AND k = {n}", "true", "k < 0",
    "pmod(big, 9) = 4 AND tiny + 1 < 4", "(k + {n}) % 7 IN (1, 3)", "k * 2 = {n}", "tiny * 100 = 100", "k - tiny > {n} - 5 * 3", "hash(*) % 3 = 0",
    "k / 2 = 3", "pmod(k, tiny + 5) = 1", "pmod(-k, 3) = 1", "k IN (SELECT k FROM other)",
    "big NOT IN (SELECT b FROM other WHERE b IS NOT NULL) AND k > {n}", "name IN (SELECT n FROM other) OR k = {n}", "NOT (k IN (SELECT k FROM other))",
    "k NOT IN (SELECT k FROM other WHERE k < 0) AND k < {n}", "k IN (SELECT b FROM other)", "amount IN (SELECT k FROM other)",
    "k IN (SELECT o.k FROM other o WHERE o.b = t.big)", "day IN (SELECT DATE'1600-01-01')", "k IN (SELECT k FROM other WHERE n LIKE 'n%')",
    "EXISTS (SELECT 1 FROM other WHERE k = t.tiny)", "k IN (SELECT max(k) FROM other) AND k > (SELECT 1)", "k IN (WITH w AS (SELECT 4 AS k) SELECT k FROM w)",
]  # fmt: skip
ASSIGNMENTS = [
    "amount = amount + 1", "name = 'new', ok = NULL", "tiny = k % 3, big = big + tiny", "short = name", "code = name, part = ratio",
    "day = date_add(day, 1)", "moment = TIMESTAMP'2020-05-05 05:05:05.5'", "raw = CAST(name AS BINARY)", "ratio = part / 0.5D",
    "moment = moment + INTERVAL 1 DAY", "list = array(1)", "pair = named_struct('a', 1, 'b', name)", "wide = wide + amount", "name = code",
    "amount = (SELECT max(amount) FROM t)", "ok = day < DATE'1600-01-01'", "moment = TIMESTAMP'1960-05-05 05:05:05.5'",
    "big = hash(k, t.name) * 2", "name = to_json(struct(t.*))", "big = xxhash64(*)", "name = to_json(pair)",
]  # fmt: skip


def require_equal_rows(acid: AcidSession, statement: str) -> None:
    found: dict[str, list[str]] = {"small": [], "jobs": []}
    for name, *row in acid.sql("SELECT 'small', * FROM small UNION ALL SELECT 'jobs', * FROM jobs").collect():
        found[name].append(str(row))
    assert sorted(found["small"]) == sorted(found["jobs"]), statement


def _outcome(acid: AcidSession, by: str, statement: str) -> str:
    acid.sql(f"SET hiveacid.changes.by = {by}")
    try:
        return str([tuple(row) for row in acid.sql(statement).collect()])
    except errors.HiveAcidError as error:
        return type(error).__name__


def random_statements(acid: AcidSession, level: str, by: str, *, partitioned: bool) -> None:
    """Change rows ``by`` the driver or executors, and by jobs: results and rows are the same."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    more = ", CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN 'a=b/c' ELSE 'ü' END p" if partitioned else ""
    for name in ("small", "jobs"):
        acid.sql(
            f"CREATE TABLE {name} ({columns}) {'PARTITIONED BY (p STRING)' if partitioned else ''} STORED AS ORC "
            f"TBLPROPERTIES ('transactional'='true', 'hiveacid.layout.level'='{level}')"
        )
        for first in (0, 40):
            acid.sql(f"INSERT INTO {name} {FILL.format(first=first, end=first + 40, more=more)}")
    acid.sql(
        "CREATE TABLE other (k INT, b BIGINT, n STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql(
        "INSERT INTO other VALUES (3, 3, 'n1'), (17, 17 * 1000000007L, NULL), (NULL, NULL, 'n6'), (64, -1, 'n%')"
    )
    random = Random(f"{level} {partitioned}{'' if by == 'driver' else by}")
    conditions = (
        [*CONDITIONS, "p IS NULL", "p = 'ü' AND k > {n}", "p <> 'a=b/c' OR k = {n}"]
        if partitioned
        else CONDITIONS
    )
    for step in range(80 if ALL else 8):
        where = random.choice(conditions).format(n=random.randrange(80), m=random.randrange(80))
        where = f"{where} AND k > {random.randrange(60)}" if random.random() < 0.4 else where
        values = random.choice(ASSIGNMENTS)
        change = "DELETE FROM {t} t" if random.random() < 0.4 else f"UPDATE {{t}} t SET {values}"
        text = f"{change} WHERE {where}"
        ways = {"small": by, "jobs": "job"}
        results = [_outcome(acid, way, text.replace("{t}", name)) for name, way in ways.items()]
        assert results[0] == results[1], text
        require_equal_rows(acid, text)
        if step % 5 == 4:
            with suppress(errors.CompactionRefusedError):  # nothing to compact
                acid.table("small").compact(
                    random.choice(["minor", "major"]), {"p": "ü"} if partitioned else None
                )
            require_equal_rows(acid, "a compaction")
    assert not [*acid.table("small").inspect.check()]
