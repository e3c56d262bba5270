"""Who may read a SQLite store: it holds texts of statements (issue 20, point 14)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.catalog.opening import new_warehouse_notice, open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.core.model import DatabaseDefinition
from hiveacid.errors import StorageError
from hiveacid.ports.clock import SystemClock
from hiveacid.stores.sql.dialects.sqlite import protect_file
from hiveacid.stores.sql.store import SqlStore


@pytest.fixture(autouse=True, params=[0o022, 0o002, 0o077, 0o000], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the umask is."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def write(root: Path, name: str, store: str | None = None) -> dict[str, str]:
    """Write to a warehouse's store; return the modes of the store's files while it is open."""
    opened, _ = open_store(str(root), store, Settings(), SystemClock())
    opened.create_database(DatabaseDefinition(name, str(root / f"{name}.db")))
    found = modes(root / ".hiveacid")
    opened.close()
    return found


def modes(directory: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o7777) for path in (directory, *directory.iterdir())}


def expected(directory: int, file: int) -> dict[str, str]:
    return {
        ".hiveacid": oct(directory),
        **{name: oct(file) for name in ("store.db", "store.db-wal", "store.db-shm")},
    }


def test_a_new_store_is_its_owner_s_alone(tmp_path: Path) -> None:
    """With the files that SQLite makes beside it."""
    assert write(tmp_path / "wh", "one") == expected(0o700, 0o600)
    assert write(tmp_path / "wh", "two") == expected(0o700, 0o600)


def test_a_store_of_an_earlier_version_is_closed_to_others(tmp_path: Path) -> None:
    """While another process has it open, too."""
    write(tmp_path / "wh", "one")
    directory = tmp_path / "wh" / ".hiveacid"
    other, _ = open_store(str(tmp_path / "wh"), None, Settings(), SystemClock())
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)
    assert write(tmp_path / "wh", "two") == expected(0o700, 0o600)
    assert other.get_database("two") is not None
    other.close()


def test_an_administrator_shares_a_store_with_a_group(tmp_path: Path) -> None:
    """By a directory that the group may write to; nobody else may read it."""
    directory = tmp_path / "wh" / ".hiveacid"
    directory.mkdir(parents=True)
    directory.chmod(0o2775)
    assert write(tmp_path / "wh", "one") == expected(0o2770, 0o660)
    assert write(tmp_path / "wh", "two") == expected(0o2770, 0o660)


def test_a_store_in_another_place(tmp_path: Path) -> None:
    """The mode of its directory is left alone, unless we make the directory."""
    tmp_path.chmod(0o1777)
    SqlStore(f"sqlite:///{tmp_path}/own/store.db").close()
    SqlStore(f"sqlite:///{tmp_path}/store.db").close()
    assert modes(tmp_path / "own") == {"own": "0o700", "store.db": "0o600"}
    found = modes(tmp_path)
    assert (found[tmp_path.name], found["store.db"]) == ("0o1777", "0o600")


def test_files_of_other_users_and_links_are_left_alone(tmp_path: Path) -> None:
    """A link beside the database could lead to a file that others need."""
    target = tmp_path / "target"
    target.touch()
    target.chmod(0o644)
    (tmp_path / "store.db-journal").symlink_to(target)
    (tmp_path / "store.db").touch()
    (tmp_path / "store.db").chmod(0o644)
    if os.geteuid() == 0:
        os.chown(tmp_path / "store.db", 65534, 65534)
    protect_file(tmp_path / "store.db")
    assert modes(tmp_path)["target"] == "0o644"
    assert modes(tmp_path)["store.db"] == ("0o644" if os.geteuid() == 0 else "0o600")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_store_of_another_user_is_refused_with_its_owner_and_the_remedy() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        root = Path(scratch, "wh")
        write(root, "one")
        root.chmod(0o755)
        opened = (
            lambda: require_existing_warehouse(str(root), None),
            lambda: new_warehouse_notice(str(root), None),
            lambda: open_store(str(root), None, Settings(), SystemClock()),
        )
        os.seteuid(65534)
        try:
            for call in opened:
                with pytest.raises(StorageError, match="root owns it, and can open it to a group"):
                    call()
            os.seteuid(0)
            root.chmod(0o700)
            os.seteuid(65534)
            for call in opened:
                with pytest.raises(StorageError, match="a directory above it is closed"):
                    call()
        finally:
            os.seteuid(0)
