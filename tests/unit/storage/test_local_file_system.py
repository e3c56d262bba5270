"""The local file system: names of every kind, durable changes, no stale checksum files, errors with paths."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import MissingDirectoryError, StorageError, UnsupportedFeatureError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage import local_file_system
from hiveacid.storage.local_file_system import LocalFileSystem, local_path
from hiveacid.storage.paths import absolute, is_local, real_path, spark_path
from support.cost import assert_quick
from support.exhaustive import examples

ODD = "a b%20ü=1/x%3Ay+z ~#?'\"[q]{r}*/ファイル"
FS: FileSystem = LocalFileSystem()


def names(root: Path) -> list[str]:
    return [entry.path for entry in FS.list_tree(str(root))]


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("/wh/t", "/wh/t"),
        ("/wh//t/", "/wh/t"),
        ("file:/wh/t", "/wh/t"),
        ("file:///wh/t/", "/wh/t"),
        ("FILE:/wh", "/wh"),
        ("file://localhost/wh", "/wh"),
        ("file:///a b/c%20d/é", "/a b/c%20d/é"),
        ("file:///", "/"),
    ],
)
def test_paths_and_uris_name_the_same_file_undecoded(given: str, plain: str) -> None:
    assert local_path(given) == plain
    assert local_path(spark_path(given)) == plain


@pytest.mark.parametrize(
    "path",
    ["relative/t", "", "s3a://bucket/t", "hdfs://n/t", "file://host/t", "file:t", "/a\0b", "file:/a\0b"],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(StorageError, match="not an absolute local path"):
        FS.exists(path)


def test_spark_path_is_a_file_uri() -> None:
    assert spark_path("/wh/a b%20c") == "file:///wh/a b%20c"


def test_a_tree_is_listed_whole_and_sorted(tmp_path: Path) -> None:
    root = f"{tmp_path}/{ODD}"
    FS.write_bytes(f"{root}/delta_1_1/bucket_00000", b"12345")
    FS.write_bytes(f"{root}/delta_1_1/_orc_acid_version", b"2")
    FS.write_bytes(f"{root}/.hidden/x", b"")
    FS.make_directory(f"{root}/base_5")
    before = time.time_ns() // 1_000_000
    entries = FS.list_tree("file://" + root)
    assert [(entry.path, entry.is_dir, entry.size) for entry in entries if not entry.is_dir] == [
        (".hidden/x", False, 0), ("delta_1_1/_orc_acid_version", False, 1), ("delta_1_1/bucket_00000", False, 5),
    ]  # fmt: skip
    assert [entry.path for entry in entries if entry.is_dir] == [".hidden", "base_5", "delta_1_1"]
    assert [entry.path for entry in entries] == sorted(entry.path for entry in entries)
    assert all(abs(entry.modified - before) < 60_000 for entry in entries)
    assert isinstance(entries[0], FileEntry)


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nothing", "file", "file/below"):
        with pytest.raises(MissingDirectoryError, match=f"{tmp_path}/{name}"):
            FS.list_tree(f"{tmp_path}/{name}")


def test_linked_directories_are_followed_but_never_upwards(tmp_path: Path) -> None:
    table, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    FS.write_bytes(f"{elsewhere}/bucket_00000", b"1")
    table.mkdir()
    (table / "p=1").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(tmp_path)
    (table / "self").symlink_to(table)
    assert names(table) == ["p=1", "p=1/bucket_00000"]


def test_a_named_pipe_is_special_and_never_opened(tmp_path: Path) -> None:
    """Opening one blocks until somebody writes into it."""
    os.mkfifo(tmp_path / "pipe")
    path = f"{tmp_path}/pipe"
    assert [entry.is_special for entry in FS.list_tree(str(tmp_path))] == [True]
    with pytest.raises(StorageError, match=f"cannot read {path}: it is a named pipe"):
        FS.read_bytes(path)
    for change in (FS.move_file, FS.copy_file):
        with pytest.raises(StorageError, match="it is a named pipe"):
            change(path, f"{tmp_path}/copy")
    with pytest.raises(StorageError, match="it is a named pipe"):
        FS.replace_tail(path, 0, b"x")
    assert names(tmp_path) == ["pipe"]
    FS.delete_tree(path)
    assert names(tmp_path) == []


def test_ten_thousand_files_are_listed_fast(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / f"d{folder}").mkdir()
        for file in range(500):
            (tmp_path / f"d{folder}" / f"bucket_{file:05d}").touch()
    assert_quick(lambda: FS.list_tree(str(tmp_path)))
    assert len(FS.list_tree(str(tmp_path))) == 20 + 10_000


def test_exists(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert FS.exists(str(tmp_path))
    assert FS.exists(f"{tmp_path}/f")
    assert not FS.exists(f"{tmp_path}/g")
    assert not FS.exists(f"{tmp_path}/f/below")


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, None, b"0123456789"), (3, 4, b"3456"), (8, 9, b"89"), (-3, None, b"789"), (-3, 2, b"78"), (-99, None, b"0123456789"), (20, 5, b"")],
)  # fmt: skip
def test_ranges(tmp_path: Path, start: int, length: int | None, expected: bytes) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert FS.read_bytes(f"{tmp_path}/f", start, length) == expected


def test_written_files_replace_old_ones_and_leave_nothing_behind(tmp_path: Path) -> None:
    path = f"{tmp_path}/new/deep/{'f' * 200}"
    FS.write_bytes(path, b"old")
    Path(f"{tmp_path}/new/deep/.{'f' * 200}.crc").write_bytes(b"crc of old")
    FS.write_bytes(path, b"new")
    assert Path(path).read_bytes() == b"new"
    assert names(tmp_path) == ["new", "new/deep", f"new/deep/{'f' * 200}"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FS.write_bytes(f"{tmp_path}/f", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local_file_system.os, "fsync", full)
    with pytest.raises(StorageError, match=f"cannot write {tmp_path}/f: No space left"):
        FS.write_bytes(f"{tmp_path}/f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(st.binary(max_size=40), st.data())
def test_a_replaced_tail(tmp_path: Path, content: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(content)))
    tail = data.draw(st.binary(max_size=60))
    (tmp_path / "f").write_bytes(content)
    (tmp_path / ".f.crc").write_bytes(b"of the old content")
    LocalFileSystem(durable=False).replace_tail(f"{tmp_path}/f", start, tail)
    assert (tmp_path / "f").read_bytes() == content[:start] + tail
    assert names(tmp_path) == ["f"]


def test_a_tail_behind_the_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"123")
    with pytest.raises(StorageError, match="ends before byte 4"):
        FS.replace_tail(f"{tmp_path}/f", 4, b"x")
    assert (tmp_path / "f").read_bytes() == b"123"


def test_a_moved_file_leaves_its_checksum_behind(tmp_path: Path) -> None:
    (tmp_path / "part-0.orc").write_bytes(b"data")
    (tmp_path / ".part-0.orc.crc").touch()
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / ".bucket_00000.crc").touch()  # of a file that was there once
    FS.move_file(f"{tmp_path}/part-0.orc", f"file:{tmp_path}/to/bucket_00000")
    FS.move_file(f"{tmp_path}/to/bucket_00000", f"{tmp_path}/to/{ODD}")
    assert (tmp_path / "to" / ODD).read_bytes() == b"data"
    assert [name for name in names(tmp_path) if Path(tmp_path / name).is_file()] == [f"to/{ODD}"]


def hard_links_refused(code: int) -> object:
    def link(source: str, _target: str) -> None:
        raise OSError(code, os.strerror(code), source)

    return link


@pytest.mark.parametrize("code", [None, errno.EPERM, errno.EXDEV])
def test_a_link_tells_the_version_of_the_file_that_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    if code:
        monkeypatch.setattr(local_file_system.os, "link", hard_links_refused(code))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    version = FS.link_file(f"{tmp_path}/link", f"{tmp_path}/b")
    assert FS.file_version(f"{tmp_path}/link") == FS.file_version(f"{tmp_path}/a") == version
    (tmp_path / "c").write_bytes(b"c")
    (tmp_path / "c").replace(tmp_path / "a")
    assert FS.file_version(f"{tmp_path}/link") not in (version, None)


@pytest.mark.parametrize("code", [None, errno.EPERM, errno.EXDEV])
def test_a_move_never_replaces_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    if code:  # a file system without hard links; another disk
        monkeypatch.setattr(local_file_system.os, "link", hard_links_refused(code))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(StorageError, match=f"cannot move {tmp_path}/a to {tmp_path}/b"):
        FS.move_file(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [(tmp_path / name).read_bytes() for name in ("a", "b")] == [b"a", b"b"]
    FS.move_file(f"{tmp_path}/a", f"{tmp_path}/c")
    assert (tmp_path / "c").read_bytes() == b"a"
    assert names(tmp_path) == ["b", "c"]


def test_moving_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"{tmp_path}/new: No such file"):
        FS.move_file(f"{tmp_path}/old", f"{tmp_path}/new")


@pytest.mark.parametrize("verb", ["move_file", "link_file", "move_directory"])
def test_what_is_dropped_meanwhile_gets_no_parents_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A drop before the first change of the file system, even if it comes between two system calls."""
    source, target = tmp_path / "t" / "staged" / "x", tmp_path / "t" / "delta_0000001_0000001_0000" / "x"
    (source if verb == "move_directory" else source.parent).mkdir(parents=True)
    target.parent.mkdir()
    if verb != "move_directory":
        source.touch()

    def drop_before(call: Callable[..., None], *args: object) -> None:
        monkeypatch.undo()
        shutil.rmtree(tmp_path / "t")
        call(*args)

    for call in ("mkdir", "link", "rename"):
        monkeypatch.setattr(local_file_system.os, call, partial(drop_before, getattr(os, call)))
    with pytest.raises(StorageError, match="No such file"):
        getattr(FS, verb)(str(source), str(target))
    assert not (tmp_path / "t").exists()


def test_delete(tmp_path: Path) -> None:
    FS.write_bytes(f"{tmp_path}/t/d/f", b"1")
    (tmp_path / "t" / "d" / ".f.crc").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "t" / "link").symlink_to(outside)
    FS.delete_tree(f"{tmp_path}/t/d/f")
    assert names(tmp_path / "t") == ["d", "link"]
    FS.delete_tree(f"{tmp_path}/t/link")
    FS.delete_tree(f"{tmp_path}/t")
    FS.delete_tree(f"{tmp_path}/t")
    FS.delete_tree(f"{tmp_path}/never/was")
    FS.delete_tree(f"{tmp_path}/{'longer than a name may be' * 20}/d")
    assert names(tmp_path) == ["outside"]


def test_of_links_in_a_listing_only_the_links_are_deleted(tmp_path: Path) -> None:
    """Also of those that a listing leaves out: broken ones, and one that leads to a directory above it."""
    outside, table = tmp_path / "outside", tmp_path / "t"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "f").touch()
    (table / "d").mkdir(parents=True)
    (table / "d" / "link").symlink_to(outside)
    (table / "file").symlink_to(outside / "d" / "f")
    (table / "d" / "broken").symlink_to(tmp_path / "nowhere")
    (table / "upwards").symlink_to(tmp_path)
    assert FS.delete_listed(str(table), (FileEntry("", is_dir=True), *FS.list_tree(str(table)))) == ()
    assert not table.exists()
    assert (outside / "d" / "f").exists()


def test_a_directory_in_the_place_of_a_listed_link_stays(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "t").symlink_to(tmp_path / "target")
    listed = [FileEntry("t", is_dir=True)]
    (tmp_path / "t").unlink()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").touch()
    assert FS.delete_listed(str(tmp_path), listed) == ("t",)
    assert names(tmp_path / "t") == ["f"]


@pytest.mark.parametrize("verb", ["make_directory", "write_bytes", "read_bytes", "replace_tail", "move_file"])
def test_what_the_system_refuses_is_a_storage_error_with_the_path(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").touch()
    path = f"{tmp_path}/file/below"  # a file is in the way
    more = {"write_bytes": (b"",), "replace_tail": (0, b""), "move_file": (f"{tmp_path}/x",)}.get(verb, ())
    with pytest.raises(StorageError, match=f"{tmp_path}/file/below"):
        getattr(FS, verb)(path, *more)


def test_a_directory_is_made_with_its_parents_and_may_be_there(tmp_path: Path) -> None:
    for _ in range(2):
        FS.make_directory(f"{tmp_path}/{ODD}")
    assert (tmp_path / ODD).is_dir()


def test_many_make_the_same_directories_at_once(tmp_path: Path) -> None:
    """As the threads that publish the files of a new partition do."""
    fs = LocalFileSystem(durable=False)
    with ThreadPoolExecutor(8) as pool:
        for turn in range(200):
            places = [f"{tmp_path}/{turn}/p=1/delta_{n % 3}" for n in range(24)]
            assert list(pool.map(fs.make_directory, places)) == [None] * 24


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
def test_a_place_where_nothing_can_be_made_is_an_error() -> None:
    with pytest.raises(StorageError, match="/proc/hiveacid-test"):
        LocalFileSystem().make_directory("/proc/hiveacid-test/t")


def test_durable_changes_reach_the_disk_file_and_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    def inodes(*paths: str) -> list[int]:
        return [(tmp_path / path).stat().st_ino for path in paths]

    monkeypatch.setattr(local_file_system.os, "fsync", fsync)
    FS.make_directory(f"{tmp_path}/a/b")
    assert synced == inodes("", "a")
    synced.clear()
    (tmp_path / "f").write_bytes(b"123")
    FS.replace_tail(f"{tmp_path}/f", 1, b"x")
    FS.move_file(f"{tmp_path}/f", f"{tmp_path}/a/b/g")
    assert synced == inodes("a/b/g", "a/b")
    synced.clear()
    FS.write_bytes(f"{tmp_path}/staged", b"123", durable=False)
    assert synced == []
    LocalFileSystem(durable=False).write_bytes(f"{tmp_path}/h", b"1")
    assert synced == []


def test_paths_of_a_user_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert absolute("wh/../t x") == f"{tmp_path}/t x"
    assert absolute("~/wh") == "/home/somebody/wh"
    assert absolute("file:///a/b/") == "/a/b"
    with pytest.raises(StorageError):
        absolute("file:relative")
    for elsewhere in ("s3a://bucket/wh", "hdfs://host:8020/wh"):
        assert absolute(elsewhere) == absolute(f"{elsewhere}//x/..//") == elsewhere
        assert not is_local(elsewhere)
    assert absolute("HDFS:///wh/") == "hdfs:///wh"
    assert absolute("s3a://bucket") == absolute("s3a://bucket/") == "s3a://bucket"
    with pytest.raises(UnsupportedFeatureError, match="the file system ftp:// is not supported"):
        absolute("ftp://host/wh")
    with pytest.raises(StorageError, match="has no bucket"):
        absolute("s3a:///wh")


def test_a_place_has_one_name_for_spark_and_for_comparing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert real_path(f"{tmp_path}/b/c") == f"{tmp_path}/a/c"
    assert spark_path(f"file:{tmp_path}/b") == f"file://{tmp_path}/b"
    for scheme in ("s3", "s3n", "s3a"):
        assert real_path(f"{scheme}://bucket/t") == spark_path(f"{scheme}://bucket/t") == "s3a://bucket/t"
    assert spark_path("gs://bucket/a%41 b") == "gs://bucket/a%41 b"
    for one, other in (("hdfs://NN:8020/t", "hdfs://nn/t"), ("abfs://c@a/t", "abfss://c@a/t")):
        assert real_path(one) == real_path(other) == other
        assert spark_path(one) == one
    assert len({*map(real_path, ("hdfs://nn/t", "hdfs://nn:9000/t", "hdfs://n/t", "hdfs:///t"))}) == 4


def test_links_to_nothing_and_to_themselves_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    (tmp_path / "nothing").symlink_to(tmp_path / "absent")
    assert names(tmp_path) == ["file"]
    assert [entry.path for entry in FS.list_directory(str(tmp_path))] == ["file"]


def test_a_directory_is_claimed_from_a_staging_directory_that_is_still_there(tmp_path: Path) -> None:
    """A writer that was paused while its table was dropped and made again must not leave an empty base in the new one."""
    fs = LocalFileSystem(durable=False)
    staging, target = tmp_path / "staging", tmp_path / "p=1" / "base_0000003"
    with pytest.raises(StorageError):
        fs.claim_directory(str(target), str(staging))
    assert not target.exists()
    staging.mkdir()
    assert fs.claim_directory(str(target), str(staging))
    assert list(target.iterdir()) == []
    assert not fs.claim_directory(str(target), str(staging))
    (target / "bucket_00000").write_bytes(b"rows")
    assert not fs.claim_directory(str(target), str(staging))
