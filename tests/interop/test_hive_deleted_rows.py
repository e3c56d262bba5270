"""Deleted rows with their state, as Hive 4 shows them: row ids, write ids and values of both engines are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hive_client import Hive, row_id
from hive_server import HiveServers

if TYPE_CHECKING:
    from hiveacid import AcidSession

ROWS = "SELECT ROW__IS__DELETED, a, b, p, ROW__ID FROM changed('acid.fetch.deleted.rows'='true')"


def both(acid: AcidSession, session: Hive) -> list[tuple[object, ...]]:
    """Return the rows of ours, which are Hive's."""
    ours = sorted((*row[:4], *row[4]) for row in acid.sql(ROWS).collect())
    theirs = sorted((*row[:4], *row_id(str(row[4]))) for row in session.sql(ROWS))
    assert ours == theirs
    return [row[:4] for row in ours]


def test_deleted_rows(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    if hive.is_hive3:
        pytest.skip("Hive 3 shows no deleted rows")
    session.sql(
        "CREATE TABLE changed (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    session.sql("INSERT INTO changed PARTITION (p) VALUES (1, 'one', 1), (2, 'two', 1), (3, 'three', 2)")
    session.sql("DELETE FROM changed WHERE a = 1")
    acid.sql("UPDATE changed SET b = 'THREE' WHERE a = 3")
    session.sql("INSERT INTO changed PARTITION (p=2) VALUES (5, 'five')")
    deleted = [(True, 1, "one", 1), (True, 3, "three", 2)]
    live = [(False, 2, "two", 1), (False, 3, "THREE", 2), (False, 5, "five", 2)]
    assert both(acid, session) == [*live, *deleted]
    acid.sql("ALTER TABLE changed PARTITION (p=2) COMPACT 'major' AND WAIT")
    assert both(acid, session) == [*live, deleted[0]]
    state = "SELECT ROW__IS__DELETED, a FROM changed"
    assert sorted(map(tuple, acid.sql(state).collect())) == sorted(map(tuple, session.sql(state)))
