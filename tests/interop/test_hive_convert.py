"""Plain tables of a metastore that we convert: Hive and we see the same rows and row ids, and both go on with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive, row_id

from hiveacid.errors import CatalogError, UnsupportedFeatureError

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones
_PLAIN = "TBLPROPERTIES ('transactional'='false')"
_FULL = "'transactional'='true'"
_INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"


@pytest.fixture(autouse=True)
def read_originals(session: Hive) -> None:
    """Let 3.1.3 with MapReduce read a table that holds nothing but originals; its message says how."""
    session.sql("SET hive.input.format=org.apache.hadoop.hive.ql.io.HiveInputFormat")


def _same(acid: AcidSession, hive: Hive, table: str) -> list[tuple[Any, ...]]:
    """Return the rows with their ids, which both engines have to agree about."""
    query = f"SELECT ROW__ID, * FROM {table}"
    ours = sorted((tuple(row[0]), *row[1:]) for row in acid.sql(query).collect())
    assert ours == sorted((row_id(row[0]), *row[1:]) for row in hive.sql(query)), table
    assert hive.sql(f"SELECT count(*) FROM {table}") == [(len(ours),)]
    return ours


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p STRING) CLUSTERED BY (a) INTO 2 BUCKETS"])
def test_to_full_acid(acid: AcidSession, session: Hive, layout: str) -> None:
    """Beside a table of the same files that Hive converts."""
    names = [f"full_{who}_{len(layout)}" for who in ("ours", "hives")]
    part = "PARTITION (p='x')" if "PART" in layout else ""
    for name in names:
        session.sql(f"CREATE TABLE {name} (a INT, b STRING) {layout} STORED AS ORC {_PLAIN}")
        session.sql(f"INSERT INTO {name} {part} VALUES (1,'a'),(2,'b'),(3,'c')")
        session.sql(f"INSERT INTO {name} {part} VALUES (4,'d'),(5,'e')")
    name, twin = names
    acid.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_FULL})")
    session.sql(f"ALTER TABLE {twin} SET TBLPROPERTIES ({_FULL})")
    assert _same(acid, session, name) == _same(acid, session, twin)
    acid.sql(f"UPDATE {name} SET b = 'us' WHERE a IN (1, 4)")
    session.sql(f"UPDATE {name} SET b = concat(b, '!') WHERE a IN (1, 2)")
    session.sql(f"DELETE FROM {name} WHERE a = 3")
    acid.sql(f"INSERT INTO {name} {part} VALUES (6,'f')")
    rows = _same(acid, session, name)
    assert sorted(row[1:3] for row in rows) == [(1, "us!"), (2, "b!"), (4, "us"), (5, "e"), (6, "f")]
    written = [row[0][0] for row in rows]
    assert (min(written), max(written)) == (0, 10_000_004)  # as Hive counts from a conversion on
    with pytest.raises(CatalogError, match="cannot be unset"):
        acid.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('transactional'='false')")


def test_what_cannot_be_converted_stays_plain(acid: AcidSession, session: Hive) -> None:
    session.sql(f"CREATE TABLE no_orc (a INT) STORED AS TEXTFILE {_PLAIN}")
    session.sql(f"CREATE TABLE odd_files (a INT) STORED AS ORC {_PLAIN}")
    session.sql("INSERT INTO odd_files VALUES (1)")
    root = Path(acid.table("odd_files").definition.location)
    next(root.glob("0*")).rename(root / "part-00000")
    for table, said in (("no_orc", "ORC"), ("odd_files", "part-00000")):
        with pytest.raises(CatalogError, match=said):
            acid.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_FULL})")
    with pytest.raises(UnsupportedFeatureError, match="AS SELECT"):
        acid.sql(f"ALTER TABLE odd_files SET TBLPROPERTIES ({_INSERT_ONLY})")
    assert {path.name for path in root.iterdir()} == {"part-00000"}
    assert session.sql("SELECT a FROM odd_files") == [(1,)]
    session.sql(f"CREATE TABLE only_inserts (a INT) STORED AS ORC TBLPROPERTIES ({_INSERT_ONLY})")
    session.sql("INSERT INTO only_inserts VALUES (1)")
    with pytest.raises(UnsupportedFeatureError, match="AS SELECT"):
        acid.sql(
            f"ALTER TABLE only_inserts SET TBLPROPERTIES ({_FULL}, 'transactional_properties'='default')"
        )
    assert session.sql("SELECT a FROM only_inserts") == [(1,)]
    assert acid.context.store.show_locks() == ()
