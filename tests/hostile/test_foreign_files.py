"""DROP, TRUNCATE and the cleaner delete what the format names, and nothing that somebody else put there (issue 20, point 12)."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.model import TableKind
from hiveacid.core.snapshot.directory_listing import FileEntry, split_by_owner
from hiveacid.errors import CatalogError, HiveAcidError, InvalidPathError, StorageError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.cleaning.remove_files import delete_plain_files

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.context import Context


def put(path: Path, text: str = "somebody else's") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_hidden_entries_make_a_location_occupied(acid: AcidSession, tmp_path: Path) -> None:
    foreign = put(tmp_path / "place" / ".keys" / "id_rsa")

    with pytest.raises(CatalogError, match="is not empty"):
        acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC LOCATION '{tmp_path}/place'")

    assert foreign.exists()


def test_drop_table_keeps_foreign_files_and_says_so(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "place"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t VALUES (1)")
    kept = [put(place / ".keys" / "id_rsa"), put(place / "_notes"), put(place / "readme.txt")]

    with caplog.at_level(logging.WARNING):
        acid.sql("DROP TABLE t")

    assert all(path.exists() for path in kept)
    assert sorted(path.name for path in place.iterdir()) == [".keys", "_notes", "readme.txt"]
    assert f"kept {place}" in caplog.text
    assert ".keys/id_rsa" in caplog.text


def test_drop_of_a_partitioned_table_and_of_a_partition_keeps_foreign_files(
    acid: AcidSession, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2), (3, 3)")
    kept = [put(place / "p=1" / ".mine"), put(place / "p=2" / ".mine"), put(place / "q=1" / "000000_0")]

    acid.sql("ALTER TABLE t DROP PARTITION (p = 1)")
    assert sorted(path.name for path in (place / "p=1").iterdir()) == [".mine"]
    acid.sql("DROP TABLE t")

    assert all(path.exists() for path in kept)
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()) == [
        "p=1/.mine",
        "p=2/.mine",
        "q=1/000000_0",
    ]


def test_overwriting_and_dropping_a_plain_table_keep_hidden_files(acid: AcidSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    acid.sql(
        f"CREATE TABLE t (a INT) STORED AS PARQUET LOCATION '{place}' TBLPROPERTIES ('transactional'='false')"
    )
    acid.sql("INSERT INTO t VALUES (1)")
    kept = [put(place / ".mine"), put(place / "below" / ".mine")]

    acid.sql("TRUNCATE TABLE t")
    assert all(path.exists() for path in kept)
    acid.sql("INSERT INTO t VALUES (2)")
    acid.sql("DROP TABLE t")

    assert sorted(path for path in place.rglob("*") if path.is_file()) == sorted(kept)


def test_dropping_deletes_nothing_behind_a_symbolic_link(acid: AcidSession, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1)")
    kept = [put(elsewhere / "000000_0"), put(elsewhere / ".mine")]
    (place / "p=2").symlink_to(elsewhere)

    acid.sql("DROP TABLE t")

    assert all(path.exists() for path in kept)


def test_emptying_a_plain_table_deletes_nothing_behind_a_symbolic_link(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    own = put(place / "000000_0")
    kept = [put(elsewhere / "000000_0"), put(elsewhere / ".mine")]
    (place / "link").symlink_to(elsewhere)
    context = SimpleNamespace(fs=LocalFileSystem())

    delete_plain_files(cast("Context", context), [str(place)], lambda: None)

    assert not own.exists()
    assert all(path.exists() for path in kept)


def test_a_partition_is_not_made_where_somebody_has_other_files(acid: AcidSession, tmp_path: Path) -> None:
    foreign = put(tmp_path / "theirs" / "000000_0")
    acid.sql("CREATE TRANSACTIONAL TABLE t (a INT) PARTITIONED BY (p INT) STORED AS ORC")

    with pytest.raises(HiveAcidError, match=r"does not match the file format .* hiveacid ingest read text"):
        acid.sql(f"ALTER TABLE t ADD PARTITION (p = 1) LOCATION '{tmp_path}/theirs'")

    assert foreign.exists()


def test_the_cleaner_keeps_foreign_files_and_hidden_copies(acid: AcidSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t VALUES (1)")
    acid.sql("INSERT INTO t VALUES (2)")
    kept = [
        put(place / ".mine"),
        put(place / ".backup" / ".hiveacid-staging-1-ab" / "file"),
        put(place / "old" / "readme.txt"),
    ]

    acid.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    acid.clean()

    assert all(path.exists() for path in kept)
    assert [path.name for path in place.iterdir() if path.name.startswith("delta_")] == []
    assert sorted(row.a for row in acid.sql("SELECT * FROM t").collect()) == [1, 2]


def unreadable_link(path: Path) -> Path:
    """Make a symbolic link to a name that no file system accepts: its directory cannot be listed."""
    path.symlink_to("x" * 300)
    return path


def test_a_table_whose_files_cannot_be_listed_is_not_dropped(acid: AcidSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t VALUES (1)")
    link = unreadable_link(place / "link")

    with pytest.raises(StorageError, match="cannot list"):
        acid.sql("DROP TABLE t")

    link.unlink()
    assert [row.a for row in acid.sql("SELECT * FROM t").collect()] == [1]
    acid.sql("DROP TABLE t")
    assert not place.exists()


def test_a_partition_whose_files_cannot_be_listed_is_not_dropped(acid: AcidSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION '{place}'")
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2)")
    link = unreadable_link(place / "p=2" / "link")

    with pytest.raises(StorageError, match="cannot list"):
        acid.sql("ALTER TABLE t DROP PARTITION (p > 0)")

    link.unlink()
    assert sorted(row.a for row in acid.sql("SELECT * FROM t").collect()) == [1, 2]
    assert HISTORY_FROM.name not in dict(acid.table("t").definition.properties)


def test_a_database_is_dropped_whole_or_not_at_all(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql("CREATE DATABASE d")
    for name in ("a", "b"):
        acid.sql(f"CREATE TRANSACTIONAL TABLE d.{name} (a INT) STORED AS ORC LOCATION '{tmp_path}/{name}'")
    acid.sql("CREATE VIEW d.v AS SELECT * FROM d.a")
    link = unreadable_link(tmp_path / "b" / "link")

    with pytest.raises(StorageError, match="cannot list"):
        acid.sql("DROP DATABASE d CASCADE")

    assert acid.sql("SELECT * FROM d.v").collect() == []
    link.unlink()
    acid.sql("DROP DATABASE d CASCADE")
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_a_plain_table_is_emptied_whole_or_not_at_all(acid: AcidSession, tmp_path: Path) -> None:
    place = tmp_path / "place"
    acid.sql(
        f"CREATE TABLE t (a INT) PARTITIONED BY (p INT) STORED AS PARQUET LOCATION '{place}' "
        "TBLPROPERTIES ('transactional'='false')"
    )
    acid.sql("INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2)")
    link = unreadable_link(place / "p=2" / "link")

    for statement in ("TRUNCATE TABLE t", "INSERT OVERWRITE t PARTITION (p) VALUES (3, 1), (4, 2)"):
        with pytest.raises(StorageError, match="cannot list"):
            acid.sql(statement)

    link.unlink()
    assert sorted(row.a for row in acid.sql("SELECT * FROM t").collect()) == [1, 2]


@pytest.mark.parametrize("name", ["pipe", "000000_0", ".hiveacid-staging-1-ab"])
def test_a_named_pipe_makes_a_location_occupied(acid: AcidSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "place").mkdir()
    os.mkfifo(tmp_path / "place" / name)

    with pytest.raises(CatalogError, match="is not empty"):
        acid.sql(f"CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC LOCATION '{tmp_path}/place'")


@pytest.mark.parametrize(
    "storage",
    [
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
        "STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false')",
    ],
)
def test_a_named_pipe_is_never_opened_and_stays(acid: AcidSession, tmp_path: Path, storage: str) -> None:
    place = tmp_path / "place"
    made, _, properties = storage.partition(" TBLPROPERTIES")
    acid.sql(f"CREATE TABLE t (a INT) {made} LOCATION '{place}' TBLPROPERTIES{properties}")
    acid.sql("INSERT INTO t VALUES (1)")
    pipes = [place / "000007_0", place / "pipe"]
    for pipe in pipes:
        os.mkfifo(pipe)

    assert [row.a for row in acid.sql("SELECT * FROM t").collect()] == [1]
    acid.sql("TRUNCATE TABLE t")
    acid.clean()
    assert acid.sql("SELECT * FROM t").collect() == []
    acid.sql("DROP TABLE t")

    assert sorted(place.iterdir()) == sorted(pipes)


def test_a_named_pipe_is_not_loaded(acid: AcidSession, tmp_path: Path) -> None:
    acid.sql("CREATE TRANSACTIONAL TABLE t (a INT) STORED AS ORC")
    (tmp_path / "from").mkdir()
    os.mkfifo(tmp_path / "from" / "000000_0")

    with pytest.raises(InvalidPathError, match="no files"):
        acid.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/from' INTO TABLE t")


def listed(*paths: str) -> list[FileEntry]:
    return [FileEntry(path.rstrip("/"), path.endswith("/"), 0 if path.endswith("/") else 1) for path in paths]


def test_what_a_full_acid_table_owns() -> None:
    entries = listed(
        ".hiveacid-staging-7-ab/",
        ".hiveacid-staging-7-ab/x",
        "000000_0",
        ".000000_0.crc",
        "base_0000001_v0000009/",
        "base_0000001_v0000009/bucket_00000",
        "base_x/",
        "notes.txt",
        "old/",
        "old/000000_0",
        "old/readme",
    )
    division = split_by_owner(entries, TableKind.FULL_ACID)
    assert division.owned == (
        ".000000_0.crc",
        ".hiveacid-staging-7-ab",
        "000000_0",
        "base_0000001_v0000009",
        "old/000000_0",
    )
    assert division.foreign == ("base_x", "notes.txt", "old/readme")


def test_an_object_store_without_directories_gives_the_same() -> None:
    division = split_by_owner(
        listed("p=1/delta_0000001_0000001_0000/bucket_00000", "p=1/.x"), TableKind.FULL_ACID, ["P"]
    )
    assert division == type(division)(("p=1/delta_0000001_0000001_0000",), ("p=1/.x",))
