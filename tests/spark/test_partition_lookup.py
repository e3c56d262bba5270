"""Which partition a row lies in, by the path of its file: of many files, of originals, of files that Spark passes over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import FormatError
from hiveacid.spark.read import partition_lookup
from hiveacid.table.read import table_snapshot

if TYPE_CHECKING:
    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
PARTS = ("a b", "a+b", "ä%2B", "c,d")
"""What URIs and directory names spell otherwise."""


@pytest.fixture(params=[1000, 3])
def most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Look partitions up by up to so many files."""
    monkeypatch.setattr(partition_lookup, "_MAX_FILES", request.param)
    return int(request.param)


def rows_of(part: int, *gone: int) -> list[tuple[int, str]]:
    return [(id_, PARTS[part]) for id_ in range(40) if id_ % 4 == part and id_ not in gone]


@pytest.mark.exhaustive("another case of the same test stays", cases=("1000", "3-T"))
@pytest.mark.usefixtures("most")
@pytest.mark.parametrize("joined", [False, True])
def test_originals_of_several_partitions(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch, *, joined: bool
) -> None:
    """Converted files, each read by one task: their rows' partitions are known when deletes are looked up."""
    if joined:
        monkeypatch.setattr(table_snapshot, "_MAX_PARTITIONS", 0)
    acid.sql("CREATE TABLE t (id INT) PARTITIONED BY (p STRING) STORED AS ORC")
    names = ", ".join(f"'{part}'" for part in PARTS)
    acid.sql(
        f"INSERT INTO t PARTITION (p) SELECT CAST(id AS INT), array({names})[CAST(id % 4 AS INT)] FROM range(40)"
    )
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('transactional'='true')")
    acid.sql("DELETE FROM t WHERE id IN (0, 5, 10, 15, 39)")
    left = [*rows_of(0, 0), *rows_of(1, 5), *rows_of(2, 10), *rows_of(3, 15, 39)]
    assert sorted(acid.sql("SELECT id, p FROM t").collect()) == sorted(left)
    acid.sql("INSERT INTO t PARTITION (p) VALUES (100, 'a b'), (101, 'c,d')")  # ACID files beside them
    acid.sql("DELETE FROM t WHERE id IN (1, 100)")
    left = [*rows_of(0, 0), *rows_of(1, 1, 5), *rows_of(2, 10), *rows_of(3, 15, 39), (101, "c,d")]
    assert sorted(acid.sql("SELECT id, p FROM t").collect()) == sorted(left)
    assert acid.sql("SELECT count(*) FROM t WHERE p = 'c,d'").first() == (len(rows_of(3, 15, 39)) + 1,)


def test_rows_are_looked_up_and_events_cut_out_in_one_join(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides of a join name a partition by the same text, however they came to it."""
    monkeypatch.setattr(partition_lookup, "_MAX_FILES", 4)
    monkeypatch.setattr(table_snapshot, "_MAX_PARTITIONS", 0)
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING) {ACID}")
    names = ", ".join(f"'{part}'" for part in PARTS)
    acid.sql(
        f"INSERT INTO t PARTITION (p) SELECT /*+ COALESCE(1) */ CAST(id AS INT), array({names})[CAST(id % 4 AS INT)] "
        "FROM range(40)"
    )
    for id_ in (0, 4, 5):  # more delete files than files with rows
        acid.sql(f"DELETE FROM t WHERE id IN ({id_}, {id_ + 1}, {id_ + 2}, {id_ + 3})")
    left = [*rows_of(0, 0, 4, 8), *rows_of(1, 1, 5), *rows_of(2, 2, 6), *rows_of(3, 3, 7)]
    assert sorted(acid.sql("SELECT id, p FROM t").collect()) == sorted(left)


def test_a_file_that_spark_passes_over_is_not_passed_over_silently(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS TEXTFILE TBLPROPERTIES "
        "('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2)")
    (home,) = Path(acid.table("t").definition.location).glob("p=1/delta_*")
    (home / "000007_0._COPYING_").write_text("7\n")
    assert sorted(acid.sql("SELECT id FROM t").collect()) == [(1,), (2,)]  # by the records of commits
    acid.set("hiveacid.read.file.records", "false")
    with pytest.raises(FormatError, match=r"Spark reads other files .*000007_0\._COPYING_"):
        acid.sql("SELECT * FROM t").collect()


def test_a_file_on_its_way_into_a_plain_table_is_no_part_of_it_yet(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS TEXTFILE")
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2)")
    (Path(acid.table("t").definition.location) / "p=1" / "x._COPYING_").write_text("7\n")
    assert sorted(acid.sql("SELECT id, p FROM t").collect()) == [(1, 1), (2, 2)]
