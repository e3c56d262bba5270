"""The physical plans have the shapes that make reading cheap and writing right; no clock is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import functions as F

from hiveacid.config import setting_definitions
from hiveacid.core.model import TableName
from hiveacid.spark.read import partition_lookup
from hiveacid.spark.read.delete_events import SEPARATE_SCAN_ROWS
from hiveacid.table.acid_table import Scan
from hiveacid.table.read import table_snapshot
from support.corpus.acid_files import acid_bytes, bucket_property, deletes, inserts, orc_bytes, put
from support.generated_code import generated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

rarely = pytest.mark.exhaustive("speed only; the rows are compared by other tests")


CREATE = (
    "CREATE TABLE {} (id INT, v STRING, w DOUBLE) {} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)

BITS = "UnsafeArrayData"
"""How Spark shows the literal that tells which rows are deleted."""


def executed_plan(frame: DataFrame) -> str:
    """Return the plan that ran, adaptive changes included."""
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def scan_nodes(node: Any) -> Iterator[Any]:
    """Yield the file scans of an executed plan."""
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from scan_nodes(node.executedPlan())
        return
    if name.endswith("QueryStageExec"):
        yield from scan_nodes(node.plan())
        return
    if name == "FileSourceScanExec":
        yield node
    children = node.children().iterator()
    while children.hasNext():
        yield from scan_nodes(children.next())


def files_read(frame: DataFrame) -> int:
    """Return how many data files the scans of a frame read."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    return sum(int(node.metrics().apply("numFiles").value()) for node in scan_nodes(plan))


@pytest.fixture
def table(acid: AcidSession) -> str:
    """Return a table of ten rows."""
    acid.sql(CREATE.format("t", ""))
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), CONCAT('v', id), id / 2 FROM range(10)")
    return "t"


def test_a_scan_is_vectorised_and_reads_only_the_columns_asked_for(acid: AcidSession, table: str) -> None:
    frame = acid.table(table).to_df().select("w")
    plan = executed_plan(frame)
    assert "Batched: true" in plan
    (node,) = scan_nodes(frame._jdf.queryExecution().executedPlan())
    schema = str(node.requiredSchema().catalogString())
    assert "row:struct<w:double" in schema
    assert "v:string" not in schema
    assert "Join" not in plan


@rarely
def test_deleted_rows_are_told_by_bits_and_events_are_not_read_again(acid: AcidSession, table: str) -> None:
    acid.sql("DELETE FROM t WHERE id IN (1, 2)")
    frame = acid.table(table).to_df()
    plan = executed_plan(frame)
    assert BITS in plan
    assert "Join" not in plan
    assert len(list(scan_nodes(frame._jdf.queryExecution().executedPlan()))) == 1
    assert sorted(row.id for row in frame.collect()) == [0, 3, 4, 5, 6, 7, 8, 9]
    acid.sql("UPDATE t SET v = 'y' WHERE id IN (3, 4, 5)")  # the new rows are of another statement
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), 'x', 0.5 FROM range(100, 105)")
    acid.sql("DELETE FROM t WHERE id IN (3, 9, 100, 104)")
    frame = acid.table(table).to_df()
    assert BITS in executed_plan(frame)
    assert sorted(row.id for row in frame.collect()) == [0, 4, 5, 6, 7, 8, 101, 102, 103]
    assert acid.sql("SELECT count(*) FROM t").collect() == [(9,)]


@rarely
def test_deletes_are_joined_as_one_broadcast_of_packed_keys(
    acid: AcidSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bits would not do: very many partitions or write ids."""
    monkeypatch.setattr(table_snapshot, "_MAX_PARTITIONS", 0)
    acid.sql("DELETE FROM t WHERE id IN (1, 2)")
    frame = acid.table(table).to_df()
    plan = executed_plan(frame)
    assert plan.count("BroadcastHashJoin") >= 1
    assert "LeftAnti" in plan
    assert "SortMergeJoin" not in plan
    assert re.search(r"__hiveacid_row_key#\d+L", plan), "the key is one long"
    assert sorted(row.id for row in frame.collect()) == [0, 3, 4, 5, 6, 7, 8, 9]


def test_too_many_deletes_for_memory_are_joined_by_a_shuffle(acid: AcidSession, table: str) -> None:
    acid.sql("DELETE FROM t WHERE id IN (1, 2)")
    acid.set(setting_definitions.EVENTS_IN_MEMORY.name, "1")
    assert "BroadcastHashJoin" in executed_plan(acid.table(table).to_df()), "the driver reads only so many"
    acid.set(setting_definitions.BROADCAST_DELETE_EVENTS.name, "1")
    frame = acid.table(table).to_df()
    plan = executed_plan(frame)
    assert "BroadcastHashJoin" not in plan
    assert re.search(r"SortMergeJoin .*LeftAnti", plan)
    assert sorted(row.id for row in frame.collect()) == [0, 3, 4, 5, 6, 7, 8, 9]


@rarely
def test_only_partitions_with_deletes_pay_for_a_look_at_bits(acid: AcidSession) -> None:
    acid.sql(CREATE.format("p", "PARTITIONED BY (d INT)"))
    acid.sql(
        "INSERT INTO p PARTITION (d) SELECT CAST(id AS INT), 'x', 0.5, CAST(id % 4 AS INT) FROM range(40)"
    )
    acid.sql("DELETE FROM p WHERE d = 1 AND id < 20")
    rows = acid.table("p").to_df()
    assert BITS in executed_plan(rows)
    assert BITS not in executed_plan(acid.table("p").scan(where="d = 2").to_df())
    assert rows.count() == 35
    acid.sql("DELETE FROM p WHERE d > 1 AND id > 35")
    rows = acid.table("p").to_df()
    plan = executed_plan(rows)
    assert BITS in plan, plan
    assert ".apply" in plan, "a row id is there once in each partition: its file tells which"
    gone = [id_ for id_ in range(40) if (id_ % 4 == 1 and id_ < 20) or (id_ % 4 > 1 and id_ > 35)]
    assert sorted(row.id for row in rows.collect()) == [id_ for id_ in range(40) if id_ not in gone]
    assert acid.sql("SELECT count(*) FROM p").collect() == [(40 - len(gone),)]


@rarely
@pytest.mark.parametrize("most", [1000, 0])
def test_a_look_at_bits_and_partitions_stays_short(
    acid: AcidSession, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a row lies is asked once: by the path of its file, cut out of it where there are very many files."""
    monkeypatch.setattr(partition_lookup, "_MAX_FILES", most)
    acid.sql(CREATE.format("p", "PARTITIONED BY (d STRING, e INT) CLUSTERED BY (id) INTO 2 BUCKETS"))
    days = "if(id % 6 = 0, NULL, concat('a/%', id % 6, ' ='))"
    acid.sql(
        f"INSERT INTO p PARTITION (d, e) SELECT CAST(id AS INT), 'x', 0.5, {days}, CAST(id % 2 AS INT) FROM range(60)"
    )
    for nth in range(3):
        acid.sql(f"UPDATE p SET w = w + 1 WHERE id % 5 <= {nth}")
        acid.sql(f"DELETE FROM p WHERE id = {nth * 10}")
    frame = acid.sql("SELECT d, e, sum(w), count(*) FROM p WHERE v = 'x' GROUP BY d, e")
    plan = executed_plan(frame)
    assert BITS in plan
    assert ".apply" in plan
    assert ("substring_index" in plan) == (not most), "cut only where there are very many files"
    assert "Join" not in plan
    assert max(code.longest for code in generated(frame)) < (4000 if most else 8000)
    live = [id_ for id_ in range(60) if id_ not in (0, 10, 20)]
    expected = [
        (
            None if part == 0 else f"a/%{part} =",
            part % 2,
            sum(0.5 + sum(id_ % 5 <= nth for nth in range(3)) for id_ in live if id_ % 6 == part),
            sum(id_ % 6 == part for id_ in live),
        )
        for part in range(6)
    ]
    assert sorted(map(tuple, frame.collect()), key=str) == sorted(expected, key=str)
    assert acid.sql("SELECT count(*) FROM p").collect() == [(57,)]
    assert acid.sql("SELECT count(w), max(e) FROM p WHERE d = 'a/%3 =' AND e = 1").collect() == [(10, 1)]
    whole = acid.table("p").to_df()
    assert files_read(whole.where("d = 'a/%2 ='")) < files_read(whole) / 4, (
        "files are pruned by later filters"
    )


@rarely
@pytest.mark.usefixtures("table")
def test_counting_reads_only_files_with_gaps_that_a_delete_can_touch(acid: AcidSession) -> None:
    """What footers and bits tell needs no look at the rows; a value that is asked for after all fails."""
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), 'x', 0.5 FROM range(100, 105)")
    for query in (
        "SELECT count(*) FROM t",
        "select Count( * ) n from default.t",
        "SELECT /* all */ count(*) AS `how many` FROM t AS other;",
    ):
        frame = acid.sql(query)
        assert "FileScan" not in executed_plan(frame), query
        assert frame.collect() == [(15,)]
    acid.sql("DELETE FROM t WHERE id > 102 OR id = 5")
    one = acid.sql("SELECT count(*) FROM t")
    assert one.collect() == [(12,)]
    assert "FileScan" not in executed_plan(one)
    acid.sql("INSERT INTO t VALUES (5, 'v5', 2.5)")
    acid.table("t").compact("major")
    acid.sql("INSERT INTO t VALUES (103, 'x', 0.5)")
    acid.sql("DELETE FROM t WHERE id = 102")
    acid.sql("INSERT INTO t VALUES (102, 'x', 0.5)")
    acid.sql("DELETE FROM t WHERE id = 103")
    one = acid.sql("SELECT count(*) FROM t")
    assert one.collect() == [(13,)]
    assert files_read(one) > 0, "the base has gaps"
    for query, count in (
        ("SELECT count(*) FROM t WHERE id < 3", 3),
        ("SELECT count(*) FROM t GROUP BY id > 4 HAVING min(id) = 0", 5),
        ("SELECT count(*) FROM t LIMIT 0", None),
        ("SELECT count(*) FILTER (WHERE id < 2) FROM t", 2),
        ("SELECT count(*) + max(id) FROM t", 13 + 102),
        ("SELECT count(*) FROM t x JOIN t y USING (id)", 13),
        ("SELECT count(*) FROM t LATERAL VIEW explode(array(1, 2)) e AS z", 26),
        ("SELECT count(*) FROM (SELECT id FROM t WHERE id = 1)", 1),
    ):
        assert [row[0] for row in acid.sql(query).collect()][:1] == ([] if count is None else [count]), query
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (9, 'y', 0.0)")
        txn.sql("DELETE FROM t WHERE id = 9")
        assert txn.sql("SELECT count(*) FROM t").collect() == [(12,)]
    acid.sql(
        "CREATE TABLE odd (s STRUCT<`a b`:INT,`c-d`:ARRAY<INT>>) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO odd SELECT named_struct('a b', 1, 'c-d', array(1)) FROM range(3)")
    assert acid.sql("SELECT count(*) FROM odd").collect() == [(3,)]
    counted = Scan(acid.context, TableName("default", "t"), count_only=True).to_df()
    with pytest.raises(Exception, match="rows are only counted"):
        counted.where("id = 1").collect()


def test_rows_deleted_twice_or_never_there_are_not_counted_as_deleted(
    acid: AcidSession, tmp_path: Path
) -> None:
    """And events of write ids that are not valid hide nothing."""
    columns, key = "id:int,v:string,w:double", bucket_property(0)
    gone = {2: [(1, key, 3), (1, key, 99)], 3: [(1, key, 3), (1, key, 4)], 4: [(1, key, 5)], 5: [(7, key, 0)]}
    files = {
        f"delete_delta_{n:07d}_{n:07d}_0000/bucket_00000": acid_bytes(deletes(n, keys), columns)
        for n, keys in gone.items()
    }
    rows = acid_bytes(inserts(1, [(n, "v", 0.5) for n in range(10)]), columns)
    root = put(tmp_path / "odd", files | {"delta_0000001_0000001_0000/bucket_00000": rows})
    acid.adopt(CREATE.format("odd", ""), str(root), "default.odd:5:9223372036854775807::4")
    counted = acid.sql("SELECT count(*) FROM odd")
    assert "FileScan" not in executed_plan(counted)
    assert counted.collect() == [(8,)]
    assert sorted(row.id for row in acid.sql("SELECT id FROM odd").collect()) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_partition_with_events_of_acid_v1_is_counted_once(acid: AcidSession, tmp_path: Path) -> None:
    columns, key = "id:int,v:string,w:double", bucket_property(0)
    old = acid_bytes([(1, 1, key, 0, 2, (7, "new", 0.5))], columns, {"hive.acid.stats": "0,1,0"})
    files = {
        "p=1/delta_0000001_0000001/bucket_00000": acid_bytes(
            inserts(1, [(n, "v", 0.5) for n in range(3)]), columns
        ),
        "p=1/delta_0000002_0000002/bucket_00000": old,
        "p=2/delta_0000001_0000001_0000/bucket_00000": acid_bytes(
            inserts(1, [(n, "v", 0.5) for n in range(10)]), columns
        ),
        "p=2/delete_delta_0000002_0000002_0000/bucket_00000": acid_bytes(
            deletes(2, [(1, key, 3), (1, key, 4)]), columns
        ),
    }
    root = put(tmp_path / "mixed", files)
    create = CREATE.format("mixed", "PARTITIONED BY (p INT)")
    acid.adopt(create, str(root), "default.mixed:2:9223372036854775807::")
    assert len(acid.sql("SELECT id FROM mixed").collect()) == 11
    assert acid.sql("SELECT count(*) FROM mixed").collect() == [(11,)]


@rarely
def test_files_out_of_reach_of_all_deletes_are_read_without_a_look_at_bits(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE big (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql(f"INSERT INTO big SELECT CAST(id AS INT) FROM range(0, {SEPARATE_SCAN_ROWS}, 1, 1)")
    acid.sql(
        f"INSERT INTO big SELECT CAST(id AS INT) FROM range({SEPARATE_SCAN_ROWS}, {SEPARATE_SCAN_ROWS + 10}, 1, 1)"
    )
    acid.sql(f"DELETE FROM big WHERE id = {SEPARATE_SCAN_ROWS + 3}")
    frame = acid.table("big").to_df().selectExpr("count(id)", "sum(id)")
    plan = executed_plan(frame)
    assert (BITS in plan, "Union" in plan) == (True, True), plan
    expected = sum(range(SEPARATE_SCAN_ROWS + 10)) - SEPARATE_SCAN_ROWS - 3
    assert frame.collect() == [(SEPARATE_SCAN_ROWS + 9, expected)]
    acid.sql("DELETE FROM big WHERE id = 5")  # now both files are within reach
    frame = acid.table("big").to_df().selectExpr("count(id)", "sum(id)")
    plan = executed_plan(frame)
    assert (BITS in plan, "Union" in plan) == (True, False), plan
    assert frame.collect() == [(SEPARATE_SCAN_ROWS + 8, expected - 5)]


@rarely
def test_originals_that_no_delete_can_touch_are_read_as_plain_files(
    acid: AcidSession, tmp_path: Path
) -> None:
    """Row numbers are paid for by those files only that hold a deleted row; nothing is joined or sorted for them."""
    rows = [(n, f"v{n}", 0.5) for n in range(10)]
    columns = "id:int,v:string,w:double"
    inserted, deleted = "delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"
    files = {
        name: orc_bytes(rows, f"struct<{columns}>") for name in ("000000_0", "000001_0", "000001_0_copy_1")
    }
    files[f"{inserted}/bucket_00000"] = acid_bytes(inserts(1, rows), columns)
    key, second = bucket_property(0), bucket_property(1)
    cases: dict[str, tuple[list[tuple[int, int, int]], list[int]]] = {
        "of_delta": ([(1, key, 3)], []),
        "of_one_file": ([(1, key, 3), (0, second, 12)], [1]),  # the copy: rows 10 to 19 of its bucket
        "of_two_files": ([(0, second, 9), (0, second, 10)], [2]),
    }
    for name, (gone, counted) in cases.items():
        more = {
            f"{deleted}/bucket_0000{bucket}": acid_bytes(
                deletes(2, [k for k in gone if k[1] == one]), columns
            )
            for bucket, one in enumerate((key, second))
        }
        root = put(tmp_path / name, files | more)
        acid.adopt(CREATE.format(name, ""), str(root), f"default.{name}:2:9223372036854775807::")
        frame = acid.table(name).to_df()
        assert frame.count() == 40 - len(gone)
        plan = executed_plan(frame)
        assert ("monotonically_increasing_id" in plan) == bool(counted), plan
        assert not re.search(r"Join|Window|Sort|Exchange", plan), plan
        raw = [files for files in scanned_files(frame) if all("/delta_" not in file for file in files)]
        raw = [files for files in raw if all("/delete_" not in file for file in files)]
        assert sorted(len(files) for files in raw) == sorted([3 - sum(counted), *counted])


def test_row_numbers_of_originals_hold_however_the_session_cuts_files(
    acid: AcidSession, spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "cut"
    root.mkdir()
    for number in range(2):
        table = pa.table({"id": pa.array(range(number * 100_000, (number + 1) * 100_000), pa.int32())})
        orc.write_table(
            table, root / f"00000{number}_0", stripe_size=1 << 16, compression="uncompressed", batch_size=1024
        )
    assert orc.ORCFile(root / "000000_0").nstripes > 3
    create = "CREATE TABLE cut (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    acid.adopt(create, str(root))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 16))
    try:
        acid.sql("DELETE FROM cut WHERE id IN (7, 99999, 150000)")
        found = acid.table("cut").scan(row_ids=True).to_df()
        wrong = found.where(
            "ROW__ID.rowid != id % 100000 OR (ROW__ID.bucketid >> 16) % 4096 != id DIV 100000"
        )
        assert wrong.count() == 0
        assert found.count() == 199_997
        assert found.where("id IN (7, 99999, 150000)").count() == 0
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))


def scanned_files(frame: DataFrame) -> Iterator[list[str]]:
    """Yield the files of each scan."""
    for node in scan_nodes(frame._jdf.queryExecution().executedPlan()):
        yield [str(file) for file in node.relation().location().inputFiles()]


@rarely
def test_a_later_filter_on_a_partition_column_prunes_files(acid: AcidSession) -> None:
    acid.sql(CREATE.format("p", "PARTITIONED BY (d STRING)"))
    acid.sql(
        "INSERT INTO p PARTITION (d) SELECT CAST(id AS INT), 'x', 0.5, "
        "element_at(array('a b', 'c/d%', 'plain', NULL), CAST(id % 4 AS INT) + 1) FROM range(40)"
    )
    frame = acid.table("p").to_df()
    everything = files_read(frame)
    for value in ("a b", "c/d%", "plain"):
        one = frame.where(F.col("d") == value)
        assert files_read(one) * 4 == everything
        assert one.count() == 10
    assert frame.where("d IS NULL").count() == 10


@rarely
def test_a_known_filter_reads_one_partition_only(acid: AcidSession) -> None:
    acid.sql(CREATE.format("p", "PARTITIONED BY (d INT)"))
    acid.sql(
        "INSERT INTO p PARTITION (d) SELECT CAST(id AS INT), 'x', 0.5, CAST(id % 5 AS INT) FROM range(50)"
    )
    frame = acid.table("p").scan(where="d = 3 AND id > 10").to_df()
    assert files_read(frame) * 5 == files_read(acid.table("p").to_df())
    assert sorted(row.id for row in frame.collect()) == [13, 18, 23, 28, 33, 38, 43, 48]


def test_reserved_column_names_do_not_confuse_the_scan(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE r (operation INT, originalTransaction BIGINT, bucket INT, rowId BIGINT, "
        "currentTransaction BIGINT, row STRUCT<operation:INT, bucket:INT>) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql(
        "INSERT INTO r SELECT 2, id, CAST(id AS INT), id, id, "
        "named_struct('operation', 7, 'bucket', CAST(id AS INT)) FROM range(100)"
    )
    acid.sql("DELETE FROM r WHERE bucket < 10")
    acid.sql("UPDATE r SET operation = 0 WHERE rowId = 50")
    frame = acid.table("r").to_df()
    assert frame.count() == 90
    assert frame.where("operation = 2").count() == 89
    assert frame.where("row.bucket >= 90").count() == 10
    assert frame.where("currentTransaction = 50 AND operation = 0").count() == 1
    assert acid.table("r").scan(where="originalTransaction = 60").to_df().count() == 1


@rarely
def test_a_count_reads_no_column_of_the_user(acid: AcidSession, table: str) -> None:
    frame = acid.table(table).to_df().selectExpr("count(*)")
    assert frame.collect() == [(10,)]
    (node,) = scan_nodes(frame._jdf.queryExecution().executedPlan())
    assert not {"id", "v", "w"}.intersection(
        re.findall(r"(\w+):", str(node.requiredSchema().catalogString()))
    )


@rarely
def test_an_insert_only_table_is_scanned_as_plain_files(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE i (id INT, v STRING, s STRUCT<a:INT,b:STRING>) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true','transactional_properties'='insert_only')"
    )
    acid.sql("INSERT INTO i SELECT CAST(id AS INT), 'x', named_struct('a', 1, 'b', 'y') FROM range(10)")
    frame = acid.sql("SELECT sum(s.a) FROM i WHERE id > 7")
    plan = executed_plan(frame)
    assert "Batched: true" in plan
    assert "Join" not in plan
    (node,) = scan_nodes(frame._jdf.queryExecution().executedPlan())
    assert str(node.requiredSchema().catalogString()) == "struct<id:int,s:struct<a:int>>"
    assert "GreaterThan(id,7)" in str(node.metadata().apply("PushedFilters"))


@rarely
def test_deletes_add_no_column_but_the_key(acid: AcidSession) -> None:
    """And a struct is read as far as it is asked for; delete events are read by their keys alone."""
    acid.sql(
        "CREATE TABLE n (id INT, v STRING, s STRUCT<a:INT,b:STRING>) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO n SELECT CAST(id AS INT), 'x', named_struct('a', 1, 'b', 'y') FROM range(10)")
    acid.sql("DELETE FROM n WHERE id = 3")
    frame = acid.sql("SELECT sum(s.a) FROM n")
    assert frame.collect() == [(9,)]
    found = {
        "delete" if "delete_delta" in str(node.relation().location().inputFiles()[0]) else "rows": str(
            node.requiredSchema().catalogString()
        )
        for node in scan_nodes(frame._jdf.queryExecution().executedPlan())
    }
    assert re.search(r"s:struct<a:int>", found["rows"])
    assert not re.search(r"\b(id|v):", found["rows"])
    assert not re.search(r"\b(id|v|s):", found.get("delete", ""))


@rarely
def test_a_filter_in_the_text_skips_row_groups(acid: AcidSession) -> None:
    acid.sql(CREATE.format("big", ""))
    acid.sql("INSERT INTO big SELECT CAST(id AS INT), 'x', 0.5 FROM range(0, 100000, 1, 1)")
    acid.sql("DELETE FROM big WHERE id = 5")
    frame = acid.sql("SELECT v FROM big WHERE id = 50001")
    assert frame.collect() == [("x",)]
    rows = [
        int(node.metrics().apply("numOutputRows").value())
        for node in scan_nodes(frame._jdf.queryExecution().executedPlan())
    ]
    assert max(rows) <= 20_000  # a row group has 10,000 rows


@rarely
def test_only_columns_asked_for_are_read_of_a_partition_with_deletes(acid: AcidSession) -> None:
    """Spark 4 puts a projection of all columns below BETWEEN and nullif: neither may be in a scan of ours."""
    acid.sql(CREATE.format("p", "PARTITIONED BY (d STRING)"))
    acid.sql("INSERT INTO p PARTITION (d = 'x') SELECT CAST(id AS INT), 'x', 0.5 FROM range(10)")
    for change in ("DELETE FROM p WHERE id = 3", "DELETE FROM p WHERE id = 4"):
        acid.sql(change)
        frame = acid.sql("SELECT d, sum(w) FROM p WHERE d = 'x' GROUP BY d")
        frame.collect()
        for node in scan_nodes(frame._jdf.queryExecution().executedPlan()):
            columns = str(node.requiredSchema().catalogString())
            assert not re.search(r"\b(id|v):", columns), columns


@rarely
def test_orc_is_read_in_batches_that_fit_the_cache_unless_the_builder_says_otherwise(
    spark: SparkSession,
) -> None:
    from pyspark.sql import SparkSession as Session  # noqa: PLC0415

    import hiveacid  # noqa: PLC0415

    key = "spark.sql.orc.columnarReaderBatchSize"
    assert spark.conf.get(key) == "1024"
    assert hiveacid.configure(Session.builder.config(key, "64"))._options[key] == "64"
