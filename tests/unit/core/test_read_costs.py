"""Who reads the rows that a statement changes: laws of the choice, and the figures that it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.read_costs import ReadBy, Readers, ReadSize, column_bytes

MB = 1 << 20
_SIZES = st.builds(ReadSize, st.integers(0, 30_000), st.integers(0, 1 << 40))
_READERS = st.builds(
    Readers,
    st.integers(1, 20_000),
    st.integers(0, 256 * MB),
    st.integers(1, 8),
    st.integers(0, 10_000),
    st.booleans(),
)


@given(_READERS, _SIZES, st.integers(0, 30_000), st.integers(0, 1 << 40))
def test_what_the_driver_reads_it_also_reads_of_less(
    readers: Readers, size: ReadSize, fewer: int, less: int
) -> None:
    smaller = ReadSize(max(0, size.files - fewer), max(0, size.bytes - less))
    if readers.choose(size) is ReadBy.DRIVER:
        assert readers.choose(smaller) is ReadBy.DRIVER


@given(_READERS, _SIZES, st.integers(0, 1000))
def test_more_executors_never_bring_work_to_the_driver_and_more_threads_never_take_it_away(
    readers: Readers, size: ReadSize, more: int
) -> None:
    if readers.cores and readers.choose(size) is not ReadBy.DRIVER:
        assert replace(readers, cores=readers.cores + more).choose(size) is readers.others
    if readers.choose(size) is ReadBy.DRIVER:
        assert replace(readers, threads=readers.threads + more).choose(size) is ReadBy.DRIVER


@given(_READERS, _SIZES)
def test_limits_hold_whatever_the_processors_are(readers: Readers, size: ReadSize) -> None:
    chosen = readers.choose(size)
    within = size.files <= readers.max_files and readers.max_bytes > 0
    if not within or size.bytes > 16 * readers.max_bytes:
        assert chosen is readers.others
        assert readers.max_bytes or chosen is ReadBy.JOB
    elif size.bytes <= readers.max_bytes:
        assert chosen is ReadBy.DRIVER


@pytest.mark.parametrize(
    ("cores", "size", "chosen"),
    [
        (0, 1024 * MB, ReadBy.DRIVER),  # a local master
        (0, 1025 * MB, ReadBy.JOB),
        (2, 1024 * MB, ReadBy.DRIVER),  # a small cluster
        (100, 64 * MB, ReadBy.DRIVER),
        (100, 90 * MB, ReadBy.DRIVER),
        (100, 120 * MB, ReadBy.JOB),
    ],
)
def test_the_driver_reads_as_long_as_it_takes_less_time_than_a_job(
    cores: int, size: int, chosen: ReadBy
) -> None:
    assert Readers(500, 64 * MB, 2, cores).choose(ReadSize(1, size)) is chosen


@pytest.mark.parametrize(
    ("cores", "size", "chosen"),
    [
        (2, 1024 * MB, ReadBy.DRIVER),
        (100, 85 * MB, ReadBy.DRIVER),
        (100, 90 * MB, ReadBy.EXECUTORS),
        (4, 2000 * MB, ReadBy.EXECUTORS),
    ],
)
def test_executors_with_arrow_take_more_from_the_driver(cores: int, size: int, chosen: ReadBy) -> None:
    assert Readers(500, 64 * MB, 2, cores, executors=True).choose(ReadSize(1, size)) is chosen


_REMOTE = st.builds(
    Readers,
    st.integers(1, 20_000),
    st.integers(1, 256 * MB),
    st.integers(1, 8),
    st.integers(1, 10_000),
    st.booleans(),
    st.sampled_from([4, 16]),
)


@given(_REMOTE, _SIZES, st.integers(0, 1000))
def test_of_remote_files_more_threads_never_take_work_from_the_driver_and_more_executors_never_bring_it(
    readers: Readers, size: ReadSize, more: int
) -> None:
    by_driver = readers.choose(size) is ReadBy.DRIVER
    if by_driver:
        assert replace(readers, remote_files=readers.remote_files + more).choose(size) is ReadBy.DRIVER
        assert replace(readers, threads=readers.threads + more).choose(size) is ReadBy.DRIVER
        assert replace(readers, cores=0).choose(size) is ReadBy.DRIVER
    else:
        assert replace(readers, cores=readers.cores + more).choose(size) is readers.others


@given(_REMOTE, _SIZES)
def test_what_the_driver_reads_of_remote_files_takes_no_longer_than_by_others(
    readers: Readers, size: ReadSize
) -> None:
    """The limits hold, few and small files never need a job, and a job is never slower by more than it takes to start."""
    chosen = readers.choose(size)
    waits = size.files * 0.12
    in_driver = waits / readers.remote_files + size.bytes / MB / 85 / readers.threads
    rate = 85 if readers.executors else 21
    by_others = 0.5 + (waits + size.bytes / MB / rate) / readers.cores
    if size.files > readers.max_files or size.bytes > 16 * readers.max_bytes:
        assert chosen is readers.others
    elif size.files <= 8 and size.bytes <= readers.max_bytes:
        assert chosen is ReadBy.DRIVER
    elif chosen is ReadBy.DRIVER:
        assert in_driver <= by_others + 1e-6 or (
            size.bytes <= readers.max_bytes and waits <= 0.5 * readers.remote_files
        )
    else:
        assert in_driver > by_others - 1e-6


@pytest.mark.parametrize(
    ("cores", "files", "size", "chosen"),
    [
        (0, 500, 64 * MB, ReadBy.DRIVER),  # a local master
        (2, 500, 64 * MB, ReadBy.DRIVER),  # a job's tasks wait, too
        (16, 500, 64 * MB, ReadBy.DRIVER),
        (100, 66, 64 * MB, ReadBy.DRIVER),
        (100, 200, 64 * MB, ReadBy.EXECUTORS),
        (100, 501, 1 * MB, ReadBy.EXECUTORS),
        (2, 501, 1 * MB, ReadBy.EXECUTORS),
    ],
)
def test_remote_files_are_read_where_fewer_wait_for_answers(
    cores: int, files: int, size: int, chosen: ReadBy
) -> None:
    readers = Readers(500, 64 * MB, 4, cores, executors=True, remote_files=16)
    assert readers.choose(ReadSize(files, size)) is chosen


@given(st.integers(0, 1 << 30), st.none() | st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_column_costs_a_byte_for_each_row_and_no_more_than_its_file(
    rows: int, on_disk: int | None, file: int
) -> None:
    found = column_bytes(rows, on_disk, file)
    assert rows <= found <= max(rows, file)
    assert on_disk is None or found >= min(on_disk, file)
