"""``INPUT__FILE__NAME`` is the path as it is on disk, whatever characters it has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.core.snapshot.check_findings import Severity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ("a b", "50%", "%41", "a+b", "zürich", "x?y#z")
KINDS = {
    "full": "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    "insert_only": "STORED AS PARQUET "
    "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
    "plain": "STORED AS ORC",
}


@pytest.mark.parametrize("kind", KINDS)
def test_file_names_are_shown_as_they_are_on_disk(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    acid = hiveacid.connect(spark, warehouse=str(tmp_path / "ware house +%41ü"))
    try:
        acid.sql(f"CREATE TABLE t (n INT) PARTITIONED BY (p STRING) {KINDS[kind]}")
        values = ", ".join(f"({number}, '{text}')" for number, text in enumerate(ODD))
        acid.sql(f"INSERT INTO t VALUES {values}")
        if kind == "full":
            acid.sql("UPDATE t SET n = n + 10 WHERE n < 3")
        rows = acid.sql("SELECT p, INPUT__FILE__NAME AS f FROM t").collect()
        assert {row.p for row in rows} == set(ODD)
        assert all(Path(row.f.removeprefix("file:")).is_file() for row in rows)
        one = rows[0].f
        assert acid.sql(f'SELECT count(*) AS c FROM t WHERE INPUT__FILE__NAME = "{one}"').collect()[0].c == 1
    finally:
        acid.close()


def test_names_of_original_files_and_findings_of_a_check(spark: SparkSession, tmp_path: Path) -> None:
    acid = hiveacid.connect(spark, warehouse=str(tmp_path / "ware house %41"))
    try:
        acid.sql("CREATE TABLE t (n INT) STORED AS ORC")
        acid.sql("INSERT INTO t VALUES (1), (2)")
        acid.sql("ALTER TABLE t SET TBLPROPERTIES ('transactional'='true')")
        acid.sql("DELETE FROM t WHERE n = 2")
        name = acid.sql("SELECT INPUT__FILE__NAME AS f FROM t").collect()[0].f
        assert Path(name.removeprefix("file:")).is_file()
        acid.sql("INSERT INTO t VALUES (3)")
        home = Path(acid.table("t").definition.location)
        (last,) = home.glob("delta_*")
        shutil.copy(last / "bucket_00000", last / "bucket_00001")
        damage = [one for one in acid.table("t").inspect.check() if one.severity is Severity.DAMAGE]
        assert {one.path for one in damage} <= {str(home), f"{last}/bucket_00001", f"{last}/bucket_00000"}
        assert damage
    finally:
        acid.close()
