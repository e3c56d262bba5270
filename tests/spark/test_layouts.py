"""What stands beside the usual layout: files of insert-only tables, partitions in odd places and of odd types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.snapshot.check_findings import Severity
from hiveacid.errors import BadFileError
from support.corpus.acid_files import orc_bytes, put
from support.corpus.sort_merge_reader import read_location

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TEXT = (
    "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' NULL DEFINED AS '-' STORED AS TEXTFILE"
)
PLACES = (
    "000000_0",
    "000000_0_copy_1",
    "HIVE_UNION_SUBDIR_1/000000_0",
    "delta_0000001_0000001_0000/000000_0",
    "delta_0000002_0000002_0000/000000_0",  # aborted
    "delta_0000003_0000003_0000/HIVE_UNION_SUBDIR_1/000000_0",
    "delta_0000003_0000003_0000/HIVE_UNION_SUBDIR_2/000000_0",
)


def rows(table: AcidTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in table.to_df().collect()), key=repr)


def damage(table: AcidTable) -> list[object]:
    return [one for one in table.inspect.check() if one.severity is Severity.DAMAGE]


@pytest.mark.exhaustive("another case of the same test stays", cases=("orc", "text"))
@pytest.mark.parametrize(
    "storage", ["STORED AS ORC", "STORED AS PARQUET", TEXT], ids=["orc", "parquet", "text"]
)
def test_insert_only_tables_with_files_of_every_kind(acid: AcidSession, tmp_path: Path, storage: str) -> None:
    values = ["x,y", "back\\slash", "-", "", None, "ü", "z"]
    acid.sql(f"CREATE TABLE source (a INT, b STRING) PARTITIONED BY (n INT) {storage}")
    literals = ", ".join(
        f"({n}, {'NULL' if value is None else repr(value)}, {n})" for n, value in enumerate(values)
    )
    acid.sql(f"INSERT INTO source VALUES {literals}")
    kept = dict(map(tuple, acid.sql("SELECT a, b FROM source").collect()))
    home = Path(acid.table("source").definition.location)
    files = {place: next((home / f"n={n}").glob("0*")).read_bytes() for n, place in enumerate(PLACES)}
    root = put(tmp_path / "t", files)
    insert_only = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    acid.adopt(
        f"CREATE TABLE t (a INT, b STRING) {storage} {insert_only}",
        str(root),
        "default.t:3:9223372036854775807::2",
    )
    table = acid.table("t")
    expected = sorted(((n, kept[n]) for n in range(len(PLACES)) if n != 4), key=repr)
    assert rows(table) == expected
    assert damage(table) == []
    table.compact("minor")
    assert rows(table) == expected
    acid.sql("INSERT INTO t SELECT a + 10, b FROM t WHERE a < 2")
    expected = sorted([*expected, (10, kept[0]), (11, kept[1])], key=repr)
    table.compact("major")
    assert rows(table) == expected
    acid.sql("INSERT OVERWRITE TABLE t SELECT a, b FROM t WHERE a > 5")
    assert rows(table) == [row for row in expected if row[0] in (6, 10, 11)]
    assert damage(table) == []


@pytest.mark.exhaustive("spark/test_odd_names.py has odd values of partitions")
def test_partitions_of_odd_types_and_places(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(
        "CREATE TABLE odd (a INT) PARTITIONED BY (d DATE, t TIMESTAMP, n DECIMAL(6,2), c CHAR(3)) " + ACID
    )
    table = acid.table("odd")
    first = "d = DATE '2024-02-29', t = TIMESTAMP '2024-01-01 10:20:30.5', n = 1.50, c = 'a:b'"
    second = "d = DATE '0001-01-01', t = TIMESTAMP '1969-12-31 23:59:59', n = -0.05, c = 'x'"
    elsewhere = tmp_path / "else where%41"
    acid.sql(f"ALTER TABLE odd ADD PARTITION ({second}) LOCATION '{elsewhere}'")
    acid.sql(f"ALTER TABLE odd ADD PARTITION ({first.replace('1.50', '7')})")  # no data
    acid.sql(
        """INSERT INTO odd VALUES
           (1, DATE '2024-02-29', TIMESTAMP '2024-01-01 10:20:30.5', 1.50, 'a:b'), (2, NULL, NULL, NULL, NULL),
           (3, DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59', -0.05, 'x'), (4, NULL, NULL, 3, 'e')"""
    )
    acid.sql(f"INSERT INTO odd PARTITION ({second}) VALUES (5)")
    assert len(list(elsewhere.glob("delta_*/bucket_*"))) == 2
    assert acid.sql("SHOW PARTITIONS odd").count() == 5
    acid.sql("UPDATE odd SET a = a * 10 WHERE n < 2 OR n IS NULL")
    acid.sql("DELETE FROM odd WHERE a = 50")

    def seen() -> list[tuple[object, ...]]:
        found = acid.sql("SELECT a, CAST(d AS STRING), CAST(t AS STRING), n, c FROM odd ORDER BY a").collect()
        return [tuple(row) for row in found]

    expected = [
        (4, None, None, Decimal("3.00"), "e  "),
        (10, "2024-02-29", "2024-01-01 10:20:30.5", Decimal("1.50"), "a:b"),
        (20, None, None, None, None),
        (30, "0001-01-01", "1969-12-31 23:59:59", Decimal("-0.05"), "x  "),
    ]
    assert seen() == expected
    for kind in ("minor", "major"):
        for clause in (first, second):
            acid.sql(f"ALTER TABLE odd PARTITION ({clause}) COMPACT '{kind}'")
        assert seen() == expected
        assert [row[3] for row in read_location(elsewhere, write_ids(acid, table))] == [(30,)]
    acid.sql("UPDATE odd SET a = a + 1 WHERE c = 'x'")
    expected[3] = (31, *expected[3][1:])
    assert [row[0] for row in table.scan(where="d = DATE '0001-01-01' AND c = 'x'").to_df().collect()] == [31]
    assert damage(table) == []
    # dropped and made again on the same path: nothing of before comes back
    place = next(
        path
        for path in Path(table.definition.location).rglob("c=a%3Ab")
        if (path / "x").parent.glob("base_*")
    )
    acid.sql(f"ALTER TABLE odd DROP PARTITION ({first})")
    assert seen() == [row for row in expected if row[0] != 10]
    acid.sql(f"ALTER TABLE odd ADD PARTITION ({first})")
    assert seen() == [row for row in expected if row[0] != 10]
    acid.sql(f"INSERT INTO odd PARTITION ({first}) VALUES (10)")
    assert seen() == expected
    assert place.exists()
    assert damage(table) == []


def write_ids(acid: AcidSession, table: AcidTable) -> str:
    store = acid.context.store
    return store.valid_write_ids(store.valid_txns(), [table.name])[table.name].to_string()


def test_an_original_file_of_a_bucket_that_no_row_id_can_name_is_refused(
    acid: AcidSession, tmp_path: Path
) -> None:
    good = orc_bytes([(1,)], "struct<a:int>")
    root = put(tmp_path / "t", {"004095_0": good, "004096_0": good})
    acid.adopt(f"CREATE TABLE t (a INT) {ACID}", str(root))
    with pytest.raises(BadFileError, match="4095 at most") as caught:
        acid.table("t").to_df()
    assert caught.value.path == f"{root}/004096_0"
    (root / "004096_0").unlink()
    assert rows(acid.table("t")) == [(1,)]
    assert acid.sql("SELECT ROW__ID.bucketid FROM t").first()[0] == 1 << 29 | 4095 << 16


@pytest.mark.exhaustive("another case of the same test stays", cases=("insert_only",))
@pytest.mark.parametrize("kind", ["default", "insert_only"])
def test_compaction_leaves_a_clock_time_that_the_session_skips(acid: AcidSession, kind: str) -> None:
    spark = acid.context.env.spark
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        properties = f"TBLPROPERTIES ('transactional'='true', 'transactional_properties'='{kind}')"
        acid.sql(f"CREATE TABLE t (a INT, at TIMESTAMP) STORED AS ORC {properties}")
        acid.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-03-10 02:30:00'), (2, NULL)")
        acid.sql("INSERT INTO t VALUES (3, TIMESTAMP '2024-03-10 12:00:00.123456')")
        query = "SELECT a, CAST(at AS STRING) FROM t ORDER BY a"
        before = acid.sql(query).collect()
        for step in ("minor", "major"):
            spark.conf.set("spark.sql.session.timeZone", "America/New_York")
            acid.table("t").compact(step)
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            assert acid.sql(query).collect() == before
            acid.sql("INSERT INTO t VALUES (3, NULL)" if step == "minor" else "SELECT 1")
            before = acid.sql(query).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
