"""ALTER TABLE PARTITION RENAME: the same rows with the same row ids under another value, whatever ends it half-way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid import errors as e
from hiveacid.core.model import Partition, TableName
from support.recorded_files import require_recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
KINDS = {
    "full ACID": ACID,
    "bucketed": f"CLUSTERED BY (id) INTO 3 BUCKETS {ACID}",
    "layout level hive3": ACID.replace("TBLPROPERTIES (", "TBLPROPERTIES ('hiveacid.layout.level'='hive3', "),
    "insert-only": f"STORED AS ORC {ONLY}",
    "insert-only text": f"STORED AS TEXTFILE {ONLY}",
}
HOSTILE = ["NULL", "'__HIVE_DEFAULT_PARTITION__'", "'a/b=c%2F'", "'it''s; -- {x} \u00e9'", "''"]


def rows_of(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in acid.sql("SELECT id, v, at, q, p FROM t").collect()), key=str)


def ids_of(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted((row.id, *row["ROW__ID"]) for row in acid.sql("SELECT ROW__ID, id FROM t").collect())


def create(acid: AcidSession, kind: str = ACID) -> None:
    acid.sql(f"CREATE TABLE t (id INT, v STRING, at TIMESTAMP) PARTITIONED BY (q INT, p STRING) {kind}")


def fill(acid: AcidSession) -> None:
    acid.sql("INSERT INTO t SELECT id, 'i', timestamp '2026-03-29 01:30:00', 1, 'a' FROM range(20)")
    acid.sql("INSERT INTO t VALUES (100, NULL, NULL, 1, 'b')")
    acid.sql("INSERT INTO t VALUES (101, 'late', NULL, 1, 'a')")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_get_another_partition_and_keep_their_ids(acid: AcidSession, kind: str) -> None:
    create(acid, KINDS[kind])
    fill(acid)
    full = "insert-only" not in kind
    if full:
        acid.sql("UPDATE t SET v = 'u' WHERE id < 5")
        acid.table("t").compact("minor", partition={"q": 1, "p": "a"}, wait=True)
        acid.sql("DELETE FROM t WHERE id IN (3, 7)")
    before, ids = rows_of(acid), ids_of(acid) if full else []
    acid.sql("ALTER TABLE t PARTITION (q = 1, p = 'a') RENAME TO PARTITION (p = 'z', q = '07')")
    moved = [(*row[:3], 7, "z") if row[4] == "a" else row for row in before]
    assert rows_of(acid) == sorted(moved, key=str)
    assert (ids_of(acid) if full else []) == ids
    assert [row[0] for row in acid.sql("SHOW PARTITIONS t").collect()] == ["q=1/p=b", "q=7/p=z"]
    assert acid.table("t").inspect.check() == ()
    if kind != "layout level hive3":
        require_recorded(acid, acid.table("t"))
    history = acid.sql("DESCRIBE HISTORY t").collect()
    assert "RENAME PARTITION" in {row.operation for row in history}

    # both values go on as any partition
    acid.sql("INSERT INTO t VALUES (200, 'new', NULL, 1, 'a'), (201, 'more', NULL, 7, 'z')")
    if full:
        acid.sql("DELETE FROM t WHERE q = 7 AND id = 101")
        acid.sql("UPDATE t SET v = 'again' WHERE id = 9")
    acid.table("t").compact("major", partition={"q": 7, "p": "z"}, wait=True)
    acid.sql("ALTER TABLE t PARTITION (q = 1, p = 'a') RENAME TO PARTITION (q = 1, p = 'c')")
    acid.sql("ALTER TABLE t PARTITION (q = 7, p = 'z') RENAME TO PARTITION (q = 1, p = 'a')")
    wanted = [(*row[:3], 1, "a") if row[4] == "z" else row for row in moved]
    wanted += [(200, "new", None, 1, "c"), (201, "more", None, 1, "a")]
    if full:
        wanted = [(9, "again", *row[2:]) if row[0] == 9 else row for row in wanted if row[0] != 101]
    assert rows_of(acid) == sorted(wanted, key=str)
    assert acid.table("t").inspect.check() == ()


def test_values_of_any_text_become_partitions(acid: AcidSession) -> None:
    create(acid)
    fill(acid)
    last, count = "'a'", len(rows_of(acid))
    for text in HOSTILE:
        if text in ("''", "'__HIVE_DEFAULT_PARTITION__'"):  # the partition of NULL
            acid.sql(
                f"ALTER TABLE t PARTITION (q = 1, p = {last}) RENAME TO PARTITION (q = 1, p = 'between')"
            )
            last = "'between'"
        acid.sql(f"ALTER TABLE t PARTITION (q = 1, p = {last}) RENAME TO PARTITION (q = 1, p = {text})")
        found = acid.sql(
            f"SELECT count(*) FROM t WHERE p <=> nullif(nullif({text}, ''), '__HIVE_DEFAULT_PARTITION__')"
        )
        assert found.collect()[0][0] == 21, text
        last = text
    assert len(rows_of(acid)) == count
    acid.sql("ALTER TABLE t PARTITION (q = 1, p = NULL) RENAME TO PARTITION (q = NULL, p = 'end')")
    assert acid.sql("SELECT count(*) FROM t WHERE q IS NULL AND p = 'end'").collect()[0][0] == 21
    assert acid.table("t").inspect.check() == ()


def test_what_cannot_be_renamed_is_refused_and_stays(acid: AcidSession) -> None:
    create(acid)
    fill(acid)
    acid.sql("CREATE TABLE plain (id INT) PARTITIONED BY (p INT) STORED AS ORC")
    acid.sql("INSERT INTO plain VALUES (1, 1)")
    acid.sql(f"CREATE TABLE flat (id INT) {ACID}")
    outside = f"{acid.context.warehouse}/elsewhere"
    acid.sql(f"ALTER TABLE t ADD PARTITION (q = 5, p = 'out') LOCATION '{outside}'")
    before = rows_of(acid)
    full = "PARTITION (q = 1, p = 'a')"
    refused: dict[str, tuple[type[Exception], str]] = {
        f"ALTER TABLE t {full} RENAME TO PARTITION (q = 1, p = 'b')": (e.AlreadyExistsError, "exists already"),
        f"ALTER TABLE t {full} RENAME TO {full}": (e.AlreadyExistsError, "exists already"),
        f"ALTER TABLE t {full} RENAME TO PARTITION (q = 2)": (e.SchemaMismatchError, "lacks p"),
        "ALTER TABLE t PARTITION (q = 1) RENAME TO PARTITION (q = 2, p = 'a')": (e.SchemaMismatchError, "lacks p"),
        f"ALTER TABLE t {full} RENAME TO PARTITION (q = 'x', p = 'a')": (e.HiveAcidError, "x"),
        f"ALTER TABLE t {full} RENAME TO PARTITION (q = 1, nope = 'a')": (e.NoSuchColumnError, "nope"),
        f"ALTER TABLE t {full} RENAME TO PARTITION (q = 1, q = 2, p = 'a')": (e.ParseError, "twice"),
        "ALTER TABLE t PARTITION (q = 9, p = 'a') RENAME TO PARTITION (q = 2, p = 'a')": (e.NoSuchPartitionError, "SHOW PARTITIONS"),
        "ALTER TABLE t PARTITION (q = 5, p = 'out') RENAME TO PARTITION (q = 2, p = 'a')": (e.UnsupportedFeatureError, "outside the table.*INSERT them"),
        "ALTER TABLE plain PARTITION (p = 1) RENAME TO PARTITION (p = 2)": (e.UnsupportedFeatureError, "not transactional.*INSERT them"),
        "ALTER TABLE flat PARTITION (p = 1) RENAME TO PARTITION (p = 2)": (e.SchemaMismatchError, "not partitioned"),
    }  # fmt: skip
    for text, (error, words) in refused.items():
        with pytest.raises(error, match=words):
            acid.sql(text)
    with acid.transaction() as txn, pytest.raises(e.TransactionStateError, match="RENAME PARTITION"):
        txn.sql(f"ALTER TABLE t {full} RENAME TO PARTITION (q = 2, p = 'a')")
    assert rows_of(acid) == before
    assert acid.sql("SELECT id, p FROM plain").collect() == [(1, 1)]
    # an empty partition
    acid.sql("ALTER TABLE t ADD PARTITION (q = 6, p = 'none')")
    acid.sql("ALTER TABLE t PARTITION (q = 6, p = 'none') RENAME TO PARTITION (q = 6, p = 'nothing')")
    assert rows_of(acid) == before
    assert [row[0] for row in acid.sql("SHOW PARTITIONS t PARTITION (q = 6)").collect()] == ["q=6/p=nothing"]


RENAME = "ALTER TABLE t PARTITION (q = 1, p = 'a') RENAME TO PARTITION (q = 2, p = 'z')"


def test_it_keeps_the_properties_of_the_partition(acid: AcidSession) -> None:
    create(acid)
    name, catalog = TableName("default", "t"), acid.context.catalog
    place = f"{acid.context.warehouse}/t/q=1/p=a"
    catalog.add_partitions(name, [Partition(("1", "a"), place, (("no_cleanup", "true"),))])
    fill(acid)
    acid.sql(RENAME)
    kept = {one.values: one.properties for one in catalog.list_partitions(name)}
    assert kept == {("2", "z"): (("no_cleanup", "true"),), ("1", "b"): ()}


class Killed(BaseException):
    """Ends a statement where a killed process would end."""


@pytest.mark.parametrize("place", ["commit", "commit recorded", "files"])
def test_a_statement_that_ends_half_way_neither_loses_nor_doubles_rows(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    create(acid)
    fill(acid)
    before, store = rows_of(acid), type(acid.context.store)
    commit: Callable[..., None] = store.commit_txn

    def die(self: object, txn_id: object, *arguments: object, **options: object) -> None:
        if arguments and getattr(arguments[0], "dropped", ()):
            if place == "commit recorded":
                commit(self, txn_id, *arguments, **options)
            raise Killed
        commit(self, txn_id, *arguments, **options)

    def stop(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if place == "files":
            patch.setattr("hiveacid.catalog.alter_table.remove_location", stop)
        else:
            patch.setattr(store, "commit_txn", die)
        with pytest.raises(Killed):
            acid.sql(RENAME)
    if place == "commit":
        assert rows_of(acid) == before
        acid.sql(RENAME)
    moved = sorted([(*row[:3], 2, "z") if row[4] == "a" else row for row in before], key=str)
    assert rows_of(acid) == moved
    assert acid.table("t").to_df().count() == len(before)
    # as after a DROP PARTITION: a new partition does not show what is left there
    acid.sql("INSERT INTO t VALUES (300, 'x', NULL, 1, 'a')")
    assert len(rows_of(acid)) == len(moved) + 1
    acid.clean()
    assert len(rows_of(acid)) == len(moved) + 1
    assert not [*acid.table("t").inspect.check()]


def test_readers_and_writers_beside_it_see_all_rows_or_an_error(acid: AcidSession) -> None:
    create(acid)
    fill(acid)
    t = acid.table("t")
    first = t.valid_write_ids()
    plan, old = t.to_df(), acid.sql("SELECT count(*) FROM t")
    assert (plan.count(), old.collect()) == (22, [(22,)])
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (400, 'open', NULL, 1, 'a')")
        other = type(acid)(acid.context)
        other.set("hive.lock.numretries", "1")
        with pytest.raises(e.LockTimeoutError):
            other.sql(RENAME)
    with acid.snapshot() as snapshot:
        assert snapshot.sql("SELECT count(*) FROM t").collect() == [(23,)]
        other.sql(RENAME)
        with pytest.raises(e.HiveAcidError):
            snapshot.sql("SELECT count(*) FROM t").collect()
    with pytest.raises(Exception, match=r"delta_|does not exist|NOT_EXIST|FileNotFound"):
        plan.collect()
    assert acid.sql("SELECT count(*) FROM t WHERE q = 2 AND p = 'z'").collect() == [(22,)]
    with pytest.raises(e.NotEnoughHistoryError):
        t.as_of(write_id=2).to_df()
    with pytest.raises(e.NotEnoughHistoryError):
        t.changes(after=first).to_df()
    now = t.valid_write_ids()
    acid.sql("DELETE FROM t WHERE id = 400")
    changed = t.changes(after=now).to_df().collect()
    assert [(row["_change_type"], row.id, row.p) for row in changed] == [("delete", 400, "z")]
