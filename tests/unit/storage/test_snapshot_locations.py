"""Errors of a location have its whole path; a stamp tells every change that a listing would show, where there is one."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.errors import BadDirectoryNameError, BadFileError, MissingDirectoryError, NotEnoughHistoryError
from hiveacid.storage import snapshot_locations
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import DirectoryStamp, StampedListings, list_layout, read_location
from support.corpus.acid_files import put
from support.directories.shelves import definition

CREATE = "CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
WRITE_IDS = parse_write_id_list("default.t:2:9223372036854775807::")


@pytest.mark.parametrize(
    ("files", "error", "path"),
    [
        ({"base_x/bucket_00000": b"x"}, BadDirectoryNameError, "/base_x"),
        ({"base_2/_metadata_acid": b"{"}, BadFileError, "/base_2/_metadata_acid"),
        ({"base_3_v7/bucket_00000": b"x"}, NotEnoughHistoryError, ""),
    ],
)
def test_an_error_names_the_whole_path(
    files: dict[str, bytes], error: type[Exception], path: str, tmp_path: Path
) -> None:
    root = str(put(tmp_path / "t", files))
    table = definition(CREATE, root)
    with pytest.raises(error) as caught:
        read_location(LocalFileSystem(durable=False), table, root, None, WRITE_IDS, None)
    assert caught.value.path == root + path  # type: ignore[attr-defined]
    assert str(caught.value).endswith(root + path)
    assert str(caught.value).count(path or root) == 1


def test_a_layout_is_listed_by_directory_and_errors_name_the_whole_path(tmp_path: Path) -> None:
    fs = LocalFileSystem(durable=False)
    root = str(put(tmp_path / "t", {"base_2/bucket_00000": b"x", "000000_0": b"x"}))
    listing = list_layout(fs, root)
    assert [directory.path for directory in listing.directories] == ["base_2"]
    assert [file.path for file in listing.originals] == ["000000_0"]

    put(tmp_path / "t", {"base_x/bucket_00000": b"x"})
    with pytest.raises(BadDirectoryNameError) as bad:
        list_layout(fs, root)
    assert bad.value.path == f"{root}/base_x"
    with pytest.raises(MissingDirectoryError) as missing:
        list_layout(fs, f"{root}/nowhere")
    assert missing.value.path == f"{root}/nowhere"


def test_pipes_hold_no_rows_and_no_metadata(tmp_path: Path) -> None:
    root = put(tmp_path / "t", {"base_2/bucket_00000": b"x"})
    for path in ("000000_0", "base_2/bucket_00001", "base_2/_metadata_acid"):
        os.mkfifo(root / path)
    location = read_location(
        LocalFileSystem(durable=False), definition(CREATE, str(root)), str(root), None, WRITE_IDS, None
    )
    assert location.state.base is not None
    assert [file.path for file in location.state.base.files] == ["base_2/bucket_00000"]
    assert location.state.originals == ()
    assert list_layout(LocalFileSystem(), str(root)).foreign == ("000000_0",)


@pytest.mark.parametrize(("waits", "alone"), [(0, True), (1000, False)])
def test_other_threads_help_only_while_the_disk_must_be_waited_for(
    waits: int, *, alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = count(step=waits or 0)
    monkeypatch.setattr(snapshot_locations, "_count_waits", lambda: next(waited))
    threads = set()

    def work(number: int) -> int:
        threads.add(threading.current_thread().name)
        return number * 2

    found = snapshot_locations.map_in_threads(work, range(5_050), str(tmp_path))
    assert found == [number * 2 for number in range(5_050)]
    assert (threads == {"MainThread"}) == alone


def test_an_error_of_an_item_is_raised(tmp_path: Path) -> None:
    def work(number: int) -> int:
        if number == 777:
            raise BadFileError("damaged", path="/777")
        return number

    with pytest.raises(BadFileError, match="/777"):
        snapshot_locations.map_in_threads(work, range(1_000), str(tmp_path))


SETTLED = 60_000  # ms after now: to a listing of that time nothing is recent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in ("base_1/bucket_00000", "base_1/deep/bucket_00000", "delta_2_2_0000/bucket_00000"):
        file = tmp_path / "t" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"rows")
    return tmp_path / "t"


def stamp(root: Path, later: int = SETTLED) -> DirectoryStamp | None:
    listings = StampedListings.begin(AnyFileSystem(), time.time_ns() // 1_000_000 + later)
    if listings is None:
        pytest.skip("the directory for temporary files is on no local file system that is known")
    return listings.list(str(root))[1]


def stamped(root: Path) -> DirectoryStamp:
    found = stamp(root)
    if found is None:
        pytest.skip("the directory for temporary files is on no local file system that is known")
    return found


def keep_times(directory: Path, change: Callable[[Path], None]) -> None:
    """Change a directory and set its times back, as ``rsync -a`` or ``cp -p`` do."""
    status = directory.stat()
    time.sleep(0.02)
    change(directory)
    os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_directory(directory: Path) -> None:
    other = directory.with_name("other")
    shutil.copytree(directory, other)
    (other / "bucket_00000").write_bytes(b"others")
    shutil.rmtree(directory)
    other.rename(directory)


def make_again(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / "bucket_00000").write_bytes(b"others")


def add_file(directory: Path) -> None:
    (directory / "bucket_00001").write_bytes(b"rows")


def replace_location(root: Path) -> None:
    shutil.copytree(root, root.with_name("other"))
    shutil.rmtree(root)
    root.with_name("other").rename(root)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": lambda root: (root / "delta_2_2_0000/bucket_00001").write_bytes(b"rows"),
    "a new file deep below": lambda root: (root / "base_1/deep/bucket_00001").write_bytes(b"rows"),
    "a new directory": lambda root: (root / "delta_3_3_0000").mkdir(),
    "a side file": lambda root: (root / "delta_2_2_0000/bucket_00000_flush_length").write_bytes(b""),
    "a file that goes": lambda root: (root / "base_1/bucket_00000").unlink(),
    "a directory that goes": lambda root: shutil.rmtree(root / "delta_2_2_0000"),
    "another name": lambda root: (root / "base_1/bucket_00000").rename(root / "base_1/bucket_00007"),
    "a file moved over another": lambda root: (root / "base_1/bucket_00000").replace(
        root / "delta_2_2_0000/bucket_00000"
    ),
    "a link": lambda root: (root / "delta_2_2_0000/bucket_00009").symlink_to(root / "base_1/bucket_00000"),
    "the whole location": shutil.rmtree,
    "another directory, times kept": lambda root: keep_times(root / "delta_2_2_0000", replace_directory),
    "a directory made again, times kept": lambda root: keep_times(root / "delta_2_2_0000", make_again),
    "a new file, times kept": lambda root: keep_times(root / "delta_2_2_0000", add_file),
    "another location, times kept": lambda root: keep_times(root, replace_location),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_of_a_directory_ends_its_stamp(root: Path, change: Callable[[Path], object]) -> None:
    found = stamped(root)
    assert found.is_current()
    time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
    change(root)
    assert not found.is_current()


def test_a_location_behind_a_link_that_leads_elsewhere_is_another(root: Path) -> None:
    shutil.copytree(root, root.with_name("other"))
    link = root.with_name("link")
    link.symlink_to(root)
    found = stamped(link)
    assert found.is_current()
    link.unlink()
    link.symlink_to(root.with_name("other"))
    assert not found.is_current()


def test_directories_that_have_just_changed_have_no_stamp(root: Path) -> None:
    stamped(root)
    assert stamp(root, later=0) is None
    os.utime(root / "base_1", (4102444800, 4102444800))  # a time to come, as after the clock was put back
    assert stamp(root) is None


@pytest.mark.parametrize("target", ["base_1/bucket_00000", "base_1", "nowhere", "."])
def test_a_tree_with_links_has_no_stamp(root: Path, target: str) -> None:
    stamped(root)
    (root / "delta_2_2_0000/link").symlink_to(root / target)
    assert stamp(root) is None


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.s3fs", "9p"])
def test_file_systems_of_other_machines_have_no_stamps(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    device = root.stat().st_dev
    mounts = tmp_path / "mountinfo"
    line = f"27 1 {os.major(device)}:{os.minor(device)} / / rw - {{}} server:/ rw\n"
    monkeypatch.setattr(snapshot_locations, "_MOUNTS", mounts)
    tmpfs = "26 1 0:999 / /dev/shm rw - tmpfs tmpfs rw\n"
    mounts.write_text(line.format("ext4") + tmpfs)
    assert stamp(root) is not None
    mounts.write_text(line.format(kind) + tmpfs)
    assert stamp(root) is None
    mounts.unlink()
    assert StampedListings.begin(LocalFileSystem(), 0) is None
