"""Statements that cannot be right: each a typed error that says what is wrong, and nothing written.

Write ids may be burnt; no directory, no file and no row may appear.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid import errors as e
from support.corpus.untouched import files, nothing_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

ROWS = [(1, "a", 1.5, 1), (2, "b", None, 1), (3, None, 3.5, 2)]


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return a session with three tables that no statement here may change."""
    import hiveacid  # noqa: PLC0415

    warehouse = tmp_path_factory.mktemp("bad") / "wh"
    acid = hiveacid.connect(spark, warehouse=str(warehouse), settings={"hive.lock.numretries": "2"})
    columns = "(a INT, s STRING, d DECIMAL(5,2), st STRUCT<x: INT>) PARTITIONED BY (p INT)"
    bucketed = f"{columns} CLUSTERED BY (a) INTO 2 BUCKETS"
    acid.sql(f"CREATE TABLE t {bucketed} STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    for name, more in (
        ("plain", ""),
        ("inserts", "'transactional'='true', 'transactional_properties'='insert_only'"),
    ):
        properties = f" TBLPROPERTIES ({more})" if more else ""
        acid.sql(f"CREATE TABLE {name} {columns} STORED AS ORC{properties}")
    acid.sql("CREATE TABLE lines (a INT)")  # a text table
    for name in ("t", "plain", "inserts"):
        acid.sql(
            f"INSERT INTO {name} (a, s, d, p) VALUES (1, 'a', 1.5, 1), (2, 'b', NULL, 1), (3, NULL, 3.5, 2)"
        )
    yield acid
    acid.close()


WRONG = {
    # unknown things
    "INSERT INTO nope VALUES (1)": (e.NoSuchTableError, "nope"),
    "FROM (SELECT a FROM plain WHERE rand() < 2) x INSERT INTO inserts (a, p) SELECT a, 1 INSERT INTO t (a, p) SELECT a, 1": (
        e.UnsupportedFeatureError,
        "other rows",
    ),
    "FROM (SELECT a FROM plain TABLESAMPLE (50 PERCENT)) x INSERT INTO inserts (a, p) SELECT a, 1 INSERT INTO t (a, p) SELECT a, 1": (
        e.UnsupportedFeatureError,
        "REPEATABLE",
    ),
    "INSERT INTO t TABLE nope": (e.NoSuchTableError, "nope"),
    "INSERT INTO nowhere.t VALUES (1)": (e.NoSuchDatabaseError, "nowhere"),
    "UPDATE nope SET a = 1": (e.NoSuchTableError, "nope"),
    "DELETE FROM nope": (e.NoSuchTableError, "nope"),
    "MERGE INTO nope USING t ON true WHEN MATCHED THEN DELETE": (e.NoSuchTableError, "nope"),
    "MERGE INTO t USING nope AS s ON t.a = s.a WHEN MATCHED THEN DELETE": (e.NoSuchTableError, "nope"),
    "SELECT * FROM nope": (e.NoSuchTableError, "nope"),
    "USE nowhere": (e.NoSuchDatabaseError, "nowhere"),
    "TRUNCATE TABLE nope": (e.NoSuchTableError, "nope"),
    "ALTER TABLE t PARTITION (p = 99) COMPACT 'major'": (e.NoSuchPartitionError, "partition"),
    "INSERT INTO t PARTITION (q = 1) VALUES (1, 'x', 1, NULL)": (e.NoSuchColumnError, "q"),
    "INSERT INTO t (a, nope) VALUES (1, 2)": (e.NoSuchColumnError, "nope"),
    "INSERT INTO t (a, a) VALUES (1, 2)": (e.ParseError, "twice"),
    "UPDATE t SET nope = 1": (e.NoSuchColumnError, "nope"),
    "UPDATE t SET s = nope": (e.NoSuchColumnError, "nope"),
    "UPDATE t SET s = 'x' WHERE nope = 1": (e.NoSuchColumnError, "nope"),
    "DELETE FROM t WHERE nope = 1": (e.NoSuchColumnError, "nope"),
    "SELECT nope FROM t": (e.NoSuchColumnError, "nope"),
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.nope = s.k WHEN MATCHED THEN DELETE": (e.NoSuchColumnError, "nope"),
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.a = s.k WHEN MATCHED THEN UPDATE SET nope = 1": (e.NoSuchColumnError, "nope"),
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.a = s.k WHEN NOT MATCHED THEN INSERT (nope) VALUES (1)": (e.NoSuchColumnError, "nope"),
    # values and types
    "INSERT INTO t VALUES ('abc', 's', 1, NULL, 1)": (e.DataError, "abc"),
    "INSERT INTO t VALUES (3000000000, 's', 1, NULL, 1)": (e.DataError, "3000000000"),
    "INSERT INTO t SELECT named_struct('x', 1), 's', 1, NULL, 1": (e.SchemaMismatchError, "a"),
    "INSERT INTO t VALUES (1, 's', 1, 5, 1)": (e.SchemaMismatchError, "st"),
    "INSERT INTO t VALUES (1, array(1), 1, NULL, 1)": (e.SchemaMismatchError, "s"),
    "INSERT INTO t VALUES (1, 's')": (e.SchemaMismatchError, "5 columns"),
    "INSERT INTO t VALUES (1, 's', 1, NULL, 1, 6)": (e.SchemaMismatchError, "5 columns"),
    "INSERT INTO t PARTITION (p = 1) VALUES (1, 's', 1, NULL, 1)": (e.SchemaMismatchError, "4 columns"),
    "INSERT INTO t PARTITION (p = 'x') VALUES (1, 's', 1, NULL)": (e.DataError, "x"),
    "INSERT INTO t VALUES (1, 's', 1, NULL, 'one')": (e.DataError, "one"),
    "UPDATE t SET p = 'x'": (e.DataError, "x"),
    "UPDATE t SET d = 'abc'": (e.DataError, "abc"),
    "UPDATE t SET d = 1 / (a - a)": (e.DataError, "zero"),
    "UPDATE t SET st = 7": (e.SchemaMismatchError, "st"),
    "DELETE FROM t WHERE a / 0 > 1": (e.DataError, "zero"),
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.a = s.k WHEN MATCHED THEN UPDATE SET d = 'abc'": (e.DataError, "abc"),
    "MERGE INTO t USING (VALUES (1), (1)) AS s(k) ON t.a = s.k WHEN MATCHED THEN DELETE": (e.MergeCardinalityError, "more than one"),
    "MERGE INTO t USING (VALUES (1), (1)) AS s(k) ON t.a = s.k WHEN MATCHED AND s.k = 7 THEN UPDATE SET s = 'x'": (e.MergeCardinalityError, "more than one"),
    # the wrong kind of table
    "UPDATE plain SET s = 'x'": (e.NotTransactionalError, r"plain.*STORED AS ORC TBLPROPERTIES .*hive\.create\.as\.acid"),
    "DELETE FROM plain": (e.NotTransactionalError, "plain.*STORED AS ORC TBLPROPERTIES"),
    "ALTER TABLE plain COMPACT 'major'": (e.NotTransactionalError, "plain.*STORED AS ORC TBLPROPERTIES"),
    "UPDATE inserts SET s = 'x'": (e.InsertOnlyError, "insert-only"),
    "DELETE FROM inserts": (e.InsertOnlyError, "insert-only"),
    "MERGE INTO inserts USING (SELECT 1 AS k) s ON a = s.k WHEN MATCHED THEN DELETE": (e.InsertOnlyError, "insert-only"),
    "FROM t INSERT INTO t SELECT a, s, d, st, p INSERT INTO t SELECT 1, s, d, st, p WHERE nope": (e.NoSuchColumnError, "nope"),
    "FROM t INSERT INTO t PARTITION (p = 1) SELECT a, s, d, st INSERT INTO t PARTITION (p = 1) SELECT a, s, d, st": (e.OutputTwiceError, "twice"),
    # definitions
    "CREATE TABLE t (a INT)": (e.AlreadyExistsError, "t"),
    "CREATE TABLE new (a INT, a INT)": (e.ParseError, "twice"),
    "CREATE TABLE new (a INT, b DATETIME)": (e.HiveAcidError, "use timestamp"),
    "CREATE TABLE new (a INT) TBLPROPERTIES ('skip.header.line.count'='1')": (e.UnsupportedFeatureError, "header = true"),
    "ALTER TABLE lines SET TBLPROPERTIES ('skip.footer.line.count'='1')": (e.UnsupportedFeatureError, "hiveacid ingest"),
    "CREATE TABLE new (a NONSENSE)": (e.HiveAcidError, "(?i)nonsense"),
    "CREATE TABLE new (a INT) CLUSTERED BY (b) INTO 2 BUCKETS STORED AS ORC": (e.ParseError, "b is not"),
    "CREATE TABLE new (a INT) CLUSTERED BY (a) INTO 4097 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')": (e.CatalogError, "4096"),
    "CREATE TABLE new (a INT) STORED AS ORC LOCATION 'nosuch://bucket/new'": (e.HiveAcidError, "nosuch"),
    "CREATE DATABASE new LOCATION 'nosuch://bucket/new'": (e.HiveAcidError, "nosuch"),
    "CREATE TABLE new (a INT) STORED AS PARQUET TBLPROPERTIES ('transactional'='true')": (e.CatalogError, "ORC"),
    "CREATE TABLE new (a INT) STORED AS JSONFILE TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')": (e.UnsupportedFeatureError, "use ORC, PARQUET"),
    "CREATE TABLE new STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT nope FROM t": (e.NoSuchColumnError, "nope"),
    "CREATE TABLE new STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT CAST(s AS INT) AS a FROM t": (e.DataError, "'[ab]'"),
    "ALTER TABLE t ADD COLUMNS (s INT)": (e.SchemaMismatchError, "twice"),
    "ALTER TABLE t SET TBLPROPERTIES ('transactional'='false')": (e.CatalogError, "transactional"),
    "ALTER TABLE t ADD PARTITION (p = 1)": (e.AlreadyExistsError, "p=1"),
    "ALTER TABLE t ADD PARTITION (p = 'x')": (e.DataError, "x"),
    # outside the grammar
    "": (e.ParseError, "line 1"),
    "FLUSH TABLE t": (e.ParseError, "line 1, column 1"),
    "UPDATE t SET": (e.ParseError, "line 1"),
    "DELETE t WHERE a = 1 AND": (e.ParseError, "line 1"),
    "INSERT INTO t VALUES (1, 's'": (e.ParseError, "line 1"),
    "DELETE FROM t\nWHERE a = 1 1": (e.ParseError, "line 2, column"),
    "MERGE INTO t USING s ON t.a = s.a": (e.ParseError, "WHEN"),
    "SELECT * FROM t; DROP TABLE t": (e.ParseError, "line 1, column 16"),
}  # fmt: skip


@pytest.mark.sampled(10, "the cases differ in one value each")
@pytest.mark.parametrize("sql", WRONG)
def test_a_wrong_statement_says_what_is_wrong_and_writes_nothing(home: AcidSession, sql: str) -> None:
    error, words = WRONG[sql]
    with nothing_written(home, "t"), pytest.raises(error, match=words):
        home.sql(sql).collect()


def test_no_database_lies_in_a_table_or_in_the_store(home: AcidSession) -> None:
    warehouse = Path(home.context.warehouse)
    for place in ("t", "t/p=1", ".hiveacid", ".hiveacid/d"):
        with nothing_written(home, "t"), pytest.raises(e.CatalogError, match="is not free"):
            home.sql(f"CREATE DATABASE new LOCATION '{warehouse}/{place}'")
    assert "new" not in home.context.catalog.list_databases()


def test_internal_columns_are_nobodys_suggestion(home: AcidSession) -> None:
    with pytest.raises(e.NoSuchColumnError) as failed:
        home.sql("SELECT ROW__ID FROM plain")
    assert "__hiveacid" not in str(failed.value)


@pytest.mark.sampled(8, "the cases differ in one value each")
@pytest.mark.parametrize(
    ("verb", "error"),
    [
        (lambda t, f: t.insert(f.toDF("a", "nope")), e.SchemaMismatchError),
        (lambda t, f: t.insert(f.toDF("a", "p")), e.SchemaMismatchError),
        (lambda t, f: t.insert(f, partition={"nope": 1}), e.NoSuchColumnError),
        (lambda t, f: t.overwrite(f, partition={"p": "x"}), e.DataError),
        (lambda t, _: t.update({"nope": "1"}), e.NoSuchColumnError),
        (lambda t, _: t.update({}), e.ConfigError),
        (lambda t, _: t.update({"s": "'x'", "S": "'y'"}), e.ConfigError),
        (lambda t, _: t.update({"s": "'x'", "`s`": "'y'"}), e.ConfigError),
        (lambda t, f: t.merge(f, on="t.a = s.a").when_matched_update({"s": "'x'", "S": "'y'"}).execute(), e.ConfigError),
        (lambda t, f: t.merge(f, on="t.a = s.b").when_not_matched_insert({"a": "5", "A": "6", "p": "1"}).execute(), e.ConfigError),
        (lambda t, f: t.overwrite(f.selectExpr("a", "'x' s", "1.5 d", "NULL st"), partition={"p": 1, "P": 2}), e.ConfigError),
        (lambda t, _: t.update({"s": "1 +"}), e.ParseError),
        (lambda t, _: t.delete("a ="), e.ParseError),
        (lambda t, f: t.merge(f, on="t.a = s.a").execute(), e.ConfigError),
        (lambda t, f: t.merge(f, on="t.nope = s.a").when_matched_delete().execute(), e.NoSuchColumnError),
        (lambda t, f: t.merge(f.union(f), on="t.a = s.a").when_matched_delete().execute(), e.MergeCardinalityError),
        (lambda t, _: t.compact("gigantic"), e.ConfigError),
        (lambda t, _: t.compact("major", partition={"p": 99}), e.NoSuchPartitionError),
        (lambda t, _: t.scan(columns=["nope"]).to_df().collect(), e.NoSuchColumnError),
        (lambda t, _: t.scan(where="nope = 1").to_df().collect(), e.NoSuchColumnError),
        (lambda t, _: t.scan(where=5), e.ConfigError),
        (lambda t, _: t.insert([(1, 2)]), e.ConfigError),
        (lambda t, _: t.merge(None, on="t.a = s.a"), e.ConfigError),
        (lambda t, _: t.update(["s"]), e.ConfigError),
        (lambda t, _: t.update({1: "2"}), e.ConfigError),
        (lambda t, _: t.update({"s": 5}), e.ConfigError),
        (lambda t, _: t.delete(True), e.ConfigError),
        (lambda t, f: t.merge(f, on="t.a = s.a").when_matched_update({"s": None}).execute(), e.ConfigError),
        (lambda t, f: t.merge(f, on="t.a = s.a").when_not_matched_insert({"a": 5, "p": "1"}).execute(), e.ConfigError),
        (lambda t, f: t.merge(f, on=True).when_matched_delete().execute(), e.ConfigError),
        (lambda t, _: t.as_of("1"), e.ConfigError),
        (lambda t, _: t.as_of(1.5), e.ConfigError),
        (lambda t, _: t.as_of(timestamp=5), e.ConfigError),
        (lambda t, _: t.as_of(timestamp=dt.date(1999, 1, 1)).to_df(), e.NotEnoughHistoryError),
        (lambda t, _: t.changes(1.5).to_df(), e.ConfigError),
        (lambda t, _: t.changes(0, key="nope").to_df(), e.ConfigError),
        (lambda t, _: t.scan(columns="nope").to_df(), e.NoSuchColumnError),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_is_wrong_and_writes_nothing(
    home: AcidSession, verb: object, error: type[Exception]
) -> None:
    frame = home.context.env.spark.createDataFrame([(1, 2)], "a int, b int")
    with nothing_written(home, "t"), pytest.raises(error):
        verb(home.table("t"), frame)  # type: ignore[operator]


@pytest.fixture
def own(acid: AcidSession) -> AcidTable:
    """Return a table of this test alone: two partitions, a delete, everything in one bucket each."""
    acid.sql(
        "CREATE TABLE own (a INT, s STRING) PARTITIONED BY (p INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO own SELECT id, repeat(uuid(), 50), id % 2 FROM range(1000)")
    acid.sql("DELETE FROM own WHERE a < 10")
    return acid.table("own")


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garbage(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * (file.stat().st_size // 256 + 1))


def zeros_inside(file: Path) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + len(data) // 4] = bytes(len(data) // 4)
    file.write_bytes(data)


def text(file: Path) -> None:
    file.write_text("a,s\n1,x\n")


@pytest.mark.sampled(8, "the cases differ in one value each")
@pytest.mark.parametrize("damage", [truncated, garbage, zeros_inside, text])
@pytest.mark.parametrize("kind", ["delta", "delete_delta"])
def test_a_damaged_file_is_named(acid: AcidSession, own: AcidTable, damage: object, kind: str) -> None:
    location = Path(own.definition.location)
    file = next(iter(sorted(location.glob(f"p=0/{kind}_*/bucket_*"))))
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    damage(file)  # type: ignore[operator]
    before = files(acid.context.warehouse)
    statements = [
        lambda: own.update({"s": "concat(s, 'x')"}),
        lambda: acid.sql("DELETE FROM own WHERE s LIKE '%x'"),
        lambda: own.compact("major", partition={"p": 0}),
        lambda: acid.sql("INSERT OVERWRITE TABLE own SELECT a + 1, s, p FROM own"),
    ]
    for statement in statements:
        with pytest.raises(e.BadFileError, match=file.name) as raised:
            statement()
        assert str(file) in str(raised.value)
    assert files(acid.context.warehouse) == before
    assert acid.sql("SELECT count(*) FROM own WHERE p = 1").first()[0] == 495


def test_a_missing_file_is_named(own: AcidTable) -> None:
    file = next(iter(sorted(Path(own.definition.location).glob("p=0/delta_*/bucket_*"))))
    frame = own.to_df()
    file.unlink()
    with pytest.raises(Exception, match=file.name):  # Spark's own, or ours where we execute
        frame.collect()


@pytest.mark.exhaustive("a partition whose directory is missing stays", cases=("]",))
@pytest.mark.parametrize("lost", ["", "p=0"])
def test_a_missing_directory_is_named(acid: AcidSession, own: AcidTable, lost: str) -> None:
    directory = Path(own.definition.location) / lost
    shutil.rmtree(directory)
    statements = "SELECT * FROM own", "UPDATE own SET s = 'x'", "ALTER TABLE own COMPACT 'major'"
    for statement in statements:  # readers know the files, and miss the first of them
        with pytest.raises((e.StorageError, e.FormatError), match="own"):
            acid.sql(statement).collect()
    acid.set("hiveacid.read.file.records", "false")
    for statement in statements:
        with pytest.raises(e.MissingDirectoryError, match="own"):
            acid.sql(statement).collect()
    assert not directory.exists()


def test_a_broken_directory_name_is_named(acid: AcidSession, own: AcidTable) -> None:
    (Path(own.definition.location) / "p=0" / "delta_x_y").mkdir()
    acid.set("hiveacid.read.file.records", "false")
    with pytest.raises(e.BadDirectoryNameError, match="delta_x_y"):
        acid.sql("SELECT * FROM own").collect()


@contextmanager
def read_only(directory: Path) -> Iterator[bool]:
    """Let nobody write into a directory: by its rights, or where root runs the tests by what stops root, too."""
    if os.geteuid():
        for path in (directory, *directory.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            yield True
        finally:
            for path in (directory, *directory.rglob("*")):
                path.chmod(0o755)
        return
    for stop, go_on in (
        (["mount", "--bind", "-o", "ro", str(directory), str(directory)], ["umount", str(directory)]),
        (["chattr", "-R", "+i", str(directory)], ["chattr", "-R", "-i", str(directory)]),
    ):
        with suppress(OSError):
            if subprocess.run(stop, capture_output=True, check=False).returncode == 0:
                try:
                    yield True
                finally:
                    subprocess.run(go_on, check=True)
                return
    yield False


def test_a_table_in_a_read_only_place(acid: AcidSession, own: AcidTable) -> None:
    """Where root may write everywhere (no mount, no chattr), a directory of the kernel's must do."""
    location = Path(own.definition.location)
    before = files(location)
    with read_only(location) as stopped:
        if stopped:
            for statement in (
                "INSERT INTO own VALUES (1, 'x', 0)",
                "UPDATE own SET s = 'x'",
                "INSERT OVERWRITE TABLE own VALUES (1, 'x', 0)",
                "ALTER TABLE own PARTITION (p = 0) COMPACT 'major'",
                "TRUNCATE TABLE own",
            ):
                with pytest.raises(e.StorageError):
                    acid.sql(statement)
            assert acid.sql("SELECT count(*) FROM own").first()[0] == 990
    assert files(location) == before
    with pytest.raises(e.StorageError, match="/proc"):
        acid.sql("CREATE TABLE elsewhere (a INT) STORED AS ORC LOCATION '/proc/hiveacid-test'")
    acid.sql("UPDATE own SET s = 'works again'")


def test_a_session_that_takes_names_for_patterns(acid: AcidSession, own: AcidTable) -> None:
    """Spark itself would leave out the columns that no pattern matches."""
    spark, before = acid.context.env.spark, files(own.definition.location)
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    try:
        for statement in (
            "SELECT * FROM own",
            "SELECT * FROM hiveacid_changes('own', 0)",
            "INSERT INTO own VALUES (1, 'x', 0)",
            "INSERT INTO own SELECT 1, 'x', 0",
            "UPDATE own SET s = 'x'",
            "DELETE FROM own WHERE a = 1",
            "MERGE INTO own USING (SELECT 1 AS k) s ON a = k WHEN MATCHED THEN DELETE",
            "ALTER TABLE own PARTITION (p = 0) COMPACT 'major' AND WAIT",
        ):
            with pytest.raises(e.HiveAcidError, match="quotedRegexColumnNames"):
                acid.sql(statement)
        with pytest.raises(e.UnsupportedFeatureError, match="=false"):
            own.to_df()
    finally:
        spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")
    assert files(own.definition.location) == before
    assert acid.sql("SELECT count(*) FROM own").first()[0] == 990


def test_the_first_committer_wins(acid: AcidSession, own: AcidTable) -> None:
    with pytest.raises(e.WriteConflictError), acid.transaction() as txn:  # noqa: PT012 - the block's end raises
        assert txn.table("own").to_df().count() == 990
        acid.sql("UPDATE own SET s = 'first'")
        txn.table("own").update({"s": "'second'"})
    assert [row[0] for row in acid.sql("SELECT DISTINCT s FROM own").collect()] == ["first"]
    acid.clean()
    kinds = {row.state for row in own.inspect.deltas().collect()}
    assert kinds == {"used"}


def test_a_lock_that_is_not_given_in_time(acid: AcidSession, own: AcidTable) -> None:
    acid.set("hive.txn.xlock.write", "true")
    acid.set("hive.lock.numretries", "2")
    acid.set("hive.lock.sleep.between.retries", "1s")
    with acid.transaction() as txn:
        txn.sql("UPDATE own SET s = 'mine' WHERE a = 10")
        before = files(own.definition.location)
        with pytest.raises(e.LockTimeoutError, match="SHOW LOCKS"):
            acid.sql("DELETE FROM own")
        assert files(own.definition.location) == before
    assert acid.sql("SELECT count(*) FROM own WHERE s = 'mine'").first()[0] == 1
