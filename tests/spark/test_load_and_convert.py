"""LOAD DATA and ALTER TABLE SET TBLPROPERTIES: layouts and refusals as Hive 4.0.1 showed them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

import hiveacid
from hiveacid.errors import (
    AcidFileLoadError,
    AlreadyExistsError,
    BadDirectoryNameError,
    CatalogError,
    FileFormatMismatchError,
    HiveAcidError,
    InvalidPathError,
    LockTimeoutError,
    NotEnoughHistoryError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.write import load
from support.corpus.acid_files import put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


@pytest.fixture(scope="module")
def acid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """One connection for the module."""
    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("load")))
    yield connection
    connection.close()


def write(path: Path, *rows: tuple[Any, ...], row: str = "a:int,b:string") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = pyorc.Writer(file, f"struct<{row}>")
        for values in rows:
            writer.write(values)
        writer.close()


def several(folder: Path) -> Path:
    write(folder / "b_file", (1, "b1"), (2, "b2"))
    write(folder / "a_file.orc", (3, "a1"))
    write(folder / "000007_0", (4, "z"))
    write(folder / "000007_0_copy_1", (5, "zc"))
    write(folder / "_hidden", (9, "no"))
    return folder


def rows(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in acid.sql(query).collect()), key=repr)


def layout(acid: AcidSession, table: str) -> list[str]:
    root = Path(acid.table(table).definition.location)
    paths = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(path for path in paths if not path.rpartition("/")[2].startswith(("_", ".")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_load_into_full_acid(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE la (a INT, b STRING) STORED AS ORC {ACID}")
    acid.sql("INSERT INTO la VALUES (0, 'ins')")
    source = several(tmp_path / "s")
    (report,) = acid.sql(f"LOAD DATA LOCAL INPATH '{source}' INTO TABLE la").collect()
    assert (report["num_inserted_rows"], report["write_id"]) == (5, 2)
    assert [path for path in layout(acid, "la") if "0000002" in path] == [
        f"delta_0000002_0000002_0000/00000{n}_0" for n in range(4)
    ]
    assert rows(acid, "SELECT ROW__ID.bucketid, ROW__ID.rowid, a FROM la WHERE a > 0") == [
        (536870912, 0, 4),
        (536936448, 0, 5),
        (537001984, 0, 3),
        (537067520, 0, 1),
        (537067520, 1, 2),
    ]
    assert len(names(source)) == 5
    acid.sql("UPDATE la SET b = 'u' WHERE a = 5")
    acid.sql("DELETE FROM la WHERE a = 2")
    acid.sql(f"LOAD DATA INPATH '{source}/b_*' INTO TABLE la")
    assert names(source) == ["000007_0", "000007_0_copy_1", "_hidden", "a_file.orc"]
    expected = [(0, "ins"), (1, "b1"), (1, "b1"), (2, "b2"), (3, "a1"), (4, "z"), (5, "u")]
    assert rows(acid, "SELECT * FROM la") == expected
    acid.sql("ALTER TABLE la COMPACT 'minor'")
    assert rows(acid, "SELECT * FROM la") == expected
    acid.sql("ALTER TABLE la COMPACT 'major'")
    assert rows(acid, "SELECT * FROM la") == expected
    acid.sql(f"LOAD DATA INPATH '{source}/a_file.orc' OVERWRITE INTO TABLE la")
    assert [path for path in layout(acid, "la") if path.endswith("_0")] == ["base_0000006/000000_0"]
    assert rows(acid, "SELECT ROW__ID.writeid, a FROM la") == [(6, 3)]
    with pytest.raises(InterruptedError):
        _load_and_roll_back(acid, source / "000007_0")
    assert (source / "000007_0").exists()
    assert rows(acid, "SELECT a FROM la") == [(3,)]


def _load_and_roll_back(acid: AcidSession, file: Path) -> None:
    with acid.transaction() as txn:
        txn.sql(f"LOAD DATA INPATH '{file}' INTO TABLE la")
        assert rows(txn, "SELECT a FROM la") == [(3,), (4,)]
        assert file.exists()
        raise InterruptedError


def test_a_file_delivered_while_its_predecessor_is_loaded_stays(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A producer renames its next file over the old name between the link and the commit."""
    acid.sql(f"CREATE TABLE ld (a INT, b STRING) STORED AS ORC {ACID}")
    write(tmp_path / "feed", (1, "old"))
    write(tmp_path / "other", (2, "other"))
    write(tmp_path / "next", (3, "new"))
    with acid.transaction() as txn:
        txn.sql(f"LOAD DATA INPATH '{tmp_path}/[fo]*' INTO TABLE ld")
        (tmp_path / "next").replace(tmp_path / "feed")
    assert names(tmp_path) == ["feed"]
    assert f"kept {tmp_path}/feed: it was replaced" in caplog.text
    acid.sql(f"LOAD DATA INPATH '{tmp_path}' INTO TABLE ld")
    assert rows(acid, "SELECT a FROM ld") == [(1,), (2,), (3,)]
    assert names(tmp_path) == []


def test_a_file_that_grows_while_it_is_loaded_is_refused(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers would take the length that the commit records, and end within a line."""
    acid.sql(f"CREATE TABLE lg (line STRING) STORED AS TEXTFILE {INSERT_ONLY}")
    source = tmp_path / "source"
    source.mkdir()
    (source / "log").write_text("first line\nsecond")
    load_it = f"LOAD DATA LOCAL INPATH '{source}' INTO TABLE lg"
    copy = LocalFileSystem.copy_file

    def write_on(*args: Any) -> None:
        with (source / "log").open("a") as log:
            log.write(" line\n")
        copy(*args)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "copy_file", write_on)
        with pytest.raises(
            InvalidPathError, match=r"log was changed while it was loaded \(17 bytes before, 23 now\)"
        ):
            acid.sql(load_it)
    assert rows(acid, "SELECT * FROM lg") == []
    acid.sql(load_it)
    assert rows(acid, "SELECT * FROM lg") == [("first line",), ("second line",)]


@pytest.mark.parametrize("local", ["", "LOCAL "])
def test_a_file_that_is_replaced_while_it_is_loaded_is_refused(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, local: str
) -> None:
    """By one of the same length: readers would take the rows and bounds of the other's footer for its own."""
    name = f"replaced_{local.strip()}"
    acid.sql(f"CREATE TABLE {name} (a INT, b STRING) STORED AS ORC {ACID}")
    write(tmp_path / "source" / "f", (1, "x"))
    (tmp_path / "next").write_bytes((tmp_path / "source" / "f").read_bytes())
    load_it = f"LOAD DATA {local}INPATH '{tmp_path}/source' INTO TABLE {name}"
    checked = load._require_columns

    def replaced(*args: Any) -> None:
        checked(*args)
        (tmp_path / "next").replace(tmp_path / "source" / "f")

    with monkeypatch.context() as patched:
        patched.setattr(load, "_require_columns", replaced)
        with pytest.raises(
            InvalidPathError, match=r"f was changed while it was loaded \(another file has its name\)"
        ):
            acid.sql(load_it)
    assert rows(acid, f"SELECT * FROM {name}") == []
    acid.sql(load_it)
    assert rows(acid, f"SELECT a FROM {name}") == [(1,)]


@pytest.mark.parametrize("changed", [False, True])
def test_the_footer_of_a_source_is_read_again_only_if_the_file_changes_while_the_load_waits(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, changed: bool
) -> None:
    name, source = f"t_read_{changed}".lower(), tmp_path / "source"
    acid.sql(f"CREATE TABLE {name} (a INT, b STRING) STORED AS ORC {ACID}")
    write(source / "f", (1, "x"))
    read: list[str] = []
    summarized, locked = load.summarize, load._require_movable  # the last step before the lock

    def deliver(*args: Any) -> None:
        locked(*args)
        if changed:
            write(source / "f", (1, "x"), (2, "y"))

    def summarize(tail: Any) -> Any:
        read.append(tail)
        return summarized(tail)

    monkeypatch.setattr(load, "summarize", summarize)
    monkeypatch.setattr(load, "_require_movable", deliver)
    acid.sql(f"LOAD DATA INPATH '{source}' INTO TABLE {name}")
    assert len(read) == (2 if changed else 1)
    expected = [(1, "x"), (2, "y")] if changed else [(1, "x")]
    assert rows(acid, f"SELECT a, b FROM {name}") == expected


@pytest.mark.parametrize("of", ["the folder", "a file"])
def test_files_are_moved_into_one_table_only(acid: AcidSession, tmp_path: Path, of: str) -> None:
    """Two jobs that run LOAD DATA for one folder at the same time had each row twice."""
    tables = ("twin_a", "twin_b")
    for table in tables:
        acid.sql(f"CREATE TABLE IF NOT EXISTS {table} (a INT, b STRING) STORED AS ORC {ACID}")
    acid.sql(
        f"CREATE TABLE IF NOT EXISTS twin_c (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC {ACID}"
    )
    before = sum(len(rows(acid, f"SELECT a FROM {table}")) for table in tables)
    write(tmp_path / "feed", (1, "x"))
    load = f"LOAD DATA INPATH '{tmp_path if of == 'the folder' else tmp_path / 'feed'}' INTO TABLE"
    impatient = {"hive.lock.numretries": "0"}
    with hiveacid.connect(acid.context.env.spark, acid.context.warehouse, settings=impatient) as other:
        with acid.transaction() as txn:
            txn.sql(f"LOAD DATA INPATH '{tmp_path}' INTO TABLE twin_a")
            with pytest.raises(LockTimeoutError):
                other.sql(f"{load} twin_b")
            with pytest.raises(LockTimeoutError):
                other.sql(f"ALTER TABLE twin_c ADD PARTITION (p=1) LOCATION '{tmp_path}'")
            other.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}' INTO TABLE twin_b")  # takes nothing away
        with pytest.raises(InvalidPathError, match="no files"):
            other.sql(f"{load} twin_b")
    assert sum(len(rows(acid, f"SELECT a FROM {table}")) for table in tables) == before + 2


@pytest.mark.parametrize("again", ["LOCAL INPATH '{}/feed'", "INPATH '{}/link' OVERWRITE"])
def test_a_transaction_loads_a_file_once(acid: AcidSession, tmp_path: Path, again: str) -> None:
    """Its sources have their old names until the commit, and two LOAD DATA of one folder gave each row twice."""
    acid.sql("DROP TABLE IF EXISTS once")
    acid.sql(f"CREATE TABLE once (a INT, b STRING) STORED AS ORC {ACID}")
    write(tmp_path / "feed", (1, "x"))
    write(tmp_path / "next", (2, "y"))
    (tmp_path / "link").symlink_to(tmp_path / "feed")
    first, second = (f"INPATH '{tmp_path}/{name}'" for name in ("feed", "next"))
    with pytest.raises(InvalidPathError, match="was loaded earlier in this transaction"):
        _load_in_one_transaction(acid, first, again.format(tmp_path))
    assert rows(acid, "SELECT a FROM once") == []
    _load_in_one_transaction(acid, first, second)
    assert rows(acid, "SELECT a FROM once") == [(1,), (2,)]


def _load_in_one_transaction(acid: AcidSession, *sources: str) -> None:
    with acid.transaction() as txn:
        for source in sources:
            txn.sql(f"LOAD DATA {source} INTO TABLE once")


@pytest.mark.parametrize("properties", [ACID, ""], ids=["acid", "plain"])
def test_files_that_a_committed_load_is_still_removing_are_not_loaded_again(
    acid: AcidSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: str
) -> None:
    acid.sql("DROP TABLE IF EXISTS removing")
    acid.sql(f"CREATE TABLE removing (a INT, b STRING) STORED AS ORC {properties}")
    write(tmp_path / "feed", (1, "x"))
    statement, remove, take = f"LOAD DATA INPATH '{tmp_path}' INTO TABLE removing", load._remove, load._take

    def paused(context: Any, linked: Any) -> None:
        def resumed(*arguments: Any) -> Any:
            taken = take(*arguments)
            remove(context, linked)
            return taken

        monkeypatch.setattr(load, "_remove", remove)
        monkeypatch.setattr(load, "_take", resumed)
        with pytest.raises(InvalidPathError, match="is gone"):
            acid.sql(statement)

    monkeypatch.setattr(load, "_remove", paused)
    acid.sql(statement)
    assert rows(acid, "SELECT a FROM removing") == [(1,)]
    assert names(tmp_path) == []
    assert len(layout(acid, "removing")) == 1


@pytest.mark.exhaustive("LOAD DATA into full ACID stays")
def test_load_elsewhere(acid: AcidSession, tmp_path: Path) -> None:
    source = several(tmp_path / "s")
    acid.sql(f"CREATE TABLE lm (a INT, b STRING) STORED AS ORC {INSERT_ONLY}")
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}' INTO TABLE lm")
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}' OVERWRITE INTO TABLE lm")
    files = ["000007_0", "000007_0_copy_1", "a_file.orc", "b_file"]
    assert [path for path in layout(acid, "lm") if path.startswith("base")] == [
        f"base_0000002/{f}" for f in files
    ]
    assert rows(acid, "SELECT a FROM lm") == [(n,) for n in range(1, 6)]
    acid.sql("CREATE TABLE lp (a INT, b STRING) STORED AS ORC")
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}' INTO TABLE lp")
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}/*_file*' INTO TABLE lp")
    assert layout(acid, "lp") == [*files[:3], "a_file_copy_1.orc", "b_file", "b_file_copy_1"]
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}/b_file' OVERWRITE INTO TABLE lp")
    assert layout(acid, "lp") == ["b_file"]
    acid.sql(
        f"CREATE TABLE lt (a INT, b STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' {INSERT_ONLY}".replace(
            "TBL", "STORED AS TEXTFILE TBL"
        )
    )
    (tmp_path / "t.csv").write_text("1,x\n2,y\n")
    assert acid.sql(f"LOAD DATA INPATH '{tmp_path}/t.csv' INTO TABLE lt").first()["num_inserted_rows"] == 2
    assert not (tmp_path / "t.csv").exists()
    assert rows(acid, "SELECT * FROM lt") == [(1, "x"), (2, "y")]


def test_an_overwrite_refuses_sources_that_it_would_delete(acid: AcidSession, tmp_path: Path) -> None:
    """It deletes the files of a plain table, or of a partition, before it adds the sources."""
    acid.sql("CREATE TABLE ow (a INT, b STRING) STORED AS ORC")
    acid.sql("CREATE TABLE op (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC")
    acid.sql("INSERT INTO op VALUES (7, 'x', 1)")
    table, part = (Path(acid.table(name).definition.location) for name in ("ow", "op"))
    write(table / "one", (1, "b1"))
    write(table / "two", (2, "b2"))
    write(tmp_path / "elsewhere", (3, "c"))
    (table / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").symlink_to(table)
    (tmp_path / "file").symlink_to(table / "one")
    refused = [
        (table / "one", "ow"),
        (table, "ow"),
        (table / "link", "ow"),
        (tmp_path / "folder" / "one", "ow"),
        (tmp_path / "file", "ow"),
        (part / "p=1", "op PARTITION (p=1)"),
    ]
    for local in ("LOCAL ", ""):
        for source, target in refused:
            with pytest.raises(InvalidPathError, match="copy it to another directory"):
                acid.sql(f"LOAD DATA {local}INPATH '{source}' OVERWRITE INTO TABLE {target}")
    assert names(table) == ["link", "one", "two"]
    assert rows(acid, "SELECT a FROM ow") == [(1,), (2,), (3,)]
    assert rows(acid, "SELECT a FROM op") == [(7,)]
    acid.sql(f"LOAD DATA LOCAL INPATH '{table}/two' INTO TABLE ow")
    acid.sql(f"LOAD DATA LOCAL INPATH '{part}/p=1' OVERWRITE INTO TABLE op PARTITION (p=2)")
    assert rows(acid, "SELECT a FROM ow") == [(1,), (2,), (2,), (3,)]
    assert rows(acid, "SELECT a, p FROM op") == [(7, 1), (7, 2)]


@pytest.mark.exhaustive("LOAD DATA into full ACID stays")
def test_load_that_has_to_insert(acid: AcidSession, tmp_path: Path) -> None:
    """Bucketed, partitioned without a partition, or with sub-directories: rows are inserted, the files stay."""
    source = several(tmp_path / "s")
    write(source / "sub/x", (6, "n"))
    for table, clause in (("lb", "CLUSTERED BY (a) INTO 3 BUCKETS"), ("ln", "")):
        acid.sql(f"CREATE TABLE {table} (a INT, b STRING) {clause} STORED AS ORC {ACID}")
        acid.sql(f"LOAD DATA INPATH '{source}' INTO TABLE {table}")
        assert rows(acid, f"SELECT a FROM {table}") == [(n,) for n in range(1, 7)]
        assert all("/bucket_" in path for path in layout(acid, table))
    acid.sql(f"CREATE TABLE lq (a INT) PARTITIONED BY (b STRING) STORED AS ORC {ACID}")
    acid.sql(f"LOAD DATA INPATH '{source}/a_file.orc' INTO TABLE lq")
    acid.sql(f"LOAD DATA LOCAL INPATH '{source}/b_file' INTO TABLE lq PARTITION (b='p')")
    assert rows(acid, "SELECT a, b FROM lq") == [(1, "p"), (2, "p"), (3, "a1")]
    assert "b=p/delta_0000002_0000002_0000/000000_0" in layout(acid, "lq")
    assert len(names(source)) == 6


def test_what_cannot_be_loaded_is_refused_before_anything_happens(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE lr (a INT, b STRING) STORED AS ORC {ACID}")
    acid.sql("INSERT INTO lr VALUES (1, 'x')")
    (own,) = (path for path in layout(acid, "lr") if "bucket" in path)
    location = acid.table("lr").definition.location
    (tmp_path / "text").write_text("1,x\n")
    (tmp_path / "cut").write_bytes(b"ORC and nothing more")
    write(tmp_path / "date", ((1,),), row="a:struct<x:int>")
    refused: list[tuple[str, type[HiveAcidError], str]] = [
        (f"LOCAL INPATH '{location}/{own}'", AcidFileLoadError, "10413"),
        (f"LOCAL INPATH '{tmp_path}/text'", FileFormatMismatchError, "30019"),
        (f"LOCAL INPATH '{tmp_path}/cut'", FileFormatMismatchError, "30019"),
        (f"LOCAL INPATH '{tmp_path}/nothing*'", InvalidPathError, "10027"),
        (f"LOCAL INPATH '{tmp_path}/date'", SchemaMismatchError, "10044"),
    ]
    for what, error, code in refused:
        with pytest.raises(error) as caught:
            acid.sql(f"LOAD DATA {what} INTO TABLE lr")
        assert caught.value.code == code
    acid.sql(f"CREATE TABLE li (a INT, b STRING) STORED AS ORC {INSERT_ONLY}")
    acid.sql("INSERT INTO li VALUES (1, 'x')")
    inside = acid.table("li").definition.location + "/delta_0000001_0000001_0000"
    with pytest.raises(InvalidPathError, match="belongs to the table"):
        acid.sql(f"LOAD DATA INPATH '{inside}' INTO TABLE lr")
    assert rows(acid, "SELECT * FROM lr") == rows(acid, "SELECT * FROM li") == [(1, "x")]
    assert len(layout(acid, "lr")) == 1


def test_files_of_a_partition_outside_its_table_are_not_moved_away(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql(f"CREATE TABLE lx (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC {INSERT_ONLY}")
    acid.sql(f"ALTER TABLE lx ADD PARTITION (p=1) LOCATION '{tmp_path}/part'")
    acid.sql("INSERT INTO lx PARTITION (p=1) VALUES (1, 'x')")
    acid.sql(f"CREATE TABLE ly (a INT, b STRING) STORED AS ORC {INSERT_ONLY}")
    (tmp_path / "link").symlink_to(tmp_path / "part")
    for folder in ("part", "link"):
        with pytest.raises(InvalidPathError, match=r"belongs to the table default\.lx"):
            acid.sql(f"LOAD DATA INPATH '{tmp_path}/{folder}/delta_0000001_0000001_0000' INTO TABLE ly")
    acid.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/part/delta_0000001_0000001_0000' INTO TABLE ly")
    assert rows(acid, "SELECT a FROM lx") == rows(acid, "SELECT a FROM ly") == [(1,)]


@pytest.mark.parametrize("kind", ["full", "insert-only"])
def test_a_partition_added_over_files_takes_them_in(acid: AcidSession, tmp_path: Path, kind: str) -> None:
    """As Hive: the files are moved into a delta of the partition's own directory, all partitions in one transaction."""
    properties = "TBLPROPERTIES ('transactional'='true')" if kind == "full" else INSERT_ONLY
    acid.sql(f"CREATE TABLE over (a INT, b STRING) PARTITIONED BY (p INT) STORED AS ORC {properties}")
    write(tmp_path / "one" / "000000_0", (1, "x"), (2, "y"))
    write(tmp_path / "two" / "part-0.orc", (3, "z"))
    write(tmp_path / "bad" / "000000_0", (3, "z"))
    (tmp_path / "bad" / "000001_0").write_text("no orc")
    add = "ALTER TABLE over ADD IF NOT EXISTS PARTITION (p=1) LOCATION '{0}/one' PARTITION (p=2) LOCATION '{0}/{1}'"
    with pytest.raises(FileFormatMismatchError):
        acid.sql(add.format(tmp_path, "bad"))
    assert rows(acid, "SELECT * FROM over") == []
    assert (tmp_path / "one" / "000000_0").exists()
    with pytest.raises(AlreadyExistsError, match="named twice"):
        acid.sql(
            f"ALTER TABLE over ADD PARTITION (p=1) LOCATION '{tmp_path}/one' PARTITION (p='01') LOCATION '{tmp_path}/two'"
        )
    acid.sql(add.format(tmp_path, "two"))
    acid.sql(add.format(tmp_path, "bad"))  # both exist
    assert sorted(rows(acid, "SELECT * FROM over")) == [(1, "x", 1), (2, "y", 1), (3, "z", 2)]
    assert [list((tmp_path / name).iterdir()) for name in ("one", "two")] == [[], []]
    home = acid.table("over").definition.location
    assert sorted(path.parent.name for path in Path(home).glob("p=*/delta_0000002_0000002_*")) == [
        "p=1",
        "p=2",
    ]
    acid.sql("INSERT INTO over VALUES (4, 'w', 1)")
    acid.sql("ALTER TABLE over DROP PARTITION (p=2)")
    assert sorted(rows(acid, "SELECT a FROM over")) == [(1,), (2,), (4,)]
    acid.sql("CREATE TABLE others (a INT, b STRING) STORED AS ORC")
    acid.sql("INSERT INTO others VALUES (9, 'others')")
    with pytest.raises(CatalogError, match="not free"):
        acid.sql(
            f"ALTER TABLE over ADD PARTITION (p=9) LOCATION '{acid.table('others').definition.location}'"
        )
    assert rows(acid, "SELECT a FROM others") == [(9,)]
    for name in ("over", "others"):
        acid.sql(f"DROP TABLE {name}")


def test_a_plain_table_becomes_full_acid(acid: AcidSession) -> None:
    """D16, and C4: a major compaction takes the original files in."""
    acid.sql("CREATE TABLE ca (a INT, b STRING) STORED AS ORC")
    acid.sql("INSERT INTO ca VALUES (1, 'x')")
    acid.sql("INSERT INTO ca VALUES (2, 'y'), (3, 'z')")
    assert layout(acid, "ca") == ["000000_0", "000000_0_copy_1"]
    acid.sql("ALTER TABLE ca SET TBLPROPERTIES ('Transactional'='TRUE', 'note'='kept')")
    assert rows(acid, "SELECT ROW__ID, a FROM ca") == [((0, 536870912, n), n + 1) for n in range(3)]
    acid.sql("INSERT INTO ca VALUES (4, 'w')")
    acid.sql("UPDATE ca SET b = 'u' WHERE a = 2")
    acid.sql("DELETE FROM ca WHERE a = 1")
    assert "delta_10000001_10000001_0000/bucket_00000" in layout(acid, "ca")
    expected = [(2, "u"), (3, "z"), (4, "w")]
    assert rows(acid, "SELECT * FROM ca") == expected
    acid.sql("ALTER TABLE ca COMPACT 'major'")
    assert rows(acid, "SELECT * FROM ca") == expected
    properties = dict(acid.table("ca").definition.properties)
    assert (properties["transactional"], properties["transactional_properties"]) == ("true", "default")
    assert properties["note"] == "kept"
    for wrong in ("'transactional'='false'", "'transactional_properties'='insert_only'"):
        with pytest.raises(CatalogError, match="cannot be"):
            acid.sql(f"ALTER TABLE ca SET TBLPROPERTIES ({wrong})")


@pytest.mark.exhaustive("the conversion to full ACID stays")
def test_a_plain_table_becomes_insert_only_and_then_full_acid(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE cm (a INT) PARTITIONED BY (p INT) STORED AS ORC")
    acid.sql("INSERT INTO cm VALUES (1, 1), (2, 2)")
    before = acid.table("cm").to_df()
    acid.sql(
        "ALTER TABLE cm SET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    assert layout(acid, "cm") == [f"p={n}/delta_0000001_0000001_0000/000000_0" for n in (1, 2)]
    acid.sql("INSERT INTO cm VALUES (3, 1)")
    assert rows(acid, "SELECT * FROM cm") == [(1, 1), (2, 2), (3, 1)]
    acid.sql("ALTER TABLE cm SET TBLPROPERTIES ('transactional_properties'='default')")
    acid.sql("UPDATE cm SET a = a * 10 WHERE p = 1")
    assert rows(acid, "SELECT * FROM cm") == [(10, 1), (2, 2), (30, 1)]
    acid.sql("ALTER TABLE cm PARTITION (p=1) COMPACT 'major'")
    assert rows(acid, "SELECT * FROM cm") == [(10, 1), (2, 2), (30, 1)]
    del before


def test_states_of_merged_rows_end_where_their_table_becomes_full_acid(acid: AcidSession) -> None:
    """Its merged files have no row ids, and reads of the past and of tags found no rows there."""
    insert_only = "'transactional'='true', 'transactional_properties'='insert_only'"
    acid.sql(f"CREATE TABLE merged (a INT) STORED AS ORC TBLPROPERTIES ({insert_only})")
    for statement in (
        "INSERT INTO merged VALUES (1)",
        "INSERT INTO merged VALUES (2)",
        "ALTER TABLE merged COMPACT 'minor' AND WAIT",
        "ALTER TABLE merged CREATE TAG two",
        "INSERT OVERWRITE TABLE merged SELECT a FROM merged",
    ):
        acid.sql(statement)
    convert = (
        "ALTER TABLE merged SET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='default')"
    )
    with pytest.raises(UnsupportedFeatureError, match="has the tag 'two'"):
        acid.sql(convert)
    assert rows(acid, "SELECT * FROM merged VERSION AS OF 'two'") == [(1,), (2,)]
    acid.sql("ALTER TABLE merged DROP TAG two")
    acid.sql(convert)
    for statement in ("SELECT * FROM merged VERSION AS OF 2", "RESTORE TABLE merged TO VERSION AS OF 2"):
        with pytest.raises(NotEnoughHistoryError, match="write id 3"):
            acid.sql(statement)
    acid.sql("DELETE FROM merged WHERE a = 1")
    assert rows(acid, "SELECT * FROM merged VERSION AS OF 3") == [(1,), (2,)]
    assert rows(acid, "SELECT * FROM merged") == [(2,)]


@pytest.mark.parametrize("mode", ["default", "insert_only"])
def test_a_bad_directory_name_is_told_with_its_whole_path(
    acid: AcidSession, tmp_path: Path, mode: str
) -> None:
    acid.sql(f"CREATE TABLE named_{mode} (a INT) STORED AS ORC LOCATION '{tmp_path}/r'")
    put(tmp_path / "r", {"base_x/bucket_00000": b"x"})
    with pytest.raises(BadDirectoryNameError) as caught:
        acid.sql(
            f"ALTER TABLE named_{mode} SET TBLPROPERTIES ("
            f"'transactional'='true', 'transactional_properties'='{mode}')"
        )
    assert caught.value.path == f"{tmp_path}/r/base_x"


def test_what_cannot_be_converted_is_refused_and_stays_as_it_is(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql("CREATE TABLE r1 (a INT) STORED AS TEXTFILE")
    acid.sql("CREATE TABLE r2 (a INT) CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS STORED AS ORC")
    acid.sql(f"CREATE EXTERNAL TABLE r3 (a INT) STORED AS ORC LOCATION '{tmp_path}/r3'")
    acid.sql("CREATE TABLE r4 (a INT) STORED AS ORC")
    acid.sql("INSERT INTO r4 VALUES (1)")
    root = Path(acid.table("r4").definition.location)
    (root / "000000_0").rename(root / "part-00000")
    for table, said in (("r1", "ORC"), ("r2", "SORTED"), ("r3", "external"), ("r4", "part-00000")):
        with pytest.raises(CatalogError, match=said):
            acid.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('transactional'='true')")
        assert acid.table(table).definition.property("transactional") is None
    assert rows(acid, "SELECT * FROM r4") == [(1,)]
    with pytest.raises(CatalogError, match="nonsense"):
        acid.sql(
            "ALTER TABLE r4 SET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='nonsense')"
        )
    acid.sql(f"CREATE TABLE r5 (a INT) STORED AS ORC {INSERT_ONLY}")
    for n in range(3):
        acid.sql(f"INSERT INTO r5 VALUES ({n})")
    acid.sql("ALTER TABLE r5 COMPACT 'minor'")
    with pytest.raises(CatalogError, match="compacted"):
        acid.sql("ALTER TABLE r5 SET TBLPROPERTIES ('transactional_properties'='default')")
    acid.sql("CREATE EXTERNAL TABLE like_r5 LIKE r5")
    assert acid.table("like_r5").definition.property("transactional") is None


def test_days_of_the_old_calendar_are_the_same_for_every_reader(acid: AcidSession) -> None:
    """A file without a mark of its calendar, as old writers and Arrow make it, becomes an original file."""
    acid.sql("CREATE TABLE days (id INT, d DATE) STORED AS ORC")
    early = pa.array([-719164, -171664, 0], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "d": early})
    orc.write_table(rows, f"{acid.context.warehouse}/days/000000_0")
    acid.sql("ALTER TABLE days SET TBLPROPERTIES ('transactional'='true')")
    seen = {row.id: row.d for row in acid.sql("SELECT id, d FROM days").collect()}
    assert seen[1] == date(1, 1, 1)
    read = hiveacid.open(acid.context.warehouse).table("days").to_arrow().to_pylist()
    assert {row["id"]: row["d"] for row in read} == seen
    for number, day in seen.items():
        acid.sql(f"DELETE FROM days WHERE d = DATE'{day}'")
        assert number not in {row.id for row in acid.sql("SELECT id FROM days").collect()}
