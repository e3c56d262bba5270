"""A selection is used again only for snapshots, and for locations, that would get the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.format.names import ACID_VERSION_FILE, FLUSH_LENGTH_SUFFIX, METADATA_FILE, layout_name
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry, FooterFacts, metadata_paths
from hiveacid.core.snapshot.file_records import RecordedDirectory, RecordedFile, listed_entries
from hiveacid.core.snapshot.selection import AcidState, SnapshotIds, measure_reach, select
from hiveacid.core.snapshot.selection_by_names import NamedSelection, names_of
from hiveacid.errors import FormatError
from support.directories.maker import make_location
from support.directories.model import ABORTED, COMMITTED, LATER, OPEN, Ids, Junk, Location, make_ids
from support.exhaustive import examples


def entries(location: Location) -> list[FileEntry]:
    folders = {path.rpartition("/")[0] for path in location.files} | location.directories
    folders |= {folder.partition("/")[0] for folder in folders}
    listed = [FileEntry(path, is_dir=True) for path in folders - {""}]
    return listed + [FileEntry(path, is_dir=False, size=100) for path in location.files]


def outcome(location: Location, ids: SnapshotIds) -> AcidState | str:
    listed = entries(location)
    metadata = {}
    for path in metadata_paths(listed):
        content = location.files[path]
        assert isinstance(content, Junk)
        metadata[path.rpartition("/")[0]] = content.data.decode()
    try:
        return select(listed, ids.write_ids, ids.txns, metadata)
    except FormatError as error:
        return type(error).__name__  # its text names ids


def changed(random: Random, ids: Ids) -> Ids:
    """Let time pass, or go back: some ids end otherwise, later ones follow, other compactions commit."""
    states = list(ids.states)
    for _ in range(random.choice((0, 0, 1, 2))):
        states[random.randrange(len(states))] = random.choice((COMMITTED, ABORTED, OPEN))
    known = [state for state in states if state != LATER]  # ids are given in order
    states = known + [LATER] * (len(states) - len(known))
    states += random.choices((COMMITTED, ABORTED, OPEN), k=random.choice((0, 1, 3)))
    if LATER in states:
        states = [COMMITTED if state == LATER else state for state in states]
    txns = ids.open_txns if random.random() < 0.7 else ids.open_txns[1:]
    return Ids(tuple(states), tuple(states), txns, ids.aborted_txns)


def lists(ids: Ids) -> SnapshotIds:
    return SnapshotIds(ids.write_ids, ids.txns)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(800), deadline=None)
def test_snapshots_with_one_view_of_a_location_select_the_same(seed: int) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    reach = measure_reach(entries(location))
    other = changed(random, ids)
    if lists(ids).view(reach) == lists(other).view(reach):
        first, second = lists(ids), lists(other)
        assert outcome(location, first) == outcome(location, second), seed


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(300), deadline=None)
def test_later_ids_leave_the_view_as_it_is(seed: int) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    reach = measure_reach(entries(location))
    top = max(reach[0], ids.write_ids.high_watermark)
    if ids.write_ids.high_watermark < reach[0] or ids.txns.high_watermark < reach[1]:
        return
    later = SnapshotIds(
        replace(
            ids.write_ids,
            high_watermark=WriteId(top + 5),
            open=(*ids.write_ids.open, WriteId(top + 2)),
            aborted=(*ids.write_ids.aborted, WriteId(top + 4)),
        ),
        replace(ids.txns, high_watermark=TxnId(ids.txns.high_watermark + 3)),
    )
    same = lists(ids).view(reach) == later.view(reach)
    assert same or ids.write_ids.min_open is None
    if same:
        assert outcome(location, lists(ids)) == outcome(location, later)


def recorded(random: Random, location: Location, sizes: tuple[int, ...]) -> list[RecordedDirectory]:
    """Return a location as records: directories of the layout, with files of random sizes and times."""
    tops = {path.partition("/")[0] for path in (*location.files, *location.directories)}
    found = []
    for top in sorted(tops):
        names = sorted(path.partition("/")[2] for path in location.files if path.startswith(f"{top}/"))
        if layout_name(top) is None:
            continue
        files = tuple(
            RecordedFile(
                name, random.choice(sizes), random.choice((None, FooterFacts(random.randrange(9), "s")))
            )
            for name in names
            if name != ACID_VERSION_FILE
        )
        found.append(RecordedDirectory(top, files, ACID_VERSION_FILE in names, random.randrange(1 << 40)))
    return found


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(800), deadline=None)
def test_locations_of_the_same_names_are_selected_alike(seed: int) -> None:
    """With the sizes, times and facts of their own files; an empty file, or a side file, ends that."""
    random = Random(seed)
    ids = lists(make_ids(random))
    location = make_location(random, make_ids(random))
    first, other = (
        recorded(random, location, sizes) for sizes in ((1, 2), random.choice(((3, 4), (0, 3, 4))))
    )
    assert names_of(first) == names_of(other)
    try:
        selected, expected = (select(listed_entries(one), ids.write_ids, ids.txns) for one in (first, other))
    except FormatError:
        return
    named = NamedSelection.of(selected, first)
    if named is None:
        assert any(is_side_file(file.name) for one in first for file in one.files), seed
        return
    assert named.reach == measure_reach(listed_entries(other))
    found = named.select(other)
    if found is None:
        assert any(not file.size for one in other for file in one.files), seed
        return
    assert found == expected, seed
    assert files_of(found) == files_of(expected), seed


def is_side_file(name: str) -> bool:
    return name == METADATA_FILE or name.endswith(FLUSH_LENGTH_SUFFIX)


def files_of(state: AcidState) -> list[tuple[object, ...]]:
    """Return all values of the files, with those that `DataFile` does not compare."""
    return [tuple(file) for directory in state.directories_to_read for file in directory.files]
