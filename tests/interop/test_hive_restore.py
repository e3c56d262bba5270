"""RESTORE on a metastore: Hive reads the rows of before, and goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hive_client import Hive

from hiveacid.errors import ConfigError, NotEnoughHistoryError, UnsupportedFeatureError

if TYPE_CHECKING:
    from hiveacid import AcidSession

SETTING = "hive.compute.query.using.stats=true"
KINDS = {"full": "", "only": ", 'transactional_properties'='insert_only'"}


def same(acid: AcidSession, session: Hive, t: str, wanted: set[tuple[object, ...]]) -> None:
    """Compare both engines' rows with a model."""
    texts = sorted(tuple(map(str, row)) for row in wanted)
    assert sorted(tuple(map(str, row)) for row in acid.sql(f"SELECT a, b, p FROM {t}").collect()) == texts
    assert sorted(tuple(map(str, row)) for row in session.sql(f"SELECT a, b, p FROM {t}")) == texts
    assert [tuple(map(str, row)) for row in session.sql(f"SELECT count(*) FROM {t}")] == [(str(len(wanted)),)]


@pytest.mark.parametrize("kind", ["full", "only"])
def test_rows_of_before_come_back(acid: AcidSession, session: Hive, kind: str) -> None:
    name = f"restored_{kind}"
    properties = f"TBLPROPERTIES ('transactional'='true'{KINDS[kind]})"
    session.sql(f"CREATE TABLE {name} (a INT, b STRING) PARTITIONED BY (p STRING) STORED AS ORC {properties}")
    session.sql(f"INSERT INTO {name} PARTITION (p) VALUES (1, 'x', 'a'), (2, 'y', 'b')")
    acid.sql(f"INSERT INTO {name} VALUES (3, 'z', 'a')")
    before: set[tuple[object, ...]] = {(1, "x", "a"), (2, "y", "b"), (3, "z", "a")}
    t = acid.table(name)
    write_id = int(t.valid_write_ids().split(":")[1])
    if kind == "full":
        session.sql(f"UPDATE {name} SET b = 'changed' WHERE a = 1")
        acid.sql(f"DELETE FROM {name} WHERE a = 2")
    session.sql(f"INSERT INTO {name} PARTITION (p) VALUES (4, 'new', 'c')")
    now: set[tuple[object, ...]] = {(4, "new", "c"), (3, "z", "a")}
    now |= {(1, "changed", "a")} if kind == "full" else {(1, "x", "a"), (2, "y", "b")}
    same(acid, session, name, now)
    with pytest.raises(ConfigError, match="write id 99 is not between"):
        acid.sql(f"RESTORE TABLE {name} TO VERSION AS OF 99")
    with pytest.raises(UnsupportedFeatureError):
        acid.sql(f"RESTORE TABLE {name} TO TIMESTAMP AS OF current_timestamp()")
    acid.sql("START TRANSACTION")
    acid.sql(f"RESTORE TABLE {name} TO VERSION AS OF {write_id}")
    acid.sql("ROLLBACK")
    same(acid, session, name, now)
    acid.sql(f"RESTORE TABLE {name} TO VERSION AS OF {write_id}")
    same(acid, session, name, before)
    session.sql(f"INSERT INTO {name} PARTITION (p) VALUES (5, 'later', 'c')")
    same(acid, session, name, before | {(5, "later", "c")})
    with pytest.raises(NotEnoughHistoryError):
        acid.sql(f"RESTORE TABLE {name} TO VERSION AS OF {write_id}")
    acid.sql(f"ALTER TABLE {name} PARTITION (p='a') COMPACT 'major' AND WAIT")
    same(acid, session, name, before | {(5, "later", "c")})
    session.sql(f"ALTER TABLE {name} DROP PARTITION (p='c')")
    same(acid, session, name, before)


def test_a_partition_that_we_drop_ends_the_history(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE gone (a INT) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO gone VALUES (1, 'a'), (2, 'b')")
    acid.sql("INSERT INTO gone VALUES (3, 'a')")
    acid.sql("ALTER TABLE gone DROP PARTITION (p='b')")
    for write_id in (1, 2):
        with pytest.raises(NotEnoughHistoryError):
            acid.sql(f"RESTORE TABLE gone TO VERSION AS OF {write_id}")
    acid.sql("INSERT INTO gone VALUES (4, 'b')")
    acid.sql("RESTORE TABLE gone TO VERSION AS OF 3")
    rows = {(row.a, row.p) for row in acid.sql("SELECT * FROM gone").collect()}
    assert rows == {(1, "a"), (3, "a")}
