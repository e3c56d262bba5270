"""Hive and hiveacid take turns at the same tables; after each turn both see what a plain model says, row ids and all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive, row_id

import hiveacid
from hiveacid.errors import CatalogError

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones
Rows = set[tuple[object, ...]]


class Table:
    """A table that two engines write to, and the rows that it has to have."""

    def __init__(self, name: str, acid: AcidSession, hive: Hive) -> None:
        self.name, self.acid, self.hive = name, acid, hive
        self.rows: Rows = set()

    def ours(self, statement: str) -> None:
        self.acid.sql(statement.replace("@", self.name))

    def theirs(self, statement: str) -> None:
        self.hive.sql(statement.replace("@", self.name))

    def check(self, turn: str) -> None:
        """Compare Hive, hiveacid and the model; then row ids, and Hive's count."""
        query = f"SELECT ROW__ID, * FROM {self.name}"
        mine = {_plain(row) for row in self.acid.sql(query).collect()}
        other = {(row_id(row[0]), *map(str, row[1:])) for row in self.hive.sql(query)}
        assert mine == other, turn
        assert {row[1:] for row in mine} == {tuple(map(str, row)) for row in self.rows}, turn
        assert len(mine) == len(self.rows), turn
        assert self.hive.sql(f"SELECT count(*) FROM {self.name}") == [(len(self.rows),)], turn


def _plain(row: Any) -> tuple[object, ...]:
    return (tuple(row[0]), *map(str, row[1:]))


def test_a_table_that_we_made(acid: AcidSession, session: Hive) -> None:
    table = Table("made_by_us", acid, session)
    table.ours(
        "CREATE TABLE @ (id INT, name STRING, qty DECIMAL(10,2)) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    table.ours("INSERT INTO @ VALUES (1,'a',1.50),(2,'b',2.50),(3,'c',3.50)")
    table.rows = {(1, "a", "1.50"), (2, "b", "2.50"), (3, "c", "3.50")}
    table.check("our insert")
    table.theirs("UPDATE @ SET name = 'hive' WHERE id = 2")
    table.ours("UPDATE @ SET name = upper(name) WHERE id IN (1, 2)")
    table.rows = {(1, "A", "1.50"), (2, "HIVE", "2.50"), (3, "c", "3.50")}
    table.check("updates, Hive's and ours on top")
    table.theirs("DELETE FROM @ WHERE id = 1")
    table.ours("DELETE FROM @ WHERE id = 3")
    table.theirs("INSERT INTO @ VALUES (7,'seven',7),(8,'eight',8)")
    table.rows = {(2, "HIVE", "2.50"), (7, "seven", "7.00"), (8, "eight", "8.00")}
    table.check("deletes and Hive's insert")
    table.ours(
        "MERGE INTO @ t USING (SELECT 7 AS id, 'm' AS n UNION ALL SELECT 9, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n, 0)"
    )
    table.theirs(
        "MERGE INTO @ t USING (SELECT 8 AS id UNION ALL SELECT 10) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'ten', 10)"
    )
    table.rows = {(2, "HIVE", "2.50"), (7, "m", "7.00"), (9, "n", "0.00"), (10, "ten", "10.00")}
    table.check("merges")
    table.ours("TRUNCATE TABLE @")
    table.theirs("INSERT INTO @ VALUES (1,'new',1)")
    table.rows = {(1, "new", "1.00")}
    table.check("our truncate, Hive's insert")
    table.ours("ALTER TABLE @ ADD COLUMNS (more INT)")
    table.theirs("INSERT INTO @ VALUES (2,'two',2,22)")
    table.ours("INSERT INTO @ VALUES (3,'three',3,33)")
    table.rows = {(1, "new", "1.00", None), (2, "two", "2.00", 22), (3, "three", "3.00", 33)}
    table.check("a new column")
    table.ours("DROP TABLE @")
    assert (table.name,) not in session.sql("SHOW TABLES")


def test_a_partitioned_and_bucketed_table_of_hive(acid: AcidSession, session: Hive) -> None:
    table = Table("made_by_hive", acid, session)
    table.theirs(
        "CREATE TABLE @ (id INT, v STRING) PARTITIONED BY (dt STRING) CLUSTERED BY (id) INTO 2 BUCKETS "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    table.ours("INSERT INTO @ PARTITION (dt) VALUES (1,'a','x'),(2,'b','x'),(3,'c','y y')")
    table.theirs("INSERT INTO @ PARTITION (dt) VALUES (4,'d','y y'),(5,'e','z')")
    table.rows = {(1, "a", "x"), (2, "b", "x"), (3, "c", "y y"), (4, "d", "y y"), (5, "e", "z")}
    table.check("inserts into new and known partitions")
    table.ours("UPDATE @ SET v = 'us' WHERE dt = 'y y'")
    table.theirs("UPDATE @ SET v = concat(v, '!') WHERE id IN (1, 3)")
    table.rows = {(1, "a!", "x"), (2, "b", "x"), (3, "us!", "y y"), (4, "us", "y y"), (5, "e", "z")}
    table.check("updates")
    table.ours("INSERT OVERWRITE TABLE @ PARTITION (dt='z') VALUES (6,'over')")
    table.theirs("INSERT OVERWRITE TABLE @ PARTITION (dt='x') VALUES (1,'again')")
    table.ours("DELETE FROM @ WHERE id = 4")
    table.rows = {(1, "again", "x"), (3, "us!", "y y"), (6, "over", "z")}
    table.check("overwrites and our delete")
    names = {tuple(row) for row in acid.sql(f"SHOW PARTITIONS {table.name}").collect()}
    assert names == set(session.sql(f"SHOW PARTITIONS {table.name}"))
    table.theirs("DROP TABLE @")


def test_ctas_and_insert_only(acid: AcidSession, session: Hive) -> None:
    acid.sql(
        "CREATE TABLE from_query STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 1 AS a, 'x' AS b"
    )
    assert session.sql("SELECT * FROM from_query") == [(1, "x")]
    session.sql(
        "CREATE TABLE only_inserts (a INT) STORED AS PARQUET "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    session.sql("INSERT INTO only_inserts VALUES (1)")
    acid.sql("INSERT INTO only_inserts VALUES (2)")
    for rows in (acid.sql("SELECT a FROM only_inserts").collect(), session.sql("SELECT a FROM only_inserts")):
        assert sorted(row[0] for row in rows) == [1, 2]
    assert session.sql("SELECT count(*) FROM only_inserts") == [(2,)]


def test_views_of_hive(acid: AcidSession, session: Hive) -> None:
    """Read at the query's snapshot, views of views and renamed columns too; listed; refused where rows would change."""
    session.sql("CREATE TABLE below (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    session.sql("INSERT INTO below VALUES (1, 'x'), (2, 'y')")
    session.sql("CREATE VIEW above (n, m) COMMENT 'why' AS SELECT a + 1, upper(b) FROM below WHERE a > 0")
    session.sql("CREATE VIEW higher AS SELECT v.n, t.b FROM above v JOIN below t ON t.a = v.n")
    session.sql("CREATE VIEW every AS SELECT * FROM below")
    session.sql("CREATE VIEW strange AS SELECT mask_hash(b) AS h FROM below")
    assert sorted(tuple(row) for row in acid.sql("SELECT * FROM above").collect()) == [(2, "X"), (3, "Y")]
    assert [tuple(row) for row in acid.sql("SELECT h.* FROM default.higher h").collect()] == [(2, "y")]
    acid.sql("ALTER TABLE below ADD COLUMNS (c INT)")
    assert acid.table("every").to_df().columns == ["a", "b"]
    acid.sql("INSERT INTO below SELECT n + 10, m, 1 FROM above")
    assert session.sql("SELECT count(*) FROM above") == [(4,)]
    for statement in ("INSERT INTO above VALUES (1, 'x')", "DELETE FROM above", "DROP TABLE above"):
        with pytest.raises(CatalogError, match="is a view"):
            acid.sql(statement)
    with pytest.raises(hiveacid.HiveAcidError, match=r"view default\.strange: "):
        acid.sql("SELECT * FROM strange")
    views = {"above", "higher", "every", "strange"}
    assert views <= {row[0] for row in acid.sql("SHOW TABLES").collect()}
    assert views <= {row[0] for row in acid.sql("SHOW VIEWS").collect()}
    assert ("n", "int", "") in {tuple(row) for row in acid.sql("DESCRIBE above").collect()}


def test_views_of_ours_in_hive(acid: AcidSession, session: Hive) -> None:
    """What we make, Hive reads, shows, alters and drops; and we what it altered."""
    acid.sql("CREATE TABLE base (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO base VALUES (1, 'x'), (2, 'y')")
    acid.sql(
        "CREATE VIEW made (n COMMENT 'it', m) COMMENT 'ours' TBLPROPERTIES ('k'='v') AS SELECT * FROM base WHERE a > 1"
    )
    acid.sql("CREATE VIEW twice AS SELECT n, count(*) AS c FROM made GROUP BY n")
    acid.sql("ALTER TABLE base ADD COLUMNS (c INT)")
    for query, wanted in (("SELECT * FROM made", (2, "y")), ("SELECT c, n FROM twice", (1, 2))):
        assert session.sql(query) == [wanted]
        assert [tuple(row) for row in acid.sql(query).collect()] == [wanted]
    assert ("n", "int", "it") in {tuple(one.strip() for one in row) for row in session.sql("DESCRIBE made")}
    acid.sql("ALTER VIEW made AS SELECT a AS x, concat(b, '!') AS y FROM base")
    assert sorted(session.sql("SELECT x, y FROM made")) == [(1, "x!"), (2, "y!")]
    acid.sql("ALTER VIEW made RENAME TO renamed")
    acid.sql("ALTER VIEW renamed SET TBLPROPERTIES ('l'='w')")
    assert session.sql("SELECT max(x) FROM renamed") == [(2,)]
    session.sql("ALTER VIEW renamed AS SELECT a * 10 AS z FROM base")
    assert sorted(row[0] for row in acid.sql("SELECT z FROM renamed").collect()) == [10, 20]
    with pytest.raises(hiveacid.HiveAcidError, match="has a name of its own"):
        acid.sql("CREATE VIEW nameless AS SELECT count(*) FROM base")
    acid.sql("DROP VIEW twice")
    session.sql("DROP VIEW renamed")
    assert not {"twice", "renamed", "made"} & {row[0] for row in acid.sql("SHOW VIEWS").collect()}


@pytest.mark.usefixtures("session")
def test_nothing_stays_behind(acid: AcidSession) -> None:
    """No lock, and no transaction but those of data frames that still live."""
    acid.context.read_leases.close()
    store = acid.context.store
    assert store.show_locks() == ()
    assert [row for row in store.show_transactions() if row.state == "OPEN"] == []
