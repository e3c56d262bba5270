"""Stamps of listings: every change of a directory ends them, and only sure ones are given."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hiveacid.storage import paths
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.connection_caches import DirectoryStamp, StampedListings

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
    monkeypatch.setattr(paths, "_MOUNTS", mounts)
    tmpfs = "26 1 0:999 / /dev/shm rw - tmpfs tmpfs rw\n"
    mounts.write_text(line.format("ext4") + tmpfs)
    assert stamp(root) is not None
    mounts.write_text(line.format(kind) + tmpfs)
    assert stamp(root) is None
    mounts.unlink()
    assert StampedListings.begin(LocalFileSystem(), 0) is None
