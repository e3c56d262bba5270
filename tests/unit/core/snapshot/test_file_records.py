"""Records of files: their text comes back as it was, they look like a listing, and differences are named."""

from __future__ import annotations

import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.core.snapshot.directory_listing import FileEntry, FooterFacts, read_listing
from hiveacid.core.snapshot.file_records import (
    RecordedDirectory,
    RecordedFile,
    directory_of_text,
    directory_text,
    first_difference,
    listed_entries,
)
from hiveacid.core.snapshot.selection import AcidState, select
from support.exhaustive import examples

NUMBERS = st.integers(0, 1 << 62)
FACTS = st.builds(
    FooterFacts,
    rows=NUMBERS,
    schema=st.sampled_from(("struct<a:int>", 'struct<`ä "b`:string>', "struct<>")),
    is_acid=st.booleans(),
    has_events=st.booleans(),
    keys=st.just(()) | st.tuples(*[NUMBERS] * 6),
    statistics=st.lists(st.binary(max_size=40), max_size=5).map(tuple),
)
FILES = st.builds(RecordedFile, st.text(min_size=1, max_size=10), NUMBERS, st.none() | FACTS)
DIRECTORIES = st.builds(
    RecordedDirectory, st.just("base_0000001"), st.lists(FILES, max_size=4).map(tuple), st.booleans(), NUMBERS
)


@given(DIRECTORIES)
@settings(max_examples=examples(400), deadline=None)
def test_a_record_comes_back_from_its_text(directory: RecordedDirectory) -> None:
    text = directory_text(directory)
    assert text.isascii()
    assert directory_of_text(directory.name, text) == directory


def test_facts_that_a_statement_has_no_room_for_are_not_recorded() -> None:
    """As of 1,000 files with hundreds of columns each. The directory is told all the same."""
    sample = Random(1)
    facts = [FooterFacts(1, "struct<a:int>", statistics=(sample.randbytes(12_000),)) for _ in range(400)]
    files = tuple(RecordedFile(f"bucket_{number:05d}", 700, one) for number, one in enumerate(facts))
    few, many = RecordedDirectory("base_0000001", files[:100]), RecordedDirectory("base_0000001", files)
    assert directory_of_text(few.name, directory_text(few)) == few
    told = directory_of_text(many.name, directory_text(many))
    assert told.files == tuple(RecordedFile(file.name, file.size) for file in files)


def test_records_are_small() -> None:
    """A file of two columns takes a few hundred bytes, and those beside it less."""
    schema = "struct<id:int,name:string>"
    bounds = tuple(bytes((8, 3, 18, 4, 8, 2, 16, 6, number)) for number in range(8))
    facts = FooterFacts(3, schema, True, False, (1, 1, 1 << 29, 1 << 29, 0, 2), bounds)
    one, ten = (
        RecordedDirectory(
            "base_0000001", tuple(RecordedFile(f"bucket_{n:05d}", 700, facts) for n in range(count))
        )
        for count in (1, 10)
    )
    assert len(directory_text(one)) < 250
    assert len(directory_text(ten)) < 1000


DELTA = RecordedDirectory(
    "delta_0000001_0000001_0000", (RecordedFile("bucket_00000", 7), RecordedFile("bucket_00001", 8)), True
)
WITH_FACTS = RecordedDirectory(
    "delta_0000003_0000003_0000",
    (RecordedFile("bucket_00000", 7, FooterFacts(1, "struct<a:int>", statistics=(b"x",))),),
    made=19,
)
LOADED = RecordedDirectory("delta_0000002_0000002_0000", (RecordedFile("000000_0", 9),), made=17)
OVERWRITTEN = RecordedDirectory("base_0000003", (), True)


def read(*directories: RecordedDirectory, top: int = 3) -> AcidState:
    ids = parse_write_id_list(f"a.t:{top}:9223372036854775807::")
    return select(listed_entries(directories), ids, None)


def test_records_look_like_a_listing() -> None:
    """Of the layout's directories, with their version files."""
    directories = read_listing(listed_entries([DELTA, LOADED, OVERWRITTEN])).directories
    assert [(one.path, one.has_version_file, len(one.files)) for one in directories] == [
        ("delta_0000001_0000001_0000", True, 2),
        ("delta_0000002_0000002_0000", False, 1),
        ("base_0000003", True, 0),
    ]
    assert listed_entries([LOADED]) == (
        FileEntry("delta_0000002_0000002_0000", is_dir=True),
        FileEntry("delta_0000002_0000002_0000/000000_0", is_dir=False, size=9, modified=17),
    )


@pytest.mark.parametrize(
    ("recorded", "path", "message"),
    [
        ([DELTA, LOADED], None, ""),
        ([DELTA, LOADED, OVERWRITTEN], None, "a later snapshot reads it"),
        ([DELTA], LOADED.name, "no commit has recorded it"),
        ([DELTA, LOADED, RecordedDirectory("base_0000000")], "base_0000000", "it is not there"),
        (
            [RecordedDirectory(DELTA.name, (DELTA.files[0],), has_version_file=True), LOADED],
            f"{DELTA.name}/bucket_00001",
            "no commit has recorded it",
        ),
        (
            [DELTA, RecordedDirectory(LOADED.name, (RecordedFile("000000_0", 8),))],
            f"{LOADED.name}/000000_0",
            "9 bytes were found, and 8 bytes were recorded",
        ),
        (
            [DELTA, RecordedDirectory(LOADED.name, LOADED.files, has_version_file=True)],
            LOADED.name,
            "ALL rows, perhaps without row ids were found, and ALL rows were recorded",
        ),
    ],
)
def test_the_first_difference_is_named(
    recorded: list[RecordedDirectory], path: str | None, message: str
) -> None:
    found = first_difference(read(DELTA, LOADED, top=2), read(*recorded, top=2))
    if path is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == path
        assert message in found[1]


def test_facts_stay_in_the_process_that_plans() -> None:
    (directory,) = read_listing(listed_entries([WITH_FACTS])).directories
    (file,) = directory.files
    assert file.facts == WITH_FACTS.files[0].facts
    sent = pickle.loads(pickle.dumps(file))  # noqa: S301 - made here
    assert (sent, sent.modified, sent.facts) == (file, file.modified, None)
