"""EXPORT and IMPORT both ways: Hive takes in our dumps and we take in Hive's, as tables of the same kind, which go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hive_client import Hive

from hiveacid.errors import CatalogError

if TYPE_CHECKING:
    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "STORED AS {} TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
BUCKETED = f"CLUSTERED BY (a) INTO 3 BUCKETS {ACID}"


def texts(rows: list[object]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row)) for row in rows)  # type: ignore[call-overload] # rows of either engine


def same(acid: AcidSession, session: Hive, query: str, wanted: list[tuple[object, ...]]) -> None:
    assert texts([*acid.sql(query).collect()]) == texts([*wanted]), query
    assert texts([*session.sql(query)]) == texts([*wanted]), query


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("acid", ACID),
        ("bucketed", BUCKETED),
        ("mm_orc", INSERT_ONLY.format("ORC")),
        ("mm_text", INSERT_ONLY.format("TEXTFILE")),
    ],
)
@pytest.mark.parametrize("from_hive", [False, True], ids=["ours", "of-hive"])
def test_a_table_goes_to_the_other_engine(
    acid: AcidSession, session: Hive, tmp_path: Path, name: str, kind: str, *, from_hive: bool
) -> None:
    source, copy = f"{name}_{from_hive}".lower(), f"{name}_{from_hive}_copy".lower()
    writer, reader = (session.sql, acid.sql) if from_hive else (acid.sql, session.sql)
    session.sql(f"CREATE TABLE {source} (a INT, b STRING, c DECIMAL(8,2)) {kind}")
    writer(f"INSERT INTO {source} VALUES (1, 'x', 1.5), (2, NULL, NULL), (3, 'dropped', 3)")
    writer(f"INSERT INTO {source} VALUES (4, 'y', 4)")
    rows: list[tuple[object, ...]] = [(1, "x", "1.50"), (2, None, None), (4, "y", "4.00")]
    if name.startswith("mm"):
        rows.append((3, "dropped", "3.00"))
    else:
        writer(f"DELETE FROM {source} WHERE a = 3")
    writer(f"EXPORT TABLE {source} TO '{tmp_path}/dump'")
    reader(f"IMPORT TABLE {copy} FROM '{tmp_path}/dump'")
    same(acid, session, f"SELECT * FROM {copy}", rows)
    session.sql(f"INSERT INTO {copy} VALUES (5, 'z', 5)")
    acid.sql(f"INSERT INTO {copy} VALUES (6, 'z', 6)")
    rows += [(5, "z", "5.00"), (6, "z", "6.00")]
    if not name.startswith("mm"):
        session.sql(f"UPDATE {copy} SET b = 'hive' WHERE a = 1")
        acid.sql(f"UPDATE {copy} SET b = 'us' WHERE a = 4")
        rows = [(1, "hive", "1.50"), (4, "us", "4.00"), *(row for row in rows if row[0] not in (1, 4))]
        acid.sql(f"ALTER TABLE {copy} COMPACT 'major' AND WAIT")
    same(acid, session, f"SELECT * FROM {copy}", rows)
    if not from_hive:  # into a table that is there, and empty
        session.sql(f"CREATE TABLE {copy}_2 (a INT, b STRING, c DECIMAL(8,2)) {kind}")
        session.sql(f"IMPORT TABLE {copy}_2 FROM '{tmp_path}/dump'")
        acid.sql(f"INSERT INTO {copy}_2 VALUES (5, 'z', 5)")
        assert acid.sql(f"SELECT sum(a) FROM {copy}_2").collect()[0][0] == sum(range(1, 6)) - 3 * (
            not name.startswith("mm")
        )


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY.format("ORC")], ids=["acid", "mm"])
@pytest.mark.parametrize("from_hive", [False, True], ids=["ours", "of-hive"])
def test_partitions_go_to_the_other_engine(
    acid: AcidSession, session: Hive, tmp_path: Path, kind: str, *, from_hive: bool
) -> None:
    source = f"parts_{from_hive}_{'only' in kind}".lower()
    writer, reader = (session.sql, acid.sql) if from_hive else (acid.sql, session.sql)
    session.sql(f"CREATE TABLE {source} (a INT) PARTITIONED BY (p STRING, q INT) {kind}")
    rows: list[tuple[object, ...]] = [(1, "x y", 1), (2, "a/b=c:d%25", 2), (3, "ü", 1), (4, None, 3)]
    for a, p, q in rows:
        text = "NULL" if p is None else f"'{p}'"
        writer(f"INSERT INTO {source} PARTITION (p, q) SELECT {a}, CAST({text} AS STRING), {q}")
    writer(f"EXPORT TABLE {source} TO '{tmp_path}/dump'")
    reader(f"IMPORT TABLE {source}_copy FROM '{tmp_path}/dump'")
    query = f"SELECT a, if(p = '__HIVE_DEFAULT_PARTITION__', NULL, p), q FROM {source}_copy"
    same(acid, session, query, rows)
    acid.sql(f"INSERT INTO {source}_copy VALUES (5, 'ü', 1)")
    session.sql(f"INSERT INTO {source}_copy PARTITION (p='x y', q=1) VALUES (6)")
    same(acid, session, query, [*rows, (5, "ü", 1), (6, "x y", 1)])
    writer(f"EXPORT TABLE {source} PARTITION (p='x y') TO '{tmp_path}/one'")
    with pytest.raises(CatalogError, match="exists already"):
        acid.sql(f"IMPORT TABLE {source}_copy FROM '{tmp_path}/one'")
    reader(f"IMPORT TABLE {source}_one PARTITION (p='x y', q=1) FROM '{tmp_path}/one'")
    same(acid, session, f"SELECT a, p, q FROM {source}_one", rows[:1])


def test_empty_tables(acid: AcidSession, session: Hive, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE nothing (a INT) {ACID}")
    acid.sql(f"EXPORT TABLE nothing TO '{tmp_path}/ours'")
    session.sql(f"EXPORT TABLE nothing TO '{tmp_path}/theirs'")
    session.sql(f"IMPORT TABLE from_us FROM '{tmp_path}/ours'")
    acid.sql(f"IMPORT TABLE from_hive FROM '{tmp_path}/theirs'")
    for name in ("from_us", "from_hive"):
        same(acid, session, f"SELECT * FROM {name}", [])
        acid.sql(f"INSERT INTO {name} VALUES (1)")
        same(acid, session, f"SELECT * FROM {name}", [(1,)])
