"""Errors of a location have its whole path; threads list many locations where the disk must be waited for."""

from __future__ import annotations

import os
import threading
from itertools import count
from pathlib import Path

import pytest

from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.errors import BadDirectoryNameError, BadFileError, MissingDirectoryError, NotEnoughHistoryError
from hiveacid.storage import snapshot_locations
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import list_layout, read_location
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
