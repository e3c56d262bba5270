"""Each file system passes the same suite: local disks, Arrow's view of them, S3, HDFS."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from py4j import java_gateway, protocol
from pyarrow import fs as arrow_fs

import hiveacid
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import MissingDirectoryError, StorageError, UnsupportedFeatureError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.session.file_systems import open_hadoop
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.storage.arrow_file_system import BLOCK, ArrowFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import parse_uri
from hiveacid.storage.staging import FinalNames
from hiveacid.streaming import Connection
from support.servers.absent import skip_without
from support.servers.hdfs import WHY_NOT as NO_HDFS
from support.servers.hdfs import Hdfs, hdfs_server
from support.servers.object_store import WHY_NOT, S3Server, s3_server


@dataclass
class Room:
    """A file system and an empty place in it."""

    fs: FileSystem
    root: str
    renames: bool


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    skip_without(WHY_NOT)
    with s3_server() as server:
        server.make_bucket("files")
        yield server


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    skip_without(NO_HDFS)
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as server, pytest.MonkeyPatch.context() as patch:
        # Once there is a SparkContext, PySpark looks for the exceptions of all JVMs in Spark's, under the same object ids.
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        yield server


@pytest.fixture(params=["local", "arrow", "s3", "hdfs"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        within = open_hadoop(hdfs.jvm, hdfs.conf, parse_uri(hdfs.uri))
        root = f"{hdfs.uri}/{uuid.uuid4().hex}"
        within.make_directory(root)
        return Room(within, root, renames=True)
    if request.param == "local":
        return Room(LocalFileSystem(durable=False), str(tmp_path), renames=True)
    if request.param == "arrow":
        return Room(
            ArrowFileSystem(arrow_fs.LocalFileSystem(), str, renames=True), str(tmp_path), renames=True
        )
    server: S3Server = request.getfixturevalue("s3")
    fs = server.file_system()
    root = f"s3a://files/{uuid.uuid4().hex}"
    fs.make_directory(root)
    return Room(fs, root, renames=False)


def names(room: Room, below: str = "") -> list[tuple[str, bool, int]]:
    entries = room.fs.list_tree(f"{room.root}{below}")
    return [(entry.path, entry.is_dir, 0 if entry.is_dir else entry.size) for entry in entries]


def test_a_listing_shows_all_that_lies_below_sorted(room: Room) -> None:
    fs, root = room.fs, room.root
    assert names(room) == []
    for path in ("d=a%2Fb/x", "d=a b/ü", "b.1", "b/1", "_h/.x"):
        fs.write_bytes(f"{root}/{path}", path.encode())
    fs.make_directory(f"{root}/empty/in")
    expected = [
        ("_h", True, 0),
        ("_h/.x", False, 5),
        ("b", True, 0),
        ("b.1", False, 3),
        ("b/1", False, 3),
        ("d=a b", True, 0),
        ("d=a b/ü", False, 8),
        ("d=a%2Fb", True, 0),
        ("d=a%2Fb/x", False, 9),
        ("empty", True, 0),
        ("empty/in", True, 0),
    ]
    assert names(room) == expected
    top = [(entry.path, entry.is_dir) for entry in fs.list_directory(root)]
    assert top == [(path, is_dir) for path, is_dir, _ in expected if "/" not in path]
    assert all(entry.modified > 0 for entry in fs.list_tree(root) if not entry.is_dir)
    with pytest.raises(MissingDirectoryError):
        fs.list_tree(f"{root}/nowhere")
    with pytest.raises(MissingDirectoryError):
        fs.list_directory(f"{root}/nowhere")


def test_bytes_come_back_in_any_range(room: Room) -> None:
    fs, path = room.fs, f"{room.root}/f"
    fs.write_bytes(path, b"old, and longer than the new one")
    fs.write_bytes(path, b"0123456789")
    assert fs.read_bytes(path) == b"0123456789"
    assert fs.read_bytes(path, 3, 4) == b"3456"
    assert fs.read_bytes(path, -3) == b"789"
    assert fs.read_bytes(path, -30, 2) == b"01"
    assert fs.read_bytes(path, 8, 20) == b"89"
    assert fs.read_bytes(path, 20, 5) == b""
    fs.write_pieces(f"{room.root}/p/q", (b"ab", b"", b"cd"))
    assert fs.read_bytes(f"{room.root}/p/q") == b"abcd"
    fs.write_bytes(f"{room.root}/none", b"")
    assert fs.read_bytes(f"{room.root}/none") == b""
    with pytest.raises(StorageError, match="nowhere"):
        fs.read_bytes(f"{room.root}/nowhere")


def test_a_file_whose_writing_fails_is_not_there(room: Room) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * 100
        raise RuntimeError

    with pytest.raises(RuntimeError):
        room.fs.write_pieces(f"{room.root}/d/f", pieces())
    assert not room.fs.exists(f"{room.root}/d/f")
    assert [path for path, is_dir, _ in names(room) if not is_dir] == []


def test_a_tail_is_replaced(room: Room) -> None:
    fs, path = room.fs, f"{room.root}/f"
    fs.write_bytes(path, b"0123456789")
    fs.replace_tail(path, 4, b"abc")
    assert fs.read_bytes(path) == b"0123abc"
    with pytest.raises(StorageError, match="ends before byte 8"):
        fs.replace_tail(path, 8, b"")
    assert fs.read_bytes(path) == b"0123abc"


def test_files_are_moved_copied_and_linked_but_never_over_one_another(room: Room) -> None:
    fs, root = room.fs, room.root
    fs.write_bytes(f"{root}/a", b"content")
    fs.move_file(f"{root}/a", f"{root}/x/y/b")
    fs.copy_file(f"{root}/x/y/b", f"{root}/z/c")
    fs.copy_file(f"{root}/z/c", f"{root}/z/part", 3)
    fs.link_file(f"{root}/z/c", f"{root}/w/d")
    files = [path for path, is_dir, _ in names(room) if not is_dir]
    assert files == ["w/d", "x/y/b", "z/c", "z/part"]
    assert fs.read_bytes(f"{root}/z/part") == b"con"
    for verb in (fs.move_file, fs.copy_file, fs.link_file):
        with pytest.raises(StorageError):
            verb(f"{root}/z/c", f"{root}/w/d")
        with pytest.raises(StorageError):
            verb(f"{root}/nowhere", f"{root}/new")
    assert [path for path, is_dir, _ in names(room) if not is_dir] == files


def test_a_directory_is_new_for_the_first_who_claims_it(room: Room) -> None:
    fs, path = room.fs, f"{room.root}/t/p=1/delta_1_1"
    assert fs.claim_directory(path)
    if isinstance(fs, LocalFileSystem):
        assert not fs.claim_directory(path)
    fs.write_bytes(f"{path}/f", b"1")
    assert not fs.claim_directory(path)
    assert fs.claim_directory(f"{room.root}/t/p=1/delta_1")


def test_a_file_has_another_version_once_it_is_replaced_or_changed(room: Room) -> None:
    fs, root = room.fs, room.root
    fs.write_bytes(f"{root}/d/a", b"old")
    version = fs.link_file(f"{root}/d/a", f"{root}/d/b")
    assert fs.file_version(f"{root}/d/a") == version
    fs.write_bytes(f"{root}/d/a", b"longer")
    assert fs.file_version(f"{root}/d/a") not in (version, None)
    assert fs.file_version(f"{root}/d") is fs.file_version(f"{root}/d/nowhere") is None


def test_directories_are_renamed_where_that_is_one_step(room: Room) -> None:
    fs, root = room.fs, room.root
    fs.write_bytes(f"{root}/s/d/f", b"1")
    assert fs.renames_directories(root) == room.renames
    if not room.renames:
        with pytest.raises(UnsupportedFeatureError):
            fs.move_directory(f"{root}/s/d", f"{root}/t/d")
        return
    fs.move_directory(f"{root}/s/d", f"{root}/t/d")
    assert fs.read_bytes(f"{root}/t/d/f") == b"1"
    fs.write_bytes(f"{root}/s/d/f", b"2")
    with pytest.raises(StorageError):
        fs.move_directory(f"{root}/s/d", f"{root}/t/d")
    assert fs.read_bytes(f"{root}/t/d/f") == b"1"


def test_what_is_deleted_is_gone_and_nothing_else_is(room: Room) -> None:
    fs, root = room.fs, room.root
    for path in ("d/a", "d/e/b", "d2/c", "f"):
        fs.write_bytes(f"{root}/{path}", b"1")
    fs.delete_tree(f"{root}/d")
    fs.delete_tree(f"{root}/f")
    fs.delete_tree(f"{root}/nowhere")
    assert names(room) == [("d2", True, 0), ("d2/c", False, 1)]
    assert not fs.exists(f"{root}/d")
    assert fs.exists(f"{root}/d2")
    fs.delete_tree(f"{root}/d2")
    assert fs.exists(root)
    assert names(room) == []


def test_only_files_that_are_as_they_were_listed_are_deleted(room: Room) -> None:
    fs, root = room.fs, f"{room.root}/t"
    for path in ("d/a", "d/e/b", "d/e/c", "d2/g", "f"):
        fs.write_bytes(f"{root}/{path}", b"1")
    listed = (FileEntry("", is_dir=True), *fs.list_tree(root))
    fs.write_bytes(f"{root}/d/e/b", b"another")
    fs.write_bytes(f"{root}/d/new", b"1")
    assert fs.delete_listed(root, listed) == ("", "d", "d/e", "d/e/b")
    assert names(room, "/t") == [("d", True, 0), ("d/e", True, 0), ("d/e/b", False, 7), ("d/new", False, 1)]
    fs.write_bytes(f"{root}/h", b"1")
    part = [entry for entry in fs.list_tree(root) if entry.path.startswith("d")]
    assert fs.delete_listed(root, part) == ()
    assert names(room, "/t") == [("h", False, 1)]
    assert fs.delete_listed(root, (FileEntry("", is_dir=True), *fs.list_tree(root))) == ()
    assert fs.delete_listed(root, part) == ()
    assert not fs.exists(f"{root}/h")


def test_a_file_of_another_version_gets_no_second_name(room: Room) -> None:
    fs, root = room.fs, room.root
    fs.write_bytes(f"{root}/f", b"1")
    version = fs.file_version(f"{root}/f")
    fs.write_bytes(f"{root}/f", b"another")
    with pytest.raises(StorageError, match="is not the file that it was"):
        fs.link_file(f"{root}/f", f"{root}/d/f", version)
    assert not fs.exists(f"{root}/d/f")
    assert fs.link_file(f"{root}/f", f"{root}/d/f", fs.file_version(f"{root}/f")) == fs.file_version(
        f"{root}/f"
    )
    assert fs.read_bytes(f"{root}/d/f") == b"another"


def test_staged_files_get_their_end_and_their_final_name_once(room: Room) -> None:
    fs, root = room.fs, room.root
    fs.write_bytes(f"{root}/s/1", b"rows and footer")
    fs.write_bytes(f"{root}/s/2", b"other rows")
    final = FinalNames(fs)
    size = final.join([(f"{root}/s/1", 5)], b"tail", f"{root}/delta/bucket_00000")
    with pytest.raises(StorageError):
        final.finish(f"{root}/s/2", f"{root}/delta/bucket_00000", 5, b"tail")
    with pytest.raises(StorageError):
        FinalNames(fs).finish(f"{root}/s/2", f"{root}/delta/bucket_00000", 5, b"tail")
    finished = fs.read_bytes(f"{root}/delta/bucket_00000")
    assert names(room, "/delta") == [("bucket_00000", False, len(finished))]
    assert size == len(finished)  # commits record it
    assert finished == (b"rows and footertail" if isinstance(fs, ArrowFileSystem) else b"rows tail")


def test_a_staged_file_that_is_gone_leaves_no_directory_and_replaces_no_file(room: Room) -> None:
    """The table of a paused writer was dropped and made again: an empty base there would hide rows."""
    fs, root = room.fs, room.root
    gone, base = f"{root}/s/1", f"{root}/t/base_1"
    writes = (
        lambda: fs.finish_file(gone, f"{base}/bucket_00000", 5, b"tail"),
        lambda: FinalNames(fs).finish(gone, f"{base}/bucket_00000", 5, b"tail"),
        lambda: FinalNames(fs).join([(gone, 5), (f"{gone}-1", 5)], b"tail", f"{base}/bucket_00000"),
        lambda: fs.move_file(gone, f"{base}/bucket_00000"),
        lambda: fs.copy_file(gone, f"{base}/bucket_00000"),
        lambda: fs.link_file(gone, f"{base}/_orc_acid_version"),
    )
    for write in writes:
        with pytest.raises(StorageError):
            write()
        assert not fs.exists(base)
    later = f"{root}/t/delta_1_1_0000/bucket_00000"
    fs.write_bytes(later, b"of another table")
    with pytest.raises(StorageError):
        fs.finish_file(gone, later, 5, b"tail")
    assert fs.read_bytes(later) == b"of another table"


class Rigid:
    """A file system like HDFS whose files cannot grow, or that gives none to read."""

    def __init__(self, fs: object, refused: str) -> None:
        self._fs, self._refused = fs, refused

    def __getattr__(self, verb: str) -> object:
        """Return a method of the file system, unless it is the refused one."""
        if verb == self._refused:
            raise OSError(verb)
        return getattr(self._fs, verb)


def test_where_files_grow_a_tail_is_appended_and_nothing_is_read(room: Room) -> None:
    fs = room.fs
    if not isinstance(fs, ArrowFileSystem):
        pytest.skip("these file systems finish a file in other ways")
    fs.write_bytes(f"{room.root}/s/1", b"rows and footer")
    fs.write_bytes(f"{room.root}/s/2", b"rows and footer")
    unread = replace(fs, fs=Rigid(fs.fs, "open_input_file"))
    assert FinalNames(unread).finish(f"{room.root}/s/1", f"{room.root}/d/1", 5, b"tail") == 19
    assert fs.read_bytes(f"{room.root}/d/1") == b"rows and footertail"
    rigid = FinalNames(replace(fs, fs=Rigid(fs.fs, "open_append_stream")))
    assert rigid.finish(f"{room.root}/s/2", f"{room.root}/d/2", 5, b"tail") == 9
    assert fs.read_bytes(f"{room.root}/d/2") == b"rows tail"


def test_large_files_are_copied_block_by_block(room: Room) -> None:
    data = bytes(range(256)) * (BLOCK // 256) + b"the rest"
    room.fs.write_bytes(f"{room.root}/s/1", data)
    FinalNames(room.fs).finish(f"{room.root}/s/1", f"{room.root}/d/1", len(data) - 4, b"end")
    assert room.fs.read_bytes(f"{room.root}/d/1").removesuffix(b"end").removesuffix(data[-4:]) == data[:-4]


def test_files_go_from_one_file_system_to_the_other(s3: S3Server, tmp_path: Path) -> None:
    fs = s3.file_system()
    (tmp_path / "f").write_bytes(b"from here")
    root = f"s3a://files/{uuid.uuid4().hex}"
    fs.copy_file(f"{tmp_path}/f", f"{root}/a/f")
    fs.copy_file(f"{tmp_path}/f", f"{root}/a/part", 4)
    with pytest.raises(StorageError):
        fs.copy_file(f"{tmp_path}/f", f"{root}/a/f")
    version = fs.link_file(f"{root}/a/f", f"{tmp_path}/linked")
    assert fs.file_version(f"{root}/a/f") == version
    fs.move_file(f"{root}/a/f", f"{tmp_path}/moved")
    assert [(one.path, one.size) for one in fs.list_tree(f"{root}/a")] == [("part", 4)]
    assert fs.claim_directory(f"{tmp_path}/t/p=1/delta_1_1", f"{root}/staging")
    assert not fs.claim_directory(f"{tmp_path}/t/p=1/delta_1_1", f"{root}/staging")
    assert fs.claim_directory(f"{root}/t/p=1/delta_1_1", f"{tmp_path}/staging")
    assert (tmp_path / "linked").read_bytes() == (tmp_path / "moved").read_bytes() == b"from here"


def test_a_listing_asks_once_for_a_thousand_files_however_deep(s3: S3Server) -> None:
    fs, root = s3.file_system(), f"s3a://files/{uuid.uuid4().hex}"
    for number in range(30):
        fs.write_bytes(f"{root}/p={number}/delta_1_1/bucket_0", b"1")
    s3.counted()
    assert len(fs.list_tree(root)) == 90
    assert s3.counted() == {"GET": 1}
    fs.delete_tree(root)
    deleting = s3.counted()
    assert deleting["POST"] == 1
    assert deleting.total() <= 8


def test_rows_are_streamed_and_appended(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows and the same files everywhere; nothing of an aborted transaction, and nothing staged stays."""
    open_store(str(tmp_path / "w"), None, Settings(), SystemClock())[0].close()
    statement = parse(
        "CREATE TABLE t (id INT, name STRING) PARTITIONED BY (p STRING) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    assert isinstance(statement, CreateTable)
    monkeypatch.setattr(
        "hiveacid.streaming.stream_transaction._MAX_BUFFERED_BYTES", 500
    )  # each write is spilled
    with hiveacid.open(str(tmp_path / "w")) as opened:
        warehouse = replace(opened, context=replace(opened.context, fs=room.fs))
        location = f"{room.root}/t"
        warehouse.context.catalog.create_table(
            statement.definition(TableName("default", "t"), location=location, storage=ORC)
        )
        table = warehouse.table("t")

        def rows(first: int, part: str) -> pa.Table:
            ids = range(first, first + 50)
            return pa.table(
                {"id": pa.array(ids, pa.int32()), "name": [f"n{n}" for n in ids], "p": [part] * 50}
            )

        with Connection("t", store=warehouse.context.store, fs=room.fs) as stream:
            for number, keep in enumerate((True, False, True)):
                stream.begin_transaction()
                for part in ("a b", "c"):
                    stream.write(rows(number * 100, part))
                    stream.write(rows(number * 100 + 50, part))
                if keep:
                    stream.commit()
                else:
                    stream.abort()
        assert table.append(rows(1000, "c")) == 50
        overwriting = Connection("t", store=warehouse.context.store, overwrite=True, fs=room.fs)
        with overwriting as stream, stream.transaction():
            stream.write(rows(2000, "a b"))
        expected = {("a b", n) for n in range(2000, 2050)} | {
            ("c", n) for n in (*range(100), *range(200, 300), *range(1000, 1050))
        }
        found = table.to_arrow(row_ids=True)
        read = list(zip(found.column("p").to_pylist(), found.column("id").to_pylist(), strict=True))
        assert len(read) == len(expected)
        assert set(read) == expected
        assert len({str(one) for one in zip(found.column("p"), found.column("ROW__ID"), strict=True)}) == len(
            read
        )
        assert table.count("name = 'n1007'") == 1
    files = [name for name, is_dir, _ in names(room, "/t") if not is_dir]
    assert files == sorted(
        f"{part}/{directory}/{name}"
        for part, directories in (
            ("p=a b", ("base_0000005", "delta_0000001_0000001_0000", "delta_0000003_0000003_0000")),
            (
                "p=c",
                ("delta_0000001_0000001_0000", "delta_0000003_0000003_0000", "delta_0000004_0000004_0000"),
            ),
        )
        for directory in directories
        for name in ("_orc_acid_version", "bucket_00000", "bucket_00001")
    )
