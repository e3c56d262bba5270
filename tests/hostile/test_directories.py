"""Names, side files and links that no engine makes: typed errors with the path, little memory, little time (issue 20)."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.format.names import parse_bucket_file, parse_directory, parse_original_file
from hiveacid.core.format.write_id_lists import ValidWriteIdList, parse_txn_list, parse_write_id_list
from hiveacid.core.model import LAST_ID, LAST_SEED, TableKind, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import MOST_METADATA, FileEntry, read_listing, split_by_owner
from hiveacid.core.snapshot.selection import select
from hiveacid.errors import (
    BadDirectoryNameError,
    BadFileError,
    ConfigError,
    HiveAcidError,
    StorageError,
    StoreError,
)
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import read_metadata
from hiveacid.storage.staging import abandoned_staging
from hiveacid.stores.hms import transactions
from support.cost import assert_quick, assert_small
from support.memory_store.store import MemoryStore

if TYPE_CHECKING:
    from hiveacid import AcidSession

LONG_MAX = (1 << 63) - 1
CREATE = "CREATE TABLE t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
VALID = ValidWriteIdList(TableName("default", "t"), WriteId(5))


@pytest.mark.parametrize(
    "name",
    [
        f"base_0000001_v{LONG_MAX}",
        f"base_{LONG_MAX}",
        f"delta_0000001_{LAST_SEED + 1}_0000",
        f"delete_delta_0000001_0000001_0000_v{LONG_MAX}",
        "base_" + "9" * 200,
    ],
)
def test_a_directory_with_an_id_that_no_store_gives_is_not_adopted(
    acid: AcidSession, tmp_path: Path, name: str
) -> None:
    (tmp_path / "t" / name).mkdir(parents=True)
    (tmp_path / "t" / name / "bucket_00000").write_bytes(b"ORC")
    acid.sql("CREATE TABLE other (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")

    with pytest.raises(BadDirectoryNameError) as caught:
        acid.adopt(CREATE, location=str(tmp_path / "t"))

    assert caught.value.path == str(tmp_path / "t" / name)
    acid.sql("INSERT INTO other VALUES (1)")  # ids go on where they were
    assert acid.sql("SELECT a FROM other").collect()[0].a == 1
    assert acid.sql("SHOW TABLES").count() == 1


def test_such_a_directory_stops_readers_of_its_own_table_only(acid: AcidSession, tmp_path: Path) -> None:
    for name in ("t", "other"):
        acid.sql(f"CREATE TRANSACTIONAL TABLE {name} (a INT) STORED AS ORC LOCATION '{tmp_path}/{name}'")
        acid.sql(f"INSERT INTO {name} VALUES (1)")
    strange = tmp_path / "t" / f"base_0000001_v{LONG_MAX}"
    strange.mkdir()

    assert acid.sql("SELECT a FROM t").collect()[0].a == 1, "no commit has made it"
    acid.set("hiveacid.read.file.records", "false")
    with pytest.raises(BadDirectoryNameError, match=str(strange)):
        acid.sql("SELECT * FROM t").collect()
    assert acid.sql("SELECT a FROM other").collect()[0].a == 1
    strange.rmdir()
    assert acid.sql("SELECT a FROM t").collect()[0].a == 1


def test_stores_take_over_no_id_that_leaves_none_to_give() -> None:
    store = MemoryStore()
    for high in (LAST_SEED + 1, LONG_MAX, 1 << 70):
        with pytest.raises(ConfigError, match="cannot be adopted"):
            store.seed_txns(TxnId(high))
        with pytest.raises(ConfigError, match="cannot be adopted"):
            store.seed_write_ids(TableName("default", "t"), WriteId(high), ())


def test_lists_of_ids_that_no_store_gives_are_refused() -> None:
    def read() -> None:
        for text in (
            f"{LONG_MAX}:{LONG_MAX}::",
            f"5:5:5-{LAST_ID}:",
            "5:" + "9" * 5000 + "::",
            f"5:{LONG_MAX}:{LAST_ID + 1}:",
        ):
            with pytest.raises(ConfigError):
                parse_txn_list(text)
            with pytest.raises(ConfigError):
                parse_write_id_list(f"default.t:{text}")
        with pytest.raises(StoreError, match="cannot be"):
            VALID.with_own(WriteId(LAST_ID))

    assert_quick(read)
    for one in (-1, LAST_ID + 1, LONG_MAX):
        with pytest.raises(StoreError):
            transactions.checked_id(one)


def test_a_staging_directory_of_an_impossible_transaction_stops_no_cleaner() -> None:
    entries = [FileEntry(f".hiveacid-staging-{'9' * 30}-ab", is_dir=True)]
    assert abandoned_staging(entries, lambda txn_id: txn_id > LAST_ID) == ()


@pytest.mark.parametrize(
    "text", [b"[" * 1_000_000, b'{"dataFormat":' * 4_000, b"9" * 60_000, b"\xff" * 10, b"[]", b"{}"]
)
def test_nested_and_endless_metadata_is_refused(tmp_path: Path, text: bytes) -> None:
    base = tmp_path / "base_0000005"
    base.mkdir()
    (base / "_metadata_acid").write_bytes(text)
    (base / "bucket_00000").write_bytes(b"ORC")
    fs = LocalFileSystem()

    def read() -> None:
        entries = fs.list_tree(str(tmp_path))
        metadata = read_metadata(fs, str(tmp_path), entries)
        assert len(metadata["base_0000005"]) <= MOST_METADATA
        with pytest.raises(BadFileError, match="base_0000005/_metadata_acid"):
            select(entries, VALID, None, metadata)

    assert_quick(read)
    assert_small(read)


def test_a_maze_of_symbolic_links_is_refused(tmp_path: Path) -> None:
    """Twenty-five directories with two links each to the next one have 2**25 paths."""
    for nth in range(25):
        (tmp_path / f"d{nth}").mkdir()
    for nth in range(24):
        for side in "ab":
            (tmp_path / f"d{nth}" / side).symlink_to(tmp_path / f"d{nth + 1}")

    def read() -> None:
        with pytest.raises(StorageError, match="symbolic links lead to"):
            LocalFileSystem().list_tree(str(tmp_path / "d0"))

    assert_quick(read)
    assert_small(read)


def test_links_to_each_other_are_refused_and_honest_links_are_followed(tmp_path: Path) -> None:
    for name, other in (("x", "y"), ("y", "x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "over").symlink_to(tmp_path / other)

    def read() -> None:
        with pytest.raises(StorageError, match="symbolic links"):
            LocalFileSystem().list_tree(str(tmp_path / "x"))

    assert_quick(read)

    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").write_bytes(b"1")
    (tmp_path / "t").mkdir()
    for nth in range(10):
        (tmp_path / "t" / f"p={nth}").symlink_to(tmp_path / "disk")
    assert len(LocalFileSystem().list_tree(str(tmp_path / "t"))) == 20


def _name(chance: random.Random) -> str:
    numbers = ("0000001", "5", "0", "-1", str(LAST_ID), str(LAST_ID + 1), str(LONG_MAX), "9" * 30, "", "x")
    head = chance.choice(("base_", "delta_", "delete_delta_", "bucket_", "", ".hiveacid-staging-", "p=", "_"))
    tail = "".join(
        chance.choice(("_", "_v", "-", "=", "")) + chance.choice(numbers) for _ in range(chance.randrange(4))
    )
    return (
        head
        + chance.choice(numbers)
        + tail
        + chance.choice(("", "", "_copy_1", "_flush_length", ".crc", "\u0663"))
    )


@pytest.mark.parametrize("seed", range(2))
def test_any_names_are_read_or_refused_by_typed_errors(seed: int) -> None:
    chance = random.Random(seed)

    def read() -> None:
        for _ in range(2_000):
            name = _name(chance)
            parse_bucket_file(name)
            parse_original_file(name)
            with suppress(BadDirectoryNameError):
                found = parse_directory(name)
                assert found is None or max(found.span) <= LAST_ID

    assert_quick(read)
    for _ in range(200):
        paths = {"/".join(_name(chance) or "x" for _ in range(chance.randrange(1, 4))) for _ in range(8)}
        entries = [FileEntry(path, is_dir=chance.random() < 0.3, size=chance.randrange(2)) for path in paths]
        with suppress(HiveAcidError):
            read_listing(entries)
        with suppress(HiveAcidError):
            select(entries, VALID, None, {})
        abandoned_staging(entries, lambda txn_id: txn_id > 3)
        for kind in TableKind:
            division = split_by_owner(entries, kind, ["p"])
            for kept in division.foreign:
                assert not any(kept == one or kept.startswith(f"{one}/") for one in division.owned)
