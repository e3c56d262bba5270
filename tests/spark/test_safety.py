"""Ways to lose, double or delete rows that must not work."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.config.setting_definitions import LAYOUT_LEVEL
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    LockTimeoutError,
    ParseError,
    StatementError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.table.definition import exclusive_table, lock_of_location

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.ports.catalog import Catalog

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def ids(acid: AcidSession, table: str = "t") -> list[int]:
    """Return the column ``id`` of all rows, sorted."""
    return sorted(row["id"] for row in acid.table(table).to_df().select("id").collect())


def test_a_merge_without_the_cardinality_check_leaves_rows_alone_that_no_clause_is_for(
    acid: AcidSession,
) -> None:
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1), (2)")
    acid.sql("SET hive.merge.cardinality.check=false")
    acid.sql(
        "MERGE INTO t USING (SELECT 1 AS k UNION ALL SELECT 2) s ON t.id = s.k WHEN MATCHED AND s.k = 1 THEN DELETE"
    )
    assert ids(acid) == [2]


def test_a_merge_clause_that_can_never_apply_is_refused(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1), (2)")
    source = acid.sql("SELECT 1 AS id")
    merge = (
        acid.table("t").merge(source, on="t.id = s.id").when_matched_delete("s.id = 2").when_matched_delete()
    )
    with pytest.raises(StatementError, match=r"WHEN MATCHED clause can never apply"):
        merge.when_matched_update({"id": "5"})
    with pytest.raises(ParseError, match=r"this clause can never apply"):
        acid.sql(
            "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET id = 5"
        )
    merge.when_not_matched_by_source_update({"id": "7"}).execute()
    assert ids(acid) == [7]


def test_a_dynamic_overwrite_of_a_plain_table_keeps_the_other_partitions(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS PARQUET")
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2)")
    acid.sql("INSERT OVERWRITE TABLE t PARTITION (p) SELECT 5, 1")
    assert ids(acid) == [2, 5]


def test_an_interrupted_commit_that_went_through_keeps_its_files(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    with pytest.raises(KeyboardInterrupt):
        _interrupted(acid)
    assert ids(acid) == [1]


def _interrupted(acid: AcidSession) -> None:
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (1)")
        assert txn.joined is not None
        acid.context.store.commit_txn(txn.joined.txn_id)  # the answer is lost
        raise KeyboardInterrupt


def test_an_overwrite_in_a_transaction_does_not_lose_what_others_inserted(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(WriteConflictError, match="lost"):
        _overwrite_late(acid)
    assert ids(acid) == [1, 9]


def _overwrite_late(acid: AcidSession) -> None:
    with acid.transaction() as txn:
        acid.sql("INSERT INTO t VALUES (9)")
        txn.sql("INSERT OVERWRITE TABLE t SELECT id FROM t")


def test_a_transaction_does_not_insert_below_what_others_overwrote_meanwhile(acid: AcidSession) -> None:
    """Its write id is older than the overwrite's: nobody would ever read the rows."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (1)")
    acid.sql("INSERT INTO t PARTITION (p=2) VALUES (2)")
    with pytest.raises(WriteConflictError, match="overwrote"):
        _insert_late(acid)
    assert ids(acid) == [1, 9]


def _insert_late(acid: AcidSession) -> None:
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t PARTITION (p=1) VALUES (5)")
        acid.sql("INSERT OVERWRITE TABLE t PARTITION (p=2) VALUES (9)")
        txn.sql("INSERT INTO t PARTITION (p=2) VALUES (6)")


def test_a_table_made_again_does_not_inherit_what_was_known_of_its_files(acid: AcidSession) -> None:
    for gone in (1, 2):
        acid.sql(f"CREATE TABLE t (id INT) {ACID}")
        acid.sql("INSERT INTO t VALUES (1), (2)")
        acid.sql(f"DELETE FROM t WHERE id = {gone}")
        assert ids(acid) == [3 - gone]
        acid.sql("DROP TABLE t")


def test_locations_of_others_are_refused(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (1)")
    warehouse = acid.context.warehouse
    link = tmp_path / "link"
    link.symlink_to(warehouse)
    for place in (
        f"{warehouse}/t",
        f"{warehouse}/t/p=1",
        f"{warehouse}/.hiveacid",
        warehouse,
        "/",
        f"{link}/t",
    ):
        with pytest.raises(CatalogError, match="not free"):
            acid.sql(f"CREATE TABLE x (a INT) STORED AS PARQUET LOCATION '{place}'")
    for place in (warehouse, f"{warehouse}/.hiveacid", "/"):
        with pytest.raises(CatalogError, match="not free"):
            acid.sql(f"ALTER TABLE t ADD PARTITION (p=2) LOCATION '{place}'")
    assert ids(acid) == [1]


def test_locations_of_partitions_are_refused(acid: AcidSession, tmp_path: Path) -> None:
    """Rows would be read twice, and DROP would delete those of the other table or partition."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql(f"CREATE TABLE u (id INT) PARTITIONED BY (p INT) {ACID}")
    place, inside = f"{tmp_path}/x", acid.table("t").definition.location
    acid.sql(f"ALTER TABLE t ADD PARTITION (p=1) LOCATION '{place}'")
    for other in (place, f"{place}/y", f"{tmp_path}"):
        with pytest.raises(CatalogError, match="is not free"):
            acid.sql(f"ALTER TABLE u ADD PARTITION (p=1) LOCATION '{other}'")
    for other in (f"{inside}/p=3", f"{inside}/p=3/z", f"{place}/y", place):
        with pytest.raises(CatalogError, match=r"another partition|a partition of default\.t"):
            acid.sql(f"ALTER TABLE t ADD PARTITION (p=2) LOCATION '{other}'")
    acid.sql(f"ALTER TABLE t ADD PARTITION (p=2) LOCATION '{inside}/p=2'")
    acid.sql(f"ALTER TABLE t ADD PARTITION (p=4) LOCATION '{inside}/P=04'")  # as another engine spells it
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (1)")
    text = f"CREATE TABLE c (id INT) {ACID}"
    for other in (place, f"{place}/y"):
        with pytest.raises(CatalogError, match=r"is not free: a partition of default\.t"):
            acid.sql(f"CREATE TABLE c (id INT) STORED AS ORC LOCATION '{other}'")
        with pytest.raises(CatalogError, match=r"is not free: a partition of default\.t"):
            acid.sql(f"CREATE DATABASE c LOCATION '{other}'")
    for _ in ("with rows", "empty"):
        with pytest.raises(CatalogError, match=r"is not free: a partition of default\.t"):
            acid.adopt(text, location=place)
        acid.sql("TRUNCATE TABLE t PARTITION (p=1)")
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (1)")
    assert ids(acid) == [1]


def test_creating_a_table_does_not_read_the_definitions_of_others(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would be a round trip to the store."""
    for number in range(20):
        acid.sql(f"CREATE TABLE other{number} (id INT) {ACID}")
    read: list[TableName] = []
    catalog = type(acid.context.catalog)
    get_table = catalog.get_table

    def counted(self: Catalog, name: TableName) -> TableDefinition | None:
        read.append(name)
        return get_table(self, name)

    monkeypatch.setattr(catalog, "get_table", counted)
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    assert {name.name for name in read} == {"t"}
    assert len(read) < 5


def test_adding_a_partition_waits_for_a_drop(acid: AcidSession) -> None:
    """Otherwise its directory would stay behind, and CREATE TABLE of the same name would be refused."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("SET hive.lock.numretries=1")
    acid.sql("SET hive.lock.sleep.between.retries=1ms")
    with exclusive_table(acid.context, TableName("default", "t")), pytest.raises(LockTimeoutError):
        acid.sql("ALTER TABLE t ADD PARTITION (p=1)")
    assert not Path(acid.context.warehouse, "t", "p=1").exists()
    acid.sql("ALTER TABLE t ADD PARTITION (p=1)")
    assert acid.sql("SHOW PARTITIONS t").count() == 1


def test_two_tables_as_select_do_not_write_into_one_directory(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql("SET hive.lock.numretries=1")
    acid.sql("SET hive.lock.sleep.between.retries=1ms")
    text = "CREATE TABLE {} STORED AS PARQUET LOCATION '{}' AS SELECT 1 AS id"
    with acid.context.transactions.scope(acid.context.settings) as txn:
        txn.lock([lock_of_location(str(tmp_path / "x"))])  # as the first statement has it while it writes
        for place in (tmp_path / "x", f"file://{tmp_path}/x/"):
            with pytest.raises(LockTimeoutError):
                acid.sql(text.format("two", place))
    acid.sql(text.format("one", tmp_path / "x"))
    with pytest.raises(CatalogError, match=r"is not free: table default\.one"):
        acid.sql(text.format("two", tmp_path / "x"))
    assert acid.sql("SELECT * FROM one").count() == 1


@pytest.mark.parametrize("properties", [ACID, "STORED AS ORC"])
def test_a_partition_is_not_at_the_directory_of_its_table(acid: AcidSession, properties: str) -> None:
    """DROP PARTITION would delete the rows of all partitions."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {properties}")
    location = acid.table("t").definition.location
    link = Path(location) / "link"
    link.symlink_to(location)
    for place in (location, f"{location}/", f"file://{location}", str(link)):
        with pytest.raises(CatalogError, match=r"the directory of default\.t itself.*leave out LOCATION"):
            acid.sql(f"ALTER TABLE t ADD PARTITION (p=1) LOCATION '{place}'")
    assert acid.sql("SHOW PARTITIONS t").collect() == []


def test_external_as_a_property_keeps_the_files(acid: AcidSession, tmp_path: Path) -> None:
    """As in Hive, where it is the usual way to save files from DROP TABLE."""
    for number, properties in enumerate(("'EXTERNAL'='true'", "'a'='b'")):
        acid.sql(
            f"CREATE TABLE e (id INT) STORED AS ORC LOCATION '{tmp_path}/{number}' TBLPROPERTIES ({properties})"
        )
        acid.sql("ALTER TABLE e SET TBLPROPERTIES ('EXTERNAL'='TRUE')")
        acid.sql(f"INSERT INTO e VALUES ({number})")
        assert acid.table("e").definition.external
        with pytest.raises(ConfigError, match="EXTERNAL is 'yes'"):
            acid.sql("ALTER TABLE e SET TBLPROPERTIES ('EXTERNAL'='yes')")
        assert "CREATE EXTERNAL TABLE" in acid.sql("SHOW CREATE TABLE e").first()[0]
        acid.sql("DROP TABLE e")
        assert any((tmp_path / str(number)).iterdir())
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    for changes in ("'external'='true'", "'EXTERNAL'='TRUE', 'transactional'='true'"):
        with pytest.raises(CatalogError, match="EXTERNAL"):
            acid.sql(f"ALTER TABLE t SET TBLPROPERTIES ({changes})")


def test_reset_keeps_the_layout_of_a_metastore(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive 3 cannot read the other one; nobody has set it, so nobody can reset it."""
    monkeypatch.setattr(acid.context.store, "layout_level", lambda: "hive3")
    for statement in ("RESET", "RESET hiveacid.layout.level"):
        acid.sql(statement)
        assert acid.context.settings.get(LAYOUT_LEVEL) == "hive3"


def test_show_create_table_can_be_run(acid: AcidSession) -> None:
    """CREATE TABLE refuses the properties that hiveacid keeps for itself."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1)")
    acid.sql("ALTER TABLE t DROP PARTITION (p=1)")
    text = "\n".join(row[0] for row in acid.sql("SHOW CREATE TABLE t").collect())
    acid.sql("DROP TABLE t")
    acid.sql(text)
    assert ids(acid) == []


def test_rows_of_a_dropped_partition_do_not_come_back(acid: AcidSession) -> None:
    """DROP PARTITION changes the catalog first; here its deletion of the files has failed, as after a crash."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 2), (5, 5), (6, 6), (7, 7)")
    where = Path(acid.context.warehouse, "t")
    shutil.copytree(where, where.parent / "copy")
    acid.sql("ALTER TABLE t DROP PARTITION (p<>2)")
    for value in (1, 5, 6, 7):
        (where.parent / "copy" / f"p={value}").rename(where / f"p={value}")
    old = [*where.glob("p=[1567]/delta_0000001*")]
    assert len(old) == 4
    acid.sql("INSERT INTO t VALUES (3, 1)")
    acid.sql(
        "MERGE INTO t USING (SELECT 3 AS id, 5 AS p) s ON t.id = s.id AND t.p = s.p WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.p)"
    )
    acid.sql("ALTER TABLE t ADD PARTITION (p=6)")
    rows = pa.table({"id": pa.array([3], pa.int32()), "p": pa.array([7], pa.int32())})
    with hiveacid.open(acid.context.warehouse) as warehouse:
        warehouse.table("t").append(rows)
        assert warehouse.table("t").count() == 4
    assert ids(acid) == [2, 3, 3, 3]
    assert all(path.exists() for path in old)
    acid.clean()
    assert not any(path.exists() for path in old)
    assert ids(acid) == [2, 3, 3, 3]


def test_directories_with_rows_of_others_become_no_partition(acid: AcidSession) -> None:
    """Nothing tells whose they are: no DROP PARTITION came after their write ids."""
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    where = Path(acid.context.warehouse, "t")
    shutil.copytree(where / "p=2", where / "p=3")
    with pytest.raises(CatalogError, match=r"p=3 holds rows already \(delta_"):
        acid.sql("INSERT INTO t VALUES (3, 3)")
    acid.sql("ALTER TABLE t DROP PARTITION (p=1)")
    acid.sql("INSERT INTO t VALUES (4, 2)")
    (newer,) = where.glob("p=2/delta_0000004*")  # 2: of the INSERT that failed, 3: of the DROP
    shutil.copytree(newer, where / "p=3" / newer.name)
    rows = pa.table({"id": pa.array([3], pa.int32()), "p": pa.array([3], pa.int32())})
    for change in (
        lambda: acid.sql("INSERT INTO t VALUES (3, 3)"),
        lambda: acid.sql(
            "MERGE INTO t USING (SELECT 3 AS id, 3 AS p) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.p)"
        ),
        lambda: acid.sql("ALTER TABLE t ADD PARTITION (p=3)"),
        lambda: hiveacid.open(acid.context.warehouse).table("t").append(rows),
    ):
        with pytest.raises(CatalogError, match=r"p=3 holds rows already \(delta_0000004"):
            change()
    assert ids(acid) == [2, 4]
    acid.sql("INSERT OVERWRITE t VALUES (3, 3)")
    assert ids(acid) == [2, 3, 4]
    (where / "p=4" / "delta_0000099_0000099_0000").mkdir(parents=True)  # a writer's that has not committed
    acid.sql("INSERT INTO t VALUES (4, 4)")
    assert ids(acid) == [2, 3, 4, 4]


def test_a_renamed_table_keeps_its_directory_to_itself(acid: AcidSession) -> None:
    acid.sql("CREATE DATABASE d")
    acid.sql(f"CREATE TABLE a (id INT) {ACID}")
    acid.sql("INSERT INTO a VALUES (1)")
    acid.sql("ALTER TABLE a RENAME TO d.a")
    acid.sql("CREATE TABLE a (id INT) STORED AS PARQUET")
    assert ids(acid, "a") == []
    acid.sql("DROP TABLE a")
    assert ids(acid, "d.a") == [1]


def test_partitions_named_by_others_in_their_own_way_are_changed_where_they_are(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (1), (2)")
    where = Path(acid.context.warehouse, "t")
    ddl = acid.sql("SHOW CREATE TABLE t").collect()
    text = "\n".join(row[0] for row in ddl)
    copy = Path(acid.context.warehouse).parent / "copy"
    copy.mkdir()
    (where / "p=1").rename(copy / "p=01")
    acid.sql("DROP TABLE t")
    acid.adopt(text, location=str(copy))
    assert acid.table("t").to_df().where("p = 1").count() == 2
    for statement in (
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET id = 7",
        "INSERT INTO t PARTITION (p=1) VALUES (3)",
    ):
        acid.sql(statement)
    assert ids(acid) == [3, 7]
    assert [path.name for path in copy.iterdir() if path.name.startswith("p=")] == ["p=01"]


def test_a_list_may_be_older_than_the_files(acid: AcidSession, tmp_path: Path) -> None:
    """The later rows are those of unknown writers; a new write must not get the id of their directory."""
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1)")
    acid.sql("INSERT INTO t VALUES (2)")
    shutil.copytree(Path(acid.context.warehouse, "t"), tmp_path / "copy")
    text = f"CREATE TABLE u (id INT) {ACID}"
    acid.adopt(text, str(tmp_path / "copy"), "default.u:1:9223372036854775807::")
    assert ids(acid, "u") == [1]
    acid.sql("INSERT INTO u VALUES (3)")
    assert ids(acid, "u") == [1, 3]
    assert list((tmp_path / "copy").glob("delta_0000003_0000003_*"))


def test_a_plain_table_is_not_written_inside_a_transaction(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE t (id INT) STORED AS PARQUET")
    with pytest.raises(UnsupportedFeatureError, match="rolled back"), acid.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (1)")
    assert ids(acid) == []


def test_a_table_that_a_temporary_view_hides_is_not_changed(acid: AcidSession) -> None:
    """A query of the name reads the view: what was inserted would not be there, and what is there would be deleted."""
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1)")
    acid.sql("CREATE TEMPORARY VIEW t AS SELECT 7 AS id")
    try:
        for statement in (
            "INSERT INTO T VALUES (2)",
            "FROM (SELECT 2 AS id) s INSERT INTO t SELECT id",
            "UPDATE t SET id = 3",
            "DELETE FROM t",
            "TRUNCATE TABLE t",
            "DROP TABLE t",
            "ALTER TABLE t ADD COLUMNS (b INT)",
        ):
            with pytest.raises(CatalogError, match=r"temporary view in this session: .*name it default\.t"):
                acid.sql(statement)
        acid.sql("INSERT INTO default.t VALUES (2)")
    finally:
        acid.sql("DROP VIEW t")
    assert ids(acid) == [1, 2]


def test_create_table_as_select_if_not_exists_leaves_a_view_alone(acid: AcidSession) -> None:
    acid.sql("CREATE VIEW v AS SELECT 7 AS id")
    acid.sql(f"CREATE TABLE IF NOT EXISTS v {ACID} AS SELECT 8 AS id")
    assert acid.sql("SELECT id FROM v").collect()[0][0] == 7


NAMESAKES = {
    "DELETE FROM prod.stock WHERE EXISTS (SELECT 1 FROM other.stock WHERE other.stock.id = prod.stock.id)": [
        1
    ],
    "DELETE FROM prod.stock WHERE EXISTS (SELECT 1 FROM other.news AS stock WHERE stock.id = prod.stock.id)": [
        1,
        2,
    ],
    "DELETE FROM prod.stock WHERE EXISTS (SELECT 1 FROM other.news stock WHERE stock.id = prod.stock.id)": [
        1,
        2,
    ],
    "DELETE FROM prod.stock WHERE EXISTS (WITH Stock AS (SELECT 2 AS id) SELECT 1 FROM stock WHERE stock.id = prod.stock.id)": [
        1
    ],
    "UPDATE prod.stock SET id = (SELECT max(id) + 5 FROM other.stock WHERE other.stock.id = prod.stock.id) WHERE prod.stock.id = 2": [
        1,
        7,
    ],
}


@pytest.fixture
def two_stocks(acid: AcidSession) -> AcidSession:
    """Tables of one name in two databases: prod.stock with 1 and 2, other.stock with 2."""
    for database, table in (("prod", "stock"), ("other", "stock"), ("other", "news")):
        acid.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
        acid.sql(f"CREATE TABLE {database}.{table} (id INT) {ACID}")
    acid.sql("INSERT INTO prod.stock VALUES (1), (2)")
    acid.sql("INSERT INTO other.stock VALUES (2)")
    return acid


@pytest.mark.parametrize("statement", NAMESAKES)
def test_names_that_differ_in_the_database_only_are_not_mixed_up(
    two_stocks: AcidSession, statement: str
) -> None:
    """Without its database, a condition would compare a column with itself."""
    two_stocks.sql(statement)
    assert ids(two_stocks, "prod.stock") == NAMESAKES[statement]
    two_stocks.sql(
        "DELETE FROM prod.stock WHERE EXISTS (SELECT prod.stock.id FROM other.stock o WHERE o.id = prod.stock.id)"
    )
    assert ids(two_stocks, "prod.stock") == [one for one in NAMESAKES[statement] if one != 2]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT * FROM prod.stock WHERE NOT EXISTS (SELECT 1 FROM other.stock WHERE other.stock.id = prod.stock.id)",
            [1],
        ),
        ("SELECT prod.stock.id FROM prod.stock JOIN other.stock ON prod.stock.id = other.stock.id", [2]),
        (
            "SELECT other.stock.id FROM prod.stock LEFT JOIN other.stock ON prod.stock.id > other.stock.id",
            [None, None],
        ),
    ],
)
def test_queries_tell_tables_of_two_databases_apart(
    two_stocks: AcidSession, query: str, rows: list[int | None]
) -> None:
    """Queries are bound by their plan, in which each table keeps its database."""
    assert [row[0] for row in two_stocks.sql(query).collect()] == rows


def test_a_word_too_many_is_no_alias(acid: AcidSession) -> None:
    """Spark takes the last word of an expression for an alias, and the condition was then wider than its author's."""
    acid.sql(f"CREATE TABLE t (id INT, tenant INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 5), (2, 5)")
    for statement in (
        "DELETE FROM t WHERE tenant = 5 AND",
        "DELETE FROM t WHERE tenant = 5 LIMIT",
        "UPDATE t SET tenant = tenant tax",
        "UPDATE t SET tenant = 6 WHERE abs(tenant) = 5 OR",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.tenant > s.id AND WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND s.id = 1 OR THEN DELETE",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET tenant = 3 more",
    ):
        with pytest.raises(StatementError, match=r"line 1, column \d"):
            acid.sql(statement)
    table = acid.table("t")
    for change in (
        lambda: table.delete("tenant = 5 AND"),
        lambda: table.update({"tenant": "tenant tax"}, "id = 1"),
    ):
        with pytest.raises(StatementError):
            change()
    acid.sql("DELETE FROM t WHERE tenant = 5 AND id = 1 -- and no more")
    assert ids(acid) == [2]


@pytest.mark.parametrize("kind", [ACID, "STORED AS ORC", "STORED AS TEXTFILE"])
def test_a_cached_frame_does_not_answer_for_other_files_of_the_same_names(
    acid: AcidSession, kind: str
) -> None:
    acid.sql(f"CREATE TABLE c (id INT) {kind}")
    acid.sql("INSERT INTO c VALUES (1)")
    cached = acid.table("c").to_df().cache()
    try:
        assert cached.count() == 1
        if kind is ACID:
            acid.sql("DROP TABLE c")
            acid.sql(f"CREATE TABLE c (id INT) {kind}")
            acid.sql("INSERT INTO c VALUES (2)")
        else:
            acid.sql("INSERT OVERWRITE TABLE c VALUES (2)")
        assert ids(acid, "c") == [2]
        acid.sql("INSERT OVERWRITE TABLE c SELECT id * 10 FROM c")
        assert [row.id for row in cached.collect()] == [1]
    finally:
        cached.unpersist()
    assert ids(acid, "c") == [20]


def test_deletes_stay_in_their_partition(acid: AcidSession) -> None:
    """A job makes the partition's name from its value again, which must be the same name."""
    spark = acid.context.env.spark
    acid.sql("SET hiveacid.small.changes.max.bytes=0")
    ansi, zone = (spark.conf.get(f"spark.sql.{name}") for name in ("ansi.enabled", "session.timeZone"))
    try:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        acid.sql(f"CREATE TABLE d (id INT) PARTITIONED BY (p DECIMAL(20,8)) {ACID}")
        acid.sql("INSERT INTO d PARTITION (p=0) VALUES (1), (2)")
        acid.sql(
            "INSERT INTO d VALUES (3, 0.00000001), (4, NULL), (5, -0.00000012), (6, 0.000001), (7, -12.5)"
        )
        acid.sql("DELETE FROM d WHERE id IN (1, 3, 4, 5, 6, 7)")
        assert ids(acid, "d") == [2]
        names = {row[0].removeprefix("p=") for row in acid.sql("SHOW PARTITIONS d").collect()}
        values = {"0.00000000", "0.00000001", "-0.00000012", "0.00000100", "-12.50000000"}
        assert names == {*values, "__HIVE_DEFAULT_PARTITION__"}
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        acid.sql(f"CREATE TABLE s (id INT, v STRING) PARTITIONED BY (p TIMESTAMP) {ACID}")
        acid.sql("INSERT INTO s PARTITION (p='2024-03-31 02:30:00') VALUES (1, 'a')")
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        for statement in (
            "DELETE FROM s WHERE id = 1",
            "UPDATE s SET v = 'b'",
            "MERGE INTO s USING (SELECT 1 AS id) n ON s.id = n.id WHEN MATCHED THEN UPDATE SET v = 'c'",
        ):
            with pytest.raises(
                UnsupportedFeatureError,
                match="2024-03-31 02:30:00, a time that the time zone Europe/Berlin skips",
            ):
                acid.sql(statement)
        acid.sql("INSERT INTO s VALUES (2, 'x', TIMESTAMP'2024-04-01 02:30:00')")
        acid.sql("UPDATE s SET v = 'y' WHERE p > '2024-04-01'")  # of another partition
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        acid.sql("UPDATE s SET v = 'b' WHERE id = 1")
        assert sorted(map(tuple, acid.sql("SELECT id, v FROM s").collect())) == [(1, "b"), (2, "y")]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        spark.conf.set("spark.sql.session.timeZone", zone)
