"""Databases of a native session: Spark's mirror never deletes their directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.core.model import TableName
from hiveacid.errors import CatalogError, UnsupportedFeatureError
from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def foreign_directory(place: Path) -> Path:
    (place / ".ssh").mkdir(parents=True)
    (place / ".ssh" / "id").write_text("key")
    (place / "report.csv").write_text("x")
    return place


def files(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


def test_drop_database_keeps_files_that_are_not_of_its_tables(native: NativeSession, tmp_path: Path) -> None:
    foreign = [".ssh/id", "report.csv"]
    home = foreign_directory(tmp_path / "home")
    for drop in ("DROP DATABASE d1", "DROP DATABASE d1 CASCADE", "DROP SCHEMA IF EXISTS spark_catalog.d1"):
        native.sql(f"CREATE DATABASE d1 LOCATION '{home}'")
        native.sql(drop)
        assert files(home) == foreign
        assert not native.catalog.databaseExists("d1")
        assert native.acid.context.catalog.get_database("d1") is None
    native.sql(f"CREATE DATABASE d1 LOCATION '{home}'")
    native.sql(f"CREATE TABLE d1.t (i INT) {ACID}")
    native.sql("INSERT INTO d1.t VALUES (1)")
    native.sql("CREATE TABLE d1.own USING parquet AS SELECT 1 AS a")
    own = Path(
        native.sql("DESCRIBE FORMATTED d1.own")
        .where("col_name = 'Location'")
        .first()[1]
        .removeprefix("file:")
    )
    assert own.is_dir()
    assert not own.is_relative_to(home)
    with pytest.raises(Exception, match="d1"):
        native.sql("DROP DATABASE d1")
    assert native.sql("SELECT * FROM d1.own").count() == 1
    native.sql("DROP DATABASE d1 CASCADE")
    assert files(home) == foreign
    assert not own.exists()
    if hasattr(native.catalog, "dropDatabase"):
        native.catalog.createDatabase("d1", properties={"location": str(home)})
        native.catalog.dropDatabase("d1")
        assert files(home) == foreign
    in_jvm = native._jsparkSession
    in_jvm.sql(f"CREATE DATABASE d1 LOCATION '{home}'")
    assert native.acid.context.catalog.get_database("d1") is not None
    in_jvm.sql("DROP DATABASE d1")
    assert native.acid.context.catalog.get_database("d1") is None
    assert files(home) == foreign


def test_drop_database_keeps_the_files_beside_sparks_own_place(native: NativeSession) -> None:
    """Without LOCATION, Spark's mirror is at Spark's own place, which may be the warehouse's, too."""
    native.sql("CREATE DATABASE d2")
    place = Path(
        native.sql("DESCRIBE NAMESPACE d2").where("info_name = 'Location'").first()[1].removeprefix("file:")
    )
    place.mkdir(parents=True, exist_ok=True)
    (place / "kept").write_text("x")
    native.sql("DROP DATABASE d2 CASCADE")
    assert files(place) == ["kept"]
    (place / "kept").unlink()


def test_spark_alone_changes_no_database(native: NativeSession, tmp_path: Path) -> None:
    home = foreign_directory(tmp_path / "home")
    native.sql("CREATE DATABASE d5")
    for statement in (
        f"ALTER DATABASE d5 SET LOCATION '{home}'",
        f"ALTER NAMESPACE spark_catalog.d5 SET LOCATION '{home}'",
        f"BEGIN CREATE DATABASE d6 LOCATION '{home}'; DROP DATABASE d6; END",
        "CREATE DATABASE d6 LOCATION :place",
    ):
        with pytest.raises(UnsupportedFeatureError, match="native session"):
            native.sql(statement)
    native.sql("DROP DATABASE d5")
    native.sql(f"CREATE DATABASE IDENTIFIER('d6') LOCATION '{home}'")
    assert native.acid.context.catalog.get_database("d6") is not None
    native.sql("DROP DATABASE IDENTIFIER('d6')")
    assert native.acid.context.catalog.get_database("d6") is None
    assert files(home) == [".ssh/id", "report.csv"]


def test_a_database_is_not_where_others_keep_their_tables(native: NativeSession, tmp_path: Path) -> None:
    warehouse = native.acid.context.warehouse
    native.sql(f"CREATE DATABASE d3 LOCATION '{tmp_path}/data/inner'")
    native.sql(f"CREATE TABLE d3.t (i INT) {ACID}")
    for place in (
        warehouse,
        str(Path(warehouse).parent),
        f"{warehouse}/.hiveacid",
        f"{tmp_path}/data",
        f"{tmp_path}/data/inner/t",
    ):
        with pytest.raises(CatalogError, match=r"not free|cannot be at"):
            native.sql(f"CREATE DATABASE d4 LOCATION '{place}'")
        assert not native.catalog.databaseExists("d4")
    native.sql("DROP DATABASE d3 CASCADE")
    assert (tmp_path / "data" / "inner").is_dir()  # of its user


def test_the_default_directory_of_a_dropped_database_goes_if_it_is_empty(native: NativeSession) -> None:
    place = Path(native.acid.context.warehouse, "d7.db")
    for kept in ([], ["foreign"]):
        native.sql("CREATE DATABASE d7")
        native.sql(f"CREATE TABLE d7.t (i INT) {ACID}")
        native.sql("INSERT INTO d7.t VALUES (1)")
        for name in kept:
            (place / name).write_text("x")
        native.sql("DROP DATABASE d7 CASCADE")
        assert place.exists() == bool(kept)


def test_a_renamed_table_keeps_its_place_from_a_new_database(native: NativeSession) -> None:
    native.sql("CREATE DATABASE d8")
    native.sql(f"CREATE TABLE d8.t (i INT) {ACID}")
    native.sql("INSERT INTO d8.t VALUES (1)")
    native.sql("ALTER TABLE d8.t RENAME TO default.kept")
    for _ in range(2):
        native.sql("DROP DATABASE d8")
        assert native.sql("SELECT * FROM kept").count() == 1
        native.sql("CREATE DATABASE d8")
        native.sql(f"CREATE TABLE d8.t (i INT) {ACID}")
        native.sql("DROP TABLE d8.t")
    native.sql("DROP DATABASE d8")


def test_spark_writes_into_no_directory_of_a_transactional_table(
    native: NativeSession, tmp_path: Path
) -> None:
    native.sql(f"CREATE TABLE t (i INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1)")
    native.sql("CREATE TABLE own USING parquet PARTITIONED BY (p) AS SELECT 1 AS a, 2 AS p")
    table = native.acid.context.catalog.get_table(TableName("default", "t"))
    assert table is not None
    place = table.location
    warehouse = Path(place).parent
    before = files(Path(place))
    for text in (
        f"CREATE TABLE s (i INT) USING parquet LOCATION '{place}'",
        f"CREATE TABLE s USING parquet LOCATION 'file:{place}/x' AS SELECT 1 AS i",
        f"CREATE TABLE s (i INT) USING csv OPTIONS (header 'true', path '{warehouse}')",
        f"CREATE TABLE s (i INT) USING csv OPTIONS ('path' = '{warehouse}/.hiveacid')",
        f"ALTER TABLE own SET LOCATION '{place}'",
        f"ALTER TABLE own ADD PARTITION (p = 3) LOCATION '{place}/delta'",
        f"INSERT OVERWRITE DIRECTORY '{place}' USING csv SELECT 1",
        f"INSERT OVERWRITE LOCAL DIRECTORY '{warehouse}' USING csv SELECT 1",
        f"EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY \"{place}\" USING csv SELECT 1'",
    ):
        with pytest.raises(Exception, match="is not free"):
            native.sql(text)
    assert files(Path(place)) == before
    native.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING csv SELECT 1 AS location")
    native.sql(f"CREATE TABLE s (location STRING) USING csv LOCATION '{tmp_path}/out'")
    assert native.sql(f"SELECT * FROM s WHERE location = '{place}' OR location = '1'").count() == 1
    native.sql(f"CREATE TEMPORARY VIEW raw USING orc OPTIONS (path '{place}/delta_0000001_0000001_0000')")
    assert native.sql("SELECT * FROM raw").columns
