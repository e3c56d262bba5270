"""Reading as of a write id or a moment, and who did what, while what it held is being joined with what came later."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import ConfigError, NotEnoughHistoryError, TransactionStateError

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

KINDS = {
    "full": "'transactional'='true'",
    "only": "'transactional'='true','transactional_properties'='insert_only'",
}


@pytest.mark.exhaustive("another case of the same test stays", cases=("only",))
@pytest.mark.parametrize("kind", KINDS)
def test_a_minor_compaction_does_not_change_the_past(acid: AcidSession, kind: str) -> None:
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({KINDS[kind]})")
    for number in (1, 2, 3, 4):
        acid.sql(f"INSERT INTO t VALUES ({number})")
    t = acid.table("t")

    def ids(write_id: int) -> list[int]:
        return sorted(row[0] for row in t.as_of(write_id=write_id).to_df().collect())

    held = t.to_df()
    t.compact("minor")
    assert [ids(write_id) for write_id in (1, 3, 4)] == [[1], [1, 2, 3], [1, 2, 3, 4]]
    assert held.count() == 4
    del held
    assert any(acid.clean() for _ in range(20))  # the JVM forgets the frames above in its own time
    assert ids(4) == [1, 2, 3, 4]
    if kind == "full":  # its rows tell their write ids
        assert ids(2) == [1, 2]
        return
    with pytest.raises(NotEnoughHistoryError, match="write id 4"):
        ids(2)


def test_an_adopted_table_does_not_tell_what_a_merged_delta_has_lost(acid: AcidSession) -> None:
    """The rows of an insert-only table have no write ids, and the sources may be gone for a long time."""
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({KINDS['only']})")
    for number in (1, 2, 3):
        acid.sql(f"INSERT INTO t VALUES ({number})")
    acid.table("t").compact("minor")
    location = Path(acid.table("t").definition.location)
    assert [path.name[:23] for path in location.iterdir()] == ["delta_0000001_0000003_v"]
    shutil.copytree(location, location.parent / "copy")
    ddl = f"CREATE TABLE copy (id INT) STORED AS ORC TBLPROPERTIES ({KINDS['only']})"
    adopted = acid.adopt(ddl, location=str(location.parent / "copy"))
    assert _ids(adopted) == _ids(adopted.as_of(write_id=3)) == [1, 2, 3]
    with pytest.raises(NotEnoughHistoryError):
        adopted.as_of(write_id=2).to_df()
    with pytest.raises(NotEnoughHistoryError):
        adopted.changes(after=2).to_df()


def test_times_are_instants_whatever_type_timestamp_means(acid: AcidSession) -> None:
    spark = acid.context.env.spark
    acid.sql("CREATE TABLE t (m TIMESTAMP WITH LOCAL TIME ZONE) STORED AS TEXTFILE")
    acid.sql("INSERT INTO t VALUES (TIMESTAMP '2024-03-10 02:30:00 UTC')")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    acid.sql(f"CREATE TABLE kept (id INT) STORED AS ORC TBLPROPERTIES ({KINDS['full']})")
    expected = acid.sql("SELECT unix_millis(m) FROM t").first()
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert acid.sql("SELECT unix_millis(m) FROM t").first() == expected == (1_710_037_800_000,)
        assert acid.table("kept").as_of(timestamp="2999-01-01").to_df().count() == 0
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.unset("spark.sql.session.timeZone")


def _times(t: AcidTable) -> dict[int, datetime]:
    rows = t.inspect.history().where("write_id IS NOT NULL").collect()
    return {row.write_id: row.committed_at.astimezone(UTC) for row in rows}


def _ids(t: AcidTable) -> list[int]:
    return sorted(row[0] for row in t.to_df().collect())


@pytest.mark.exhaustive("the script past.test stays")
@pytest.mark.parametrize("kind", KINDS)
def test_a_moment_is_made_of_the_commits_up_to_it(acid: AcidSession, kind: str) -> None:
    """Write ids are not committed in their order: a moment is a list of them, over compactions and cleaning, too."""
    kept = f"{KINDS[kind]}, 'hiveacid.history.retention'='1d'"
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({kept})")
    t = acid.table("t")
    acid.sql("INSERT INTO t VALUES (1)")
    with acid.transaction() as late:
        late.sql("INSERT INTO t VALUES (2)")
        acid.sql("INSERT INTO t VALUES (3)")
        assert _ids(late.table("t").as_of(timestamp=datetime.now(UTC))) == [
            1
        ]  # neither its own nor a later one
    with suppress(ZeroDivisionError), acid.transaction() as lost:
        lost.sql("INSERT INTO t VALUES (4)")
        _ = 1 / 0
    acid.sql("INSERT INTO t VALUES (5)")
    times = _times(t)
    assert list(times) == [5, 2, 3, 1, 0]
    model = {0: [], 1: [1], 3: [1, 3], 2: [1, 2, 3], 5: [1, 2, 3, 5]}

    def past() -> dict[int, list[int]]:
        return {of: _ids(t.as_of(timestamp=at)) for of, at in times.items()}

    assert past() == model
    moment = times[2] - timedelta(milliseconds=1)
    assert _ids(t.as_of(timestamp=moment)) == [1, 3]
    assert _ids(t.as_of(timestamp=moment.astimezone().replace(tzinfo=None).isoformat())) in ([1, 3], _ids(t))
    assert _ids(t.as_of(timestamp=str(times[2]))) == [1, 2, 3]
    assert _ids(t.as_of(timestamp="9999-01-01")) == [1, 2, 3, 5]
    changed = t.changes(after=times[1], until=str(times[3])).to_df().collect()
    assert [(row.id, row._write_id) for row in changed] == [(3, 3)]
    assert sorted(row.id for row in t.changes(after=times[3]).to_df().collect()) == [2, 5]
    assert t.as_of(timestamp=times[3]).changes(after=times[1]).to_df().count() == 1
    readable = {row.write_id: row.readable for row in t.inspect.snapshots().collect()}
    assert set(readable.values()) == {True}
    t.compact("minor")
    assert past() == model
    acid.sql("DELETE FROM t WHERE id = 1" if kind == "full" else "INSERT INTO t VALUES (6)")
    t.compact("major")
    assert past() == model
    acid.clean()
    assert past() == model
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='0s')")
    assert any(acid.clean() for _ in range(20))  # the JVM forgets the frames above in its own time
    last = _times(t)[6]
    assert _ids(t.as_of(timestamp=last)) == _ids(t.as_of(write_id=6)) == _ids(t)
    for of in (0, 1, 2, 3, 5):
        with pytest.raises(NotEnoughHistoryError, match=f"is write id 6, of {last:%Y-%m-%d %H}") as caught:
            _ids(t.as_of(timestamp=times[of]))
        assert (caught.value.earliest, caught.value.since) == (6, last)
    with pytest.raises(NotEnoughHistoryError, match="is write id 6, of 2"):
        _ids(t.as_of(write_id=3))
    assert [row.readable for row in t.inspect.snapshots().collect()] == [True] + [False] * 5
    assert t.inspect.history().where("operation LIKE 'COMPACT%' AND files > 0").count() == 2


def test_a_table_has_no_past_before_itself(acid: AcidSession) -> None:
    """Dropped and made anew it begins anew; what is no moment is refused."""
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({KINDS['full']})")
    acid.sql("INSERT INTO t VALUES (1)")
    before = _times(acid.table("t"))
    acid.sql("DROP TABLE t")
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({KINDS['full']})")
    t = acid.table("t")
    born = _times(t)[0]
    assert (_ids(t), _ids(t.as_of(timestamp=born))) == ([], [])
    for at in (before[1], born - timedelta(milliseconds=1), "1969-12-31"):
        with pytest.raises(NotEnoughHistoryError, match="its time begins later") as caught:
            _ids(t.as_of(timestamp=at))
        assert (caught.value.earliest, caught.value.since) == (0, born)
    acid.sql("ALTER TABLE t RENAME TO moved")
    assert _times(acid.table("moved"))[0] == born
    for wrong in ("soon", "2026-13-01", "it's", ""):
        with pytest.raises(ConfigError, match="not a timestamp"):
            t.as_of(timestamp=wrong)
    with pytest.raises(ConfigError, match="write_id, a timestamp or a tag"):
        t.as_of()
    with pytest.raises(ConfigError, match="write_id, a timestamp or a tag"):
        t.as_of(1, timestamp=born)
    with pytest.raises(TransactionStateError, match="only reads"):
        acid.table("moved").as_of(timestamp=born).delete()


def test_history_tells_who_did_what(acid: AcidSession) -> None:
    """Every verb with its numbers; two statements of a transaction are one commit."""
    acid.sql(f"CREATE TABLE t (id INT, v STRING) STORED AS ORC TBLPROPERTIES ({KINDS['full']})")
    acid.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    acid.table("t").update({"v": "'x'"}, "id = 1")
    acid.sql("DELETE FROM t WHERE id = ?", [2])
    acid.sql(
        "MERGE INTO t USING (SELECT 3 AS id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new')"
    )
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (7, 'g')")
        txn.sql("UPDATE t SET v = 'h' WHERE id = 9")
    acid.sql("INSERT OVERWRITE TABLE t SELECT 1, 'only'")
    acid.sql("TRUNCATE TABLE t")
    acid.sql("CREATE TABLE made STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 1 AS id")
    columns = ("write_id", "operation", "inserted", "updated", "deleted")
    found = acid.table("t").inspect.history()
    assert [tuple(row) for row in found.select(*columns).collect()] == [
        (7, "TRUNCATE", 0, 0, 0),
        (6, "INSERT OVERWRITE", 1, 0, 0),
        (5, "INSERT, UPDATE", 1, 1, 0),
        (4, "MERGE", 1, 0, 1),
        (3, "DELETE", 0, 0, 1),
        (2, "UPDATE", 0, 1, 0),
        (1, "INSERT", 3, 0, 0),
        (0, "CREATE TABLE", None, None, None),
    ]
    said = {row.write_id: row for row in found.collect()}
    assert said[3].statement == "DELETE FROM t WHERE id = ?"
    assert said[2].statement is None
    assert said[5].statement.count(";\n") == 1
    assert min(said[number].bytes for number in (1, 2, 3, 4, 5, 6)) > 0
    assert (said[1].files, said[5].files) == (1, 3)
    assert {row.user for row in said.values()} == {acid.context.transactions.client.user, None}
    (born,) = acid.table("made").inspect.history().where("write_id = 1").collect()
    assert (born.operation, born.inserted) == ("CREATE TABLE AS SELECT", 1)
