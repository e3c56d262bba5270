"""Statements of Hive on definitions, by either engine at one metastore: the other one goes on with what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hive_client import Hive

from hiveacid import errors as e

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = (
    "STORED AS TEXTFILE TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
)


def same(acid: AcidSession, session: Hive, query: str, wanted: set[tuple[object, ...]]) -> None:
    """Compare both engines' rows with a model."""
    texts = sorted(tuple(map(str, row)) for row in wanted)
    assert sorted(tuple(map(str, row)) for row in acid.sql(query).collect()) == texts, query
    assert sorted(tuple(map(str, row)) for row in session.sql(query)) == texts, query


@pytest.mark.parametrize("kind", ["acid", "only", "plain"])
def test_a_partition_gets_other_values(acid: AcidSession, session: Hive, kind: str) -> None:
    stored = {"acid": ACID, "only": INSERT_ONLY, "plain": "STORED AS ORC"}[kind]
    name = f"renamed_{kind}"
    session.sql(f"CREATE TABLE {name} (a INT) PARTITIONED BY (p STRING, q INT) {stored}")
    session.sql(f"INSERT INTO {name} PARTITION (p, q) VALUES (1, 'x', 1), (2, 'y', 1)")
    acid.sql(f"INSERT INTO {name} VALUES (3, 'x', 1), (4, 'y', 1)")
    if kind == "acid":
        acid.sql(f"DELETE FROM {name} WHERE a = 1")
        session.sql(f"UPDATE {name} SET a = 30 WHERE a = 3")
    one = {(30, "x")} if kind == "acid" else {(1, "x"), (3, "x")}
    with pytest.raises(e.AlreadyExistsError):
        acid.sql(f"ALTER TABLE {name} PARTITION (p='x', q=1) RENAME TO PARTITION (p='y', q=1)")
    acid.sql(f"ALTER TABLE {name} PARTITION (p='x', q=1) RENAME TO PARTITION (p='a/b=c', q=2)")
    if kind != "plain":  # its rows would have their new values there
        with pytest.raises(e.NotEnoughHistoryError):
            acid.table(name).as_of(write_id=1).to_df()
    rows: set[tuple[object, ...]] = {(a, "a/b=c", 2) for a, _ in one} | {(2, "y", 1), (4, "y", 1)}
    same(acid, session, f"SELECT a, p, q FROM {name}", rows)
    assert sorted(session.sql(f"SHOW PARTITIONS {name}")) == [("p=a%2Fb%3Dc/q=2",), ("p=y/q=1",)]
    session.sql(f"ALTER TABLE {name} PARTITION (p='y', q=1) RENAME TO PARTITION (p='z', q=1)")
    session.sql(f"INSERT INTO {name} PARTITION (p, q) VALUES (5, 'x', 1), (6, 'a/b=c', 2)")
    acid.sql(f"INSERT INTO {name} VALUES (7, 'y', 1), (8, 'a/b=c', 2), (9, 'z', 1)")
    rows = {(a, "a/b=c", 2) for a, _ in one} | {(2, "z", 1), (4, "z", 1), (5, "x", 1), (6, "a/b=c", 2)}
    rows |= {(7, "y", 1), (8, "a/b=c", 2), (9, "z", 1)}
    same(acid, session, f"SELECT a, p, q FROM {name}", rows)
    if kind == "acid":
        session.sql(f"DELETE FROM {name} WHERE a = 6")
        acid.sql(f"UPDATE {name} SET a = 31 WHERE a = 30")
        acid.sql(f"ALTER TABLE {name} PARTITION (p='a/b=c', q=2) COMPACT 'major' AND WAIT")
        rows = {(31 if row[0] == 30 else row[0], *row[1:]) for row in rows if row[0] != 6}
        same(acid, session, f"SELECT a, p, q FROM {name}", rows)
    same(acid, session, f"SELECT count(*) FROM {name}", {(len(rows),)})


def test_databases_and_owners_are_those_of_the_other_engine(acid: AcidSession, session: Hive) -> None:
    session.sql("CREATE DATABASE told COMMENT 'first' WITH DBPROPERTIES ('a'='1', 'b'='2')")
    acid.sql("ALTER DATABASE told SET DBPROPERTIES ('b'='3', 'it''s'='x')")
    acid.sql("COMMENT ON DATABASE told IS 'by us'")
    acid.sql("ALTER DATABASE told SET OWNER USER ann")
    row = [str(cell) for cell in session.sql("DESCRIBE DATABASE EXTENDED told")[0]]
    assert {"told", "by us", "ann"} <= set(row), row
    assert all(pair in row[-1] for pair in ("a=1", "b=3", "it's=x")), row
    session.sql("ALTER DATABASE told SET DBPROPERTIES ('c'='4')")
    session.sql("ALTER DATABASE told SET OWNER USER bob")
    (ours,) = acid.sql("DESCRIBE DATABASE EXTENDED told").collect()
    assert (ours.owner_name, ours.comment) == ("bob", "by us")
    assert "c=4" in ours.parameters
    for refused in ("ALTER DATABASE told SET LOCATION '/elsewhere'", "COMMENT ON DATABASE told IS NULL"):
        with pytest.raises(e.UnsupportedFeatureError, match="metastore"):
            acid.sql(refused)
    with pytest.raises(e.NoSuchDatabaseError):
        acid.sql("ALTER DATABASE nosuch SET OWNER USER ann")
    acid.sql(f"CREATE TABLE told.t (id INT) {ACID}")
    acid.sql("ALTER TABLE told.t SET OWNER USER ann")
    acid.sql("INSERT INTO told.t VALUES (1)")
    described = {
        tuple(str(cell).strip() for cell in row)[:2] for row in session.sql("DESCRIBE FORMATTED told.t")
    }
    assert ("Owner:", "ann") in described
    same(acid, session, "SELECT * FROM told.t", {(1,)})
