"""Rows with their deletion state: ``t('acid.fetch.deleted.rows'='true')`` and ``t.scan(deleted_rows=True)``."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hiveacid.config import setting_definitions
from hiveacid.errors import InsertOnlyError, NotTransactionalError, UnsupportedFeatureError

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
DELETED = "t('acid.fetch.deleted.rows'='true')"


def test_deleted_rows_have_the_write_id_of_their_deletion(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 1), (3, 'three', 2), (4, 'four', NULL)")
    acid.sql("DELETE FROM t WHERE id = 1")
    acid.sql("UPDATE t SET v = 'THREE' WHERE id = 3")
    query = f"SELECT ROW__IS__DELETED, ROW__ID.writeid, ROW__ID.rowid, * FROM {DELETED} ORDER BY id, v"
    rows = [tuple(row) for row in acid.sql(query).collect()]
    assert rows == [
        (True, 2, 0, 1, "one", 1),
        (False, 1, 1, 2, "two", 1),
        (False, 3, 0, 3, "THREE", 2),
        (True, 3, 0, 3, "three", 2),
        (False, 1, 0, 4, "four", None),
    ]
    table = acid.table("t")
    found = table.scan("id <= 3 AND p = 2", ["v"], row_ids=True, deleted_rows=True).to_df()
    assert found.columns == ["ROW__ID", "v", "ROW__IS__DELETED"]
    assert sorted(row[1:] for row in map(tuple, found.collect())) == [("THREE", False), ("three", True)]
    assert table.scan("ROW__IS__DELETED", deleted_rows=True).to_df().count() == 2
    past = table.as_of(2).scan(deleted_rows=True).to_df()
    assert sorted((row.id, row.ROW__IS__DELETED) for row in past.collect()) == [
        (1, True),
        (2, False),
        (3, False),
        (4, False),
    ]
    # the present rows are those that are not deleted, by any name
    for name in (
        f"{DELETED} x WHERE NOT x.ROW__IS__DELETED",
        f"default.{DELETED} WHERE NOT t.ROW__IS__DELETED",
    ):
        assert acid.sql(f"SELECT * FROM {name}").exceptAll(table.to_df()).isEmpty()
    state = "SELECT ROW__IS__DELETED, id FROM {} ORDER BY id"
    present = [(False, 2), (False, 3), (False, 4)]
    for name in ("t('acid.fetch.deleted.rows'='false')", "t"):
        assert [tuple(row) for row in acid.sql(state.format(name)).collect()] == present
    joined = (
        f"SELECT x.id FROM {DELETED} x JOIN {DELETED} y ON x.ROW__ID = y.ROW__ID WHERE y.ROW__IS__DELETED"
    )
    assert sorted(row.id for row in acid.sql(joined).collect()) == [1, 3]
    # a major compaction leaves them out
    acid.sql("ALTER TABLE t PARTITION (p=2) COMPACT 'major' AND WAIT")
    assert sorted((row.id, row.d) for row in acid.sql(f"SELECT id, ROW__IS__DELETED AS d FROM {DELETED}").collect()) == [
        (1, True),
        (2, False),
        (3, False),
        (4, False),
    ]  # fmt: skip


def test_of_rows_inserted_and_deleted_in_one_transaction_and_of_aborted_ones(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1), (2)")
    for end in ("COMMIT", "ROLLBACK"):
        acid.sql("START TRANSACTION")
        acid.sql("INSERT INTO t VALUES (3)")
        acid.sql("DELETE FROM t WHERE id IN (1, 3)")
        query = f"SELECT id, ROW__IS__DELETED FROM {DELETED} ORDER BY id, 2"
        inside = [tuple(row) for row in acid.sql(query).collect()]
        again = [(3, True)] if end == "ROLLBACK" else []
        assert inside == [(1, True), (2, False), (3, True), *again]
        acid.sql(end)
    assert [tuple(row) for row in acid.sql(query).collect()] == [(1, True), (2, False), (3, True)]


@pytest.mark.parametrize("in_memory", [True, False])
def test_random_changes_against_a_model(acid: AcidSession, in_memory: bool) -> None:  # noqa: FBT001
    """All that was ever inserted is there once, with the write id that inserted or deleted it."""
    if not in_memory:
        acid.sql(f"SET {setting_definitions.EVENTS_IN_MEMORY.name}=1")
    draw = random.Random(11)
    acid.sql(f"CREATE TABLE t (id INT, v INT) PARTITIONED BY (p INT) {ACID}")
    model: dict[tuple[int, int], tuple[bool, int]] = {}
    for write_id in range(1, 9):
        live = [row for row, (deleted, _) in model.items() if not deleted]
        gone = draw.sample(live, len(live) // 3)
        new = [(write_id * 10 + number, write_id) for number in range(4)]
        if write_id % 2 or not gone:
            acid.sql(f"INSERT INTO t VALUES {', '.join(f'({i}, {v}, {i % 3})' for i, v in new)}")
            model |= dict.fromkeys(new, (False, write_id))
        else:
            ids = ", ".join(str(row[0]) for row in gone)
            if write_id % 4:
                acid.sql(f"DELETE FROM t WHERE id IN ({ids})")
            else:
                acid.sql(f"UPDATE t SET v = -{write_id} WHERE id IN ({ids})")
                model |= {(row[0], -write_id): (False, write_id) for row in gone}
            model |= dict.fromkeys(gone, (True, write_id))
        if write_id == 6:
            acid.sql("ALTER TABLE t PARTITION (p=1) COMPACT 'minor' AND WAIT")
    rows = acid.sql(f"SELECT id, v, ROW__IS__DELETED AS d, ROW__ID.writeid AS w FROM {DELETED}").collect()
    assert len(rows) == len(model)
    assert {(row.id, row.v): (row.d, row.w) for row in rows} == model


def test_by_spark_sql_in_views_and_as_a_source(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1), (2)")
    native.sql("DELETE FROM t WHERE id = 1")
    native.sql(f"CREATE VIEW gone AS SELECT id FROM {DELETED} WHERE ROW__IS__DELETED")
    assert [row.id for row in native.sql("SELECT * FROM gone").collect()] == [1]
    native.sql(f"CREATE TABLE kept {ACID} AS SELECT id, ROW__IS__DELETED AS gone FROM {DELETED}")
    assert sorted(map(tuple, native.sql("SELECT * FROM kept").collect())) == [(1, True), (2, False)]
    native.sql(
        f"MERGE INTO t USING {DELETED} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id + 10)"
    )
    assert sorted(row.id for row in native.table("t").collect()) == [2, 11]


def test_tables_without_deleted_rows_and_other_properties_are_refused(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE plain (id INT) STORED AS ORC")
    acid.sql(
        "CREATE TABLE log (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql(f"CREATE TABLE t (id INT, row__is__deleted INT) {ACID}")
    with pytest.raises(InsertOnlyError):
        acid.sql("SELECT * FROM log('acid.fetch.deleted.rows'='true')")
    with pytest.raises(NotTransactionalError):
        acid.sql("SELECT * FROM plain('acid.fetch.deleted.rows'='true')")
    for name in ("log", "plain"):
        acid.sql(f"INSERT INTO {name} VALUES (1)")
        assert [tuple(row) for row in acid.sql(f"SELECT ROW__IS__DELETED, * FROM {name}").collect()] == [
            (False, 1)
        ]
    acid.sql("INSERT INTO t VALUES (1, 7)")
    assert [tuple(row) for row in acid.sql("SELECT ROW__IS__DELETED, * FROM t").collect()] == [(7, 1, 7)]
    with pytest.raises(UnsupportedFeatureError, match="has a column ROW__IS__DELETED"):
        acid.sql(f"SELECT id FROM {DELETED}")
    with pytest.raises(UnsupportedFeatureError, match=r"only 'acid.fetch.deleted.rows' is known.*column 15"):
        acid.sql("SELECT * FROM t('insertonly.fetch.bucketid'='true')")
