"""Hive counts from statistics where it believes them: after each of our statements its answer is still the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_client import Hive
from hive_server import HiveServers

if TYPE_CHECKING:
    from hiveacid import AcidSession

_ANALYZE = ("ANALYZE TABLE {} COMPUTE STATISTICS", "ANALYZE TABLE {} COMPUTE STATISTICS FOR COLUMNS")

_MERGE = (
    "MERGE INTO counted t USING (SELECT 1 AS id UNION ALL SELECT 9) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', 'y')"
)


SETTING = "hive.compute.query.using.stats=true"


def test_counts_after_every_kind_of_statement(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """Partitioned, one partition in a place of its own, names in upper case; exact statistics before each turn."""
    session.sql(
        "CREATE TABLE Counted (Id INT, V STRING) PARTITIONED BY (P STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    session.sql("INSERT INTO counted PARTITION (p) VALUES (1,'a','x'),(2,'b','x'),(3,'c','y')")
    acid.sql(  # 3.1.3 would load files from there
        f"ALTER TABLE counted ADD PARTITION (p='z') LOCATION 'file://{hive.place}/warehouse/of_its_own'"
    )
    turns = (
        ("INSERT INTO COUNTED PARTITION (P) VALUES (4,'d','x'), (5,'e','new')", 5, 5),
        ("INSERT INTO counted PARTITION (p='z') VALUES (6,'f')", 6, 6),
        ("UPDATE counted SET v = 'u' WHERE id IN (1, 6)", 6, 6),
        ("DELETE FROM counted WHERE id = 6", 5, 5),
        (_MERGE, 5, 9),
        ("INSERT OVERWRITE TABLE counted PARTITION (p) SELECT id + 10, v, p FROM counted WHERE p = 'y'", 5, 19),
        ("INSERT OVERWRITE TABLE counted PARTITION (p='x') VALUES (30, 'o')", 4, 30),
        ("TRUNCATE TABLE counted PARTITION (p='x')", 3, 19),
        ("ALTER TABLE counted DROP PARTITION (p='y')", 1, 5),
        ("TRUNCATE TABLE counted", 0, None),
    )  # fmt: skip
    for statement, rows, largest in turns:
        for analyze in _ANALYZE:
            session.sql(analyze.format("counted PARTITION (p)"))
        acid.sql(statement)
        assert session.sql("SELECT count(*), max(id) FROM counted") == [(rows, largest)], statement
    session.sql("INSERT INTO counted PARTITION (p='x') VALUES (1,'a')")
    assert session.sql("SELECT count(*), max(id) FROM counted") == [(1, 1)]


def test_counts_of_a_table_without_partitions(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    acid.sql("CREATE TABLE flat_count STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 7 AS a")
    assert session.sql("SELECT count(*), max(a) FROM flat_count") == [(1, 7)]
    for analyze in _ANALYZE:
        session.sql(analyze.format("flat_count"))
    acid.sql("INSERT INTO flat_count VALUES (8), (9)")
    acid.sql("DELETE FROM flat_count WHERE a = 7")
    assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(2, 8)]
    if not hive.is_hive3:
        for analyze in _ANALYZE:
            session.sql(analyze.format("flat_count"))
        acid.set("hiveacid.compactor.here", "true")
        acid.sql("ALTER TABLE flat_count COMPACT 'major'")
        acid.set("hiveacid.compactor.here", "false")
        assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(2, 8)]
    acid.sql("INSERT OVERWRITE TABLE flat_count SELECT a FROM flat_count WHERE a = 9")
    assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(1, 9)]
