"""Selection in random legal directories finds the committed rows; in illegal ones it says what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import TableKind
from hiveacid.core.snapshot.classify_entries import InventorySnapshot, ItemState, take_inventory
from hiveacid.core.snapshot.directory_listing import DataFile, FileEntry, metadata_paths
from hiveacid.core.snapshot.scan_plan import number_originals
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, select
from hiveacid.errors import BadDirectoryNameError, BadFileError, FormatError, NotEnoughHistoryError
from hiveacid.storage.staging import staging_txn_id
from support.directories.maker import make_location
from support.directories.model import AcidRows, Event, Ids, Junk, Location, PlainRows, make_ids
from support.exhaustive import examples


def entries(location: Location) -> list[FileEntry]:
    folders = {path.rpartition("/")[0] for path in location.files} | location.directories
    folders |= {folder.partition("/")[0] for folder in folders}
    listed = [FileEntry(path, is_dir=True) for path in folders - {""}]
    for path, content in location.files.items():
        size = len(content.data) if isinstance(content, Junk) else 100
        listed.append(FileEntry(path, is_dir=False, size=size))
    return listed


def metadata(location: Location) -> dict[str, str]:
    found = {}
    for path in metadata_paths(entries(location)):
        content = location.files[path]
        assert isinstance(content, Junk)
        found[path.rpartition("/")[0]] = content.data.decode()
    return found


def state_of(location: Location, ids: Ids) -> AcidState:
    return select(entries(location), ids.write_ids, ids.txns, metadata(location))


def events_of(location: Location, directory: AcidDirectory, ids: Ids) -> Iterator[Event]:
    """Read a directory's files with ACID columns as the scan does."""
    for file in directory.acid_files:
        content = location.files[file.path]
        assert isinstance(content, AcidRows), file.path
        limited = file.flush_length_path is not None
        assert limited == (content.readable is not None)
        for event in content.events[: content.readable]:
            if directory.validity is RangeShare.ALL or ids.write_ids.is_valid(event.current):
                yield event


def raw_of(
    location: Location, files: tuple[DataFile, ...], directory: AcidDirectory | None
) -> Iterator[Event]:
    """Read files without ACID columns; number their rows."""
    contents = {file.path: location.files[file.path] for file in files}
    values = {path: one.values for path, one in contents.items() if isinstance(one, PlainRows)}
    assert values.keys() == contents.keys()
    for one in number_originals(files, {path: len(rows) for path, rows in values.items()}, directory):
        for number, value in enumerate(values[one.file.path]):
            key = (int(one.write_id), one.bucket_property, one.first_row_id + number)
            yield Event(key, int(one.write_id), value)


def read(location: Location, state: AcidState, ids: Ids) -> Counter[tuple[object, ...]]:
    inserts = list(raw_of(location, state.originals, None))
    for directory in (*((state.base,) if state.base else ()), *state.deltas):
        inserts += events_of(location, directory, ids)
        inserts += raw_of(location, directory.loaded_files, directory)
    deleted = {event.key for one in state.delete_deltas for event in events_of(location, one, ids)}
    return Counter((event.key, event.value) for event in inserts if event.key not in deleted)


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=examples(1000))
@given(seed=st.integers(0, 2**48))
def test_the_rows_of_a_legal_directory_are_those_that_were_committed(part: int, seed: int) -> None:
    random = Random(seed * 4 + part)
    ids = make_ids(random)
    location = make_location(random, ids)
    try:
        state = state_of(location, ids)
    except NotEnoughHistoryError:
        assert location.too_new
        return
    assert read(location, state, ids) == Counter(location.rows.items())
    kept = [*state.deltas, *state.delete_deltas, *([state.base] if state.base else [])]
    settled = [*(one.path for one in kept), *state.obsolete, *state.aborted, *state.pending, *state.foreign]
    tops = {entry.path.partition("/")[0] for entry in entries(location)}
    originals = {file.path.partition("/")[0] for file in state.originals}
    assert len(settled) == len(set(settled))
    assert tops - set(settled) - originals <= empty_originals(location)


@settings(max_examples=examples(500))
@given(seed=st.integers(0, 2**48))
def test_the_inventory_tells_of_every_file_what_selection_does_with_it(seed: int) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    snapshot = InventorySnapshot(ids.write_ids, ids.txns)
    found = take_inventory(
        entries(location), snapshot, metadata(location), TableKind.FULL_ACID, staging_txn_id
    )
    assert [file.path for file in found.files] == sorted(location.files)
    assert all(item.reason for item in (*found.directories, *found.files))
    if found.state is None:
        assert location.too_new
        return
    assert found.state == state_of(location, ids)
    used = {file.path for file in found.files if file.state is ItemState.USED}
    assert used == set(files_read(found.state))


def files_read(state: AcidState) -> Iterator[str]:
    yield from (file.path for file in state.originals)
    for directory in (*((state.base,) if state.base else ()), *state.deltas, *state.delete_deltas):
        yield from (file.path for file in (*directory.acid_files, *directory.loaded_files))


def empty_originals(location: Location) -> set[str]:
    """Return where empty files of the root lie: nothing is read from them, and nothing hides them."""
    return {path.partition("/")[0] for path, content in location.files.items() if content == Junk(b"")}


PIECES = (
    "base",
    "delta",
    "delete",
    "_",
    "_",
    "_",
    "v",
    "0000003",
    "5",
    "-",
    " ",
    ".",
    "x",
    "=",
    "\u0663",
    "copy",
    "1" * 25,
)
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
BAD_NAMES = (
    "base_", "base_x", "base_5_v", "base_5_3", "base_0000005_v7_v8", "delta_5", "delta_5_3", "delta_1_2_3_4",
    "delta_1_2_v", "delta_1_2_-1", "delete_delta_1", "delete_delta__", "delta_1_\u0662", "base_5.tmp", "delta_1_1_0000 ",
)  # fmt: skip
BAD_METADATA = (
    "", "{", "[]", "null", '{"thisFileVersion":"0"}', '{"dataFormat":"rebalanced"}', '{"dataFormat":["compacted"]}'
)  # fmt: skip


@settings(max_examples=examples(500))
@given(seed=st.integers(0, 2**48), names=st.lists(NAMES, min_size=1, max_size=4))
def test_any_names_are_read_or_refused_by_an_error_that_names_them(seed: int, names: list[str]) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    error = refusal(
        location, ids, [FileEntry(f"{name}/bucket_00000", is_dir=False, size=9) for name in names]
    )
    if isinstance(error, NotEnoughHistoryError):
        assert any(name.startswith("base_") for name in names) or location.too_new
    elif error is not None:
        assert error.path is not None
        assert error.path.partition("/")[0] in {path.partition("/")[0] for path in (*names, *location.files)}


def refusal(location: Location, ids: Ids, more: list[FileEntry]) -> FormatError | None:
    """Select with some more entries; return what is refused. No other error may come."""
    try:
        select([*entries(location), *more], ids.write_ids, ids.txns, metadata(location))
    except FormatError as error:
        return error
    return None


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 2**48), name=st.sampled_from(BAD_NAMES))
def test_a_bad_name_among_good_ones_is_refused(seed: int, name: str) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    listed = [*entries(location), FileEntry(f"{name}/bucket_00000", is_dir=False, size=9)]
    with pytest.raises(BadDirectoryNameError) as caught:
        select(listed, ids.write_ids, ids.txns, metadata(location))
    assert caught.value.path == name


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 2**48), text=st.sampled_from(BAD_METADATA))
def test_a_side_file_that_says_nonsense_is_refused(seed: int, text: str) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    directory = f"base_{len(ids.states):09d}"
    location.files[f"{directory}/_metadata_acid"] = Junk(text.encode())
    with pytest.raises(BadFileError) as caught:
        state_of(location, ids)
    assert caught.value.path == f"{directory}/_metadata_acid"
