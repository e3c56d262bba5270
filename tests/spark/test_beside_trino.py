"""What this project writes suits Trino's writer: one bucket property a bucket, one bucket an unbucketed table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.format.acid_columns import decode_bucket_property
from hiveacid.core.format.names import DeltaName, parse_directory
from hiveacid.errors import MergeCardinalityError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

HIVE3 = "'transactional'='true', 'hiveacid.layout.level'='hive3'"
MERGE = (
    "MERGE INTO t USING (SELECT * FROM VALUES (1, 'd', 0), (2, 'u', 7), (3, 'u', 8), (90, 'u', 9), (91, 'u', 9) "
    "AS s(id, op, n)) AS s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)"
)


def make(acid: AcidSession, buckets: int | None = 4) -> None:
    clustered = f"CLUSTERED BY (id) INTO {buckets} BUCKETS " if buckets else ""
    acid.sql(f"CREATE TABLE t (id INT, n INT) {clustered}STORED AS ORC TBLPROPERTIES ({HIVE3})")
    acid.sql("INSERT INTO t SELECT id, 0 FROM range(12)")


def rows(acid: AcidSession) -> dict[int, int]:
    found = acid.sql("SELECT id, n FROM t").collect()
    assert len({row.id for row in found}) == len(found)
    return {row.id: row.n for row in found}


def writers(properties: set[int], buckets: int) -> dict[int, set[int]]:
    """Return the writers that Trino 476 gives the rows of each bucket: the bucket property modulo the count."""
    found: dict[int, set[int]] = {}
    for value in properties:
        found.setdefault(decode_bucket_property(value).bucket, set()).add(value % buckets)
    return found


def properties(acid: AcidSession) -> set[int]:
    return {row.b for row in acid.sql("SELECT DISTINCT ROW__ID.bucketid AS b FROM t").collect()}


def directories(acid: AcidSession, write_id: int) -> list[str]:
    home = Path(acid.table("t").definition.location)
    names = [(entry.name, parse_directory(entry.name)) for entry in home.iterdir() if entry.is_dir()]
    return sorted(
        text for text, name in names if isinstance(name, DeltaName) and name.max_write_id == write_id
    )


def test_two_statement_ids_give_a_bucket_two_writers() -> None:
    two = {1 << 29 | 3 << 16, 1 << 29 | 3 << 16 | 1}
    assert writers(two, 4) == {3: {0, 1}}
    assert writers({1 << 29 | bucket << 16 for bucket in range(5)}, 5) == {
        bucket: {((1 << 29) + (bucket << 16)) % 5} for bucket in range(5)
    }


@pytest.mark.exhaustive("another case of the same test stays", cases=("3]", "4]"))
@pytest.mark.parametrize("buckets", [4, 3, None])
def test_update_and_merge_at_level_hive3_write_rows_as_statement_zero(
    acid: AcidSession, buckets: int | None
) -> None:
    make(acid, buckets)
    assert acid.sql("UPDATE t SET n = n + 1 WHERE id > 4").collect()[0].num_updated_rows == 7
    assert directories(acid, 2) == ["delete_delta_0000002_0000002_0000", "delta_0000002_0000002_0000"]
    told = acid.sql(MERGE).collect()[0]
    assert (told.num_inserted_rows, told.num_updated_rows, told.num_deleted_rows) == (2, 2, 1)
    assert directories(acid, 3) == [
        "delete_delta_0000003_0000003_0000",
        "delete_delta_0000003_0000003_0001",
        "delta_0000003_0000003_0000",
    ]
    acid.sql("DELETE FROM t WHERE id IN (5, 90)")
    kept = {0: 0, 2: 7, 3: 8, 4: 0, 91: 9} | dict.fromkeys(range(6, 12), 1)
    assert rows(acid) == kept
    found = properties(acid)
    assert {decode_bucket_property(value).statement_id for value in found} == {0}
    if buckets:
        assert all(len(those) == 1 for those in writers(found, buckets).values())
    assert not acid.table("t").inspect.check()
    for kind in ("minor", "major"):
        acid.sql(f"ALTER TABLE t COMPACT '{kind}' AND WAIT")
        assert rows(acid) == kept


@pytest.mark.exhaustive("statements of one transaction at this level stay")
def test_two_clauses_on_one_row_are_found_at_level_hive3(acid: AcidSession) -> None:
    make(acid)
    doubled = MERGE.replace("(2, 'u', 7)", "(1, 'u', 7)")
    with pytest.raises(MergeCardinalityError):
        acid.sql(doubled)
    assert rows(acid) == dict.fromkeys(range(12), 0)


def test_statements_of_one_transaction_hit_their_own_rows_at_level_hive3(acid: AcidSession) -> None:
    make(acid)
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (50, 0), (51, 0), (52, 0), (53, 0)")
        txn.sql("UPDATE t SET n = 1 WHERE id >= 50")
        txn.sql("UPDATE t SET n = n + 1 WHERE id >= 51")
        txn.sql("DELETE FROM t WHERE id = 52")
        txn.sql(MERGE)
        txn.sql("UPDATE t SET n = n + 10 WHERE id IN (53, 2, 90)")
    kept = dict.fromkeys(range(12), 0) | {2: 17, 3: 8, 50: 1, 51: 2, 53: 12, 90: 19, 91: 9}
    del kept[1]
    assert rows(acid) == kept
    acid.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    assert rows(acid) == kept


def bucket_files(acid: AcidSession) -> set[str]:
    """Return the names of the data files of new rows and of originals."""
    home = Path(acid.table("t").definition.location)
    return {path.name for path in home.rglob("*") if path.name.startswith(("bucket_", "0"))}


@pytest.mark.exhaustive("sizes only; Trino's rules for statements stay")
@pytest.mark.parametrize("partitioned", [False, True])
def test_an_unbucketed_table_can_be_kept_in_one_bucket(acid: AcidSession, *, partitioned: bool) -> None:
    place = "PARTITIONED BY (p INT) " if partitioned else ""
    value = ", id % 2 AS p" if partitioned else ""
    acid.sql(
        f"CREATE TABLE t (id INT, n INT) {place}STORED AS ORC "
        f"TBLPROPERTIES ({HIVE3}, 'hiveacid.write.single.bucket'='true')"
    )
    source = "range(0, 60, 1, 6)"
    acid.sql(f"INSERT INTO t SELECT id, 0{value} FROM {source}")
    acid.sql(f"INSERT INTO t SELECT id + 60, 0{value} FROM {source}")
    acid.sql(f"UPDATE t SET n = 1 WHERE id % 3 = 0 AND id IN (SELECT id FROM {source})")
    inserted = "s.id, 2, 0" if partitioned else "s.id, 2"
    acid.sql(
        "MERGE INTO t USING (SELECT id + 50 AS id FROM range(0, 80, 1, 4)) s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET n = 2 WHEN NOT MATCHED THEN INSERT VALUES ({inserted})"
    )
    assert rows(acid) == {id_: 2 if id_ >= 50 else int(id_ % 3 == 0 and id_ < 60) for id_ in range(130)}
    assert bucket_files(acid) == {"bucket_00000"}


@pytest.mark.exhaustive("LOAD DATA into full ACID stays")
def test_files_are_loaded_into_one_bucket_if_a_setting_says_so(
    spark: SparkSession, acid: AcidSession, tmp_path: Path
) -> None:
    acid.sql(f"CREATE TABLE t (id INT, n INT) STORED AS ORC TBLPROPERTIES ({HIVE3})")
    acid.sql("SET hiveacid.write.single.bucket=true")
    source = tmp_path / "files"
    spark.range(0, 8, 1, 3).selectExpr("CAST(id AS INT) AS id", "0 AS n").write.orc(str(source))
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}' INTO TABLE t")
    assert rows(acid) == dict.fromkeys(range(8), 0)
    assert bucket_files(acid) == {"bucket_00000"}
