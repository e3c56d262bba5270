"""Constraints that Hive enabled on a table hold for rows of ours: enforced, or the write is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hive_client import Hive, HiveError

from hiveacid.errors import ConstraintViolationError, UnsupportedFeatureError
from hiveacid.streaming import Connection

if TYPE_CHECKING:
    from hive_server import HiveServers
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

_FULL = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
_PLAIN = "STORED AS ORC TBLPROPERTIES ('transactional'='false')"


def _arrow(hive: HiveServers, table: str, rows: pa.RecordBatch) -> None:
    with Connection(f"default.{table}", store=hive.url) as stream, stream.transaction():
        stream.write(rows)


def test_not_null(
    hive: HiveServers, session: Hive, acid: AcidSession, spark: SparkSession, tmp_path: Path
) -> None:
    """In every verb; rows that satisfy the constraint are written, and deletes and compactions go on."""
    session.sql(f"CREATE TABLE nn (a INT CONSTRAINT nn_a NOT NULL ENABLE, b STRING) {_FULL}")
    acid.sql("INSERT INTO nn VALUES (1, NULL), (2, 'x')")
    source = "(SELECT 1 AS k, CAST(NULL AS INT) AS v) s"
    bad = [
        "INSERT INTO nn VALUES (3, 'y'), (NULL, 'z')",
        "INSERT INTO nn SELECT CAST(NULL AS INT), 'z'",
        "INSERT INTO nn (b) VALUES ('z')",
        "INSERT OVERWRITE TABLE nn SELECT CAST(NULL AS INT), 'z'",
        "UPDATE nn SET a = NULL WHERE a = 1",
        f"MERGE INTO nn t USING {source} ON t.a = s.k WHEN MATCHED THEN UPDATE SET a = s.v",
        f"MERGE INTO nn t USING {source} ON t.a = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.v, 'm')",
    ]
    for statement in bad:
        with pytest.raises(ConstraintViolationError, match="nn_a"):
            acid.sql(statement)
    frame = spark.sql("SELECT CAST(NULL AS INT) AS a, 'w' AS b")
    with pytest.raises(ConstraintViolationError, match="nn_a"):
        acid.table("nn").insert(frame)
    frame.coalesce(1).write.orc(str(tmp_path / "load"))
    with pytest.raises(ConstraintViolationError, match="nn_a"):
        acid.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/load' INTO TABLE nn")
    with pytest.raises(ConstraintViolationError, match="nn_a"):
        _arrow(hive, "nn", pa.RecordBatch.from_pydict({"a": pa.array([5, None]), "b": ["s", "s"]}))
    acid.sql("UPDATE nn SET b = 'u' WHERE a = 1")
    acid.sql(f"MERGE INTO nn t USING {source} ON t.a = s.k WHEN MATCHED THEN UPDATE SET b = 'm'")
    _arrow(hive, "nn", pa.RecordBatch.from_pydict({"a": pa.array([6]), "b": ["s"]}))
    acid.sql("DELETE FROM nn WHERE a = 2")
    acid.sql("ALTER TABLE nn COMPACT 'major'")
    assert sorted(session.sql("SELECT a, b FROM nn")) == [(1, "m"), (6, "s")]
    with pytest.raises(HiveError):  # as Hive has it
        session.sql("INSERT INTO nn SELECT CAST(NULL AS INT), 'z'")


@pytest.mark.parametrize("kind", [_INSERT_ONLY, _PLAIN])
def test_not_null_of_other_kinds(session: Hive, acid: AcidSession, kind: str) -> None:
    """Insert-only and plain tables, too; a static partition value counts as a value."""
    name = f"nn_{'only' if kind == _INSERT_ONLY else 'plain'}"
    session.sql(
        f"CREATE TABLE {name} (a INT CONSTRAINT {name}_a NOT NULL ENABLE) PARTITIONED BY (p INT) {kind}"
    )
    acid.sql(f"INSERT INTO {name} PARTITION (p=1) VALUES (1)")
    for statement in (
        f"INSERT INTO {name} PARTITION (p=1) VALUES (NULL)",
        f"INSERT INTO {name} VALUES (NULL, 2)",
    ):
        with pytest.raises(ConstraintViolationError, match=f"{name}_a"):
            acid.sql(statement)
    assert session.sql(f"SELECT a, p FROM {name}") == [(1, 1)]


def test_check_is_refused(
    hive: HiveServers, session: Hive, acid: AcidSession, spark: SparkSession, tmp_path: Path
) -> None:
    """A write of rows names the constraint; what writes no rows goes on."""
    session.sql(f"CREATE TABLE ck (a INT, b INT, CONSTRAINT ck_ab CHECK (a < b) ENABLE) {_FULL}")
    session.sql("INSERT INTO ck VALUES (1, 2), (3, 4), (NULL, 1)")  # NULL passes
    with pytest.raises(HiveError):
        session.sql("INSERT INTO ck VALUES (2, 1)")
    spark.sql("SELECT 5 AS a, 6 AS b").coalesce(1).write.orc(str(tmp_path / "load"))
    for statement in (
        "INSERT INTO ck VALUES (5, 6)",
        "UPDATE ck SET b = 9 WHERE a = 1",
        "MERGE INTO ck t USING (SELECT 1 AS k) s ON t.a = s.k WHEN MATCHED THEN UPDATE SET b = 9",
        f"LOAD DATA LOCAL INPATH '{tmp_path}/load' INTO TABLE ck",
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"ck_ab.*a\W+< \W?b"):
            acid.sql(statement)
    with pytest.raises(UnsupportedFeatureError, match="ck_ab"):
        _arrow(hive, "ck", pa.RecordBatch.from_pydict({"a": pa.array([5]), "b": pa.array([6])}))
    acid.sql("DELETE FROM ck WHERE a = 3")
    acid.sql("MERGE INTO ck t USING (SELECT 1 AS k) s ON t.a = s.k WHEN MATCHED THEN DELETE")
    acid.sql("ALTER TABLE ck COMPACT 'major'")
    assert session.sql("SELECT a, b FROM ck") == [(None, 1)]
    acid.sql("TRUNCATE TABLE ck")
    assert session.sql("SELECT count(*) FROM ck") == [(0,)]


def test_default_is_refused_where_it_is_needed(session: Hive, acid: AcidSession) -> None:
    """A column left out, and the word DEFAULT; a value given is written, NULL too."""
    session.sql(f"CREATE TABLE df (a INT, b INT CONSTRAINT df_b DEFAULT 7 ENABLE) {_FULL}")
    session.sql("INSERT INTO df (a) VALUES (1)")
    for statement in (
        "INSERT INTO df (a) VALUES (2)",
        "INSERT INTO df VALUES (2, DEFAULT)",
        "MERGE INTO df t USING (SELECT 2 AS k) s ON t.a = s.k WHEN NOT MATCHED THEN INSERT (a) VALUES (s.k)",
        "MERGE INTO df t USING (SELECT 2 AS k) s ON t.a = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, DEFAULT)",
        "UPDATE df SET b = DEFAULT WHERE a = 1",
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"df_b.*7"):
            acid.sql(statement)
    acid.sql("INSERT INTO df VALUES (3, 8), (4, NULL)")
    acid.sql("INSERT INTO df (b) VALUES (9)")
    acid.sql("UPDATE df SET a = 5 WHERE b = 8")
    assert sorted(session.sql("SELECT a, b FROM df"), key=str) == [(1, 7), (4, None), (5, 8), (None, 9)]


def test_disabled_constraints_say_nothing(session: Hive, acid: AcidSession) -> None:
    session.sql(
        "CREATE TABLE off (a INT NOT NULL DISABLE, b INT CHECK (b > 0) DISABLE, PRIMARY KEY (a) DISABLE NOVALIDATE)"
        f" {_FULL}"
    )
    acid.sql("INSERT INTO off VALUES (NULL, -1)")
    assert session.sql("SELECT a, b FROM off") == [(None, -1)]


def test_a_constraint_added_later_counts(session: Hive, acid: AcidSession) -> None:
    session.sql(f"CREATE TABLE later (a INT) {_FULL}")
    acid.sql("INSERT INTO later VALUES (NULL)")
    session.sql("ALTER TABLE later CHANGE COLUMN a a INT CONSTRAINT later_a NOT NULL ENABLE")
    with pytest.raises(ConstraintViolationError, match="later_a"):
        acid.sql("INSERT INTO later VALUES (NULL)")
    session.sql("ALTER TABLE later DROP CONSTRAINT later_a")
    acid.sql("INSERT INTO later VALUES (NULL)")
    assert session.sql("SELECT count(*) FROM later") == [(2,)]
