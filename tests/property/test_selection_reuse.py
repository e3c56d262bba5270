"""A selection is used again only for snapshots that would select the same of the same directories."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry, metadata_paths
from hiveacid.core.snapshot.selection import AcidState, SnapshotIds, is_final, measure_reach, select
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


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(300), deadline=None)
def test_what_may_still_change_is_not_final(seed: int) -> None:
    random = Random(seed)
    ids = make_ids(random)
    location = make_location(random, ids)
    state = outcome(location, lists(ids))
    if isinstance(state, str) or not is_final(state):
        return
    assert not state.originals
    assert not state.pending
    for directory in state.directories_to_read:
        assert directory.validity is RangeShare.ALL
        assert all(file.flush_length_path is None for file in directory.files)
        low = getattr(directory.name, "min_write_id", None)
        if low is not None:
            assert all(ids.valid(one) for one in range(low, directory.name.max_write_id + 1))  # type: ignore[union-attr]
