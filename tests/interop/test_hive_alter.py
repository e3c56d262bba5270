"""Columns that either engine renames, widens and adds: both read the rows of before and after, in every partition, and after compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hive_client import Hive, HiveError
from hive_server import HiveServers

from hiveacid.errors import HiveAcidError, UnsupportedFeatureError

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "STORED AS {} TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


def same(acid: AcidSession, session: Hive, query: str, wanted: set[tuple[object, ...]]) -> None:
    """Compare both engines' rows with a model."""
    texts = sorted(tuple(map(str, row)) for row in wanted)
    assert sorted(tuple(map(str, row)) for row in acid.sql(query).collect()) == texts, query
    assert sorted(tuple(map(str, row)) for row in session.sql(query)) == texts, query


def test_columns_of_a_full_acid_table(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    session.sql(f"CREATE TABLE changed (a INT, b VARCHAR(4), c FLOAT) PARTITIONED BY (p INT) {ACID}")
    session.sql("INSERT INTO changed PARTITION (p) VALUES (1, 'x', 1.5, 1), (5, 'v', 5.5, 2)")
    acid.sql("INSERT INTO changed VALUES (2, 'y', 2.5, 1), (3, 'z', 3.5, 2)")
    acid.sql("DELETE FROM changed WHERE a = 5")
    a, b = ("a", "b") if hive.is_hive3 else ("k", "text")
    if hive.is_hive3:
        with pytest.raises(UnsupportedFeatureError, match="would show NULL in k"):
            acid.sql("ALTER TABLE changed RENAME COLUMN a TO k")
    acid.sql(f"ALTER TABLE changed CHANGE COLUMN a {a} BIGINT COMMENT 'key'")
    acid.sql("ALTER TABLE changed ALTER COLUMN c TYPE DOUBLE")
    rows: set[tuple[object, ...]] = {(1, "x", 1.5, 1), (2, "y", 2.5, 1), (3, "z", 3.5, 2)}
    same(acid, session, f"SELECT {a}, b, c, p FROM changed", rows)
    for described in ("changed", "changed PARTITION (p=1)"):  # the partitions follow
        rows_of_hive = [
            tuple(str(cell).strip() for cell in row) for row in session.sql(f"DESCRIBE {described}")
        ]
        assert rows_of_hive[0] == (a, "bigint", "key"), described
        assert rows_of_hive[2][:2] == ("c", "double"), described
    session.sql(f"INSERT INTO changed PARTITION (p) VALUES ({2**40}, 'new', 4.5, 2)")
    acid.sql(f"INSERT INTO changed VALUES ({2**41}, 'n', 0.1, 1)")
    session.sql(f"UPDATE changed SET b = 'hive' WHERE {a} = 1")
    acid.sql(f"UPDATE changed SET b = 'us' WHERE {a} = 2 OR {a} = {2**40}")
    session.sql("DELETE FROM changed WHERE c = 3.5")
    rows = {(1, "hive", 1.5, 1), (2, "us", 2.5, 1), (2**40, "us", 4.5, 2), (2**41, "n", 0.1, 1)}
    same(acid, session, f"SELECT {a}, b, c, p FROM changed", rows)
    same(acid, session, f"SELECT c FROM changed WHERE {a} > 2 AND b = 'us'", {(4.5,)})
    acid.sql("COMMENT ON TABLE changed IS 'by us'")
    assert ("comment", "by us") in {tuple(map(str, row)) for row in session.sql("SHOW TBLPROPERTIES changed")}
    acid.sql("ALTER TABLE changed PARTITION (p=1) COMPACT 'minor' AND WAIT")
    same(acid, session, f"SELECT {a}, b, c, p FROM changed", rows)
    session.sql(f"ALTER TABLE changed CHANGE COLUMN b {b} STRING CASCADE")
    acid.sql(f"ALTER TABLE changed REPLACE COLUMNS ({a} BIGINT, {b} STRING, c DOUBLE, d INT)")
    acid.sql("INSERT INTO changed VALUES (7, 'longer', 7, 77, 2)")
    rows = {(*row[:3], None, row[3]) for row in rows} | {(7, "longer", 7.0, 77, 2)}
    same(acid, session, f"SELECT {a}, {b}, c, d, p FROM changed", rows)
    acid.sql("ALTER TABLE changed PARTITION (p=1) COMPACT 'major' AND WAIT")
    acid.sql("ALTER TABLE changed PARTITION (p=2) COMPACT 'major' AND WAIT")
    same(acid, session, f"SELECT {a}, {b}, c, d, p FROM changed", rows)


def test_what_hive_refuses_we_refuse(acid: AcidSession, session: Hive) -> None:
    """Other places, fewer columns and narrower types, of an ORC table."""
    session.sql(f"CREATE TABLE kept (a INT, b BIGINT) {ACID}")
    for statement in (
        "CHANGE COLUMN b b BIGINT FIRST",
        "CHANGE COLUMN a a INT AFTER b",
        "REPLACE COLUMNS (a INT)",
        "CHANGE COLUMN b b INT",
        "CHANGE COLUMN nosuch x INT",
        "CHANGE COLUMN a b INT",
    ):
        with pytest.raises(HiveError):
            session.sql(f"ALTER TABLE kept {statement}")
        with pytest.raises(HiveAcidError):
            acid.sql(f"ALTER TABLE kept {statement}")
    assert [tuple(map(str.strip, row))[:2] for row in session.sql("DESCRIBE kept")] == [
        ("a", "int"),
        ("b", "bigint"),
    ]


def test_columns_of_insert_only_tables(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    for storage in ("ORC", "TEXTFILE", "PARQUET"):
        name = f"only_{storage.lower()}"
        session.sql(f"CREATE TABLE {name} (a INT, b VARCHAR(4)) {INSERT_ONLY.format(storage)}")
        session.sql(f"INSERT INTO {name} VALUES (1, 'x')")
        acid.sql(f"INSERT INTO {name} VALUES (2, 'y')")
        by_name = storage == "PARQUET" or (storage == "ORC" and hive.is_hive3)
        a = "a" if by_name else "k"
        if by_name:
            with pytest.raises(UnsupportedFeatureError, match="would show NULL"):
                acid.sql(f"ALTER TABLE {name} RENAME COLUMN a TO k")
        else:
            acid.sql(f"ALTER TABLE {name} RENAME COLUMN a TO k")
        acid.sql(f"ALTER TABLE {name} CHANGE COLUMN b b VARCHAR(9)")
        session.sql(f"INSERT INTO {name} VALUES (3, 'by hive')")
        acid.sql(f"INSERT INTO {name} VALUES (4, 'by us')")
        rows: set[tuple[object, ...]] = {(1, "x"), (2, "y"), (3, "by hive"), (4, "by us")}
        same(acid, session, f"SELECT {a}, b FROM {name}", rows)
        same(acid, session, f"SELECT b FROM {name} WHERE {a} = 2", {("y",)})
