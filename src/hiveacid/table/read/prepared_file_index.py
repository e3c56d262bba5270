"""Spark's file index of a first plan, made ahead: the JVM works on it while Python reads the footers.

Only the footers tell which files a scan reads together. So the index is a guess, and a scan takes it only if it holds
exactly the scan's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.spark.read.file_index import is_indexed, make_index
from hiveacid.spark.read.scan_groups import FileGroup, ReadOptions
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context
from hiveacid.table.read.footers import footers_are_known

MIN_FILES = 1000
"""Files from which a thread is worthwhile."""


@contextmanager
def index_made_ahead(
    context: Context, table: TableDefinition, locations: Sequence[Location], *, wanted: bool
) -> Iterator[Callable[[FileGroup], Any]]:
    """Begin to make an index; yield a function that returns it if a group has its files, else None.

    ``wanted``: files will be scanned.
    """
    group = None
    if wanted and table.kind is TableKind.FULL_ACID and not footers_are_known(context, table, locations):
        group = _expected_group(locations)
    if group is None or len(group.files) < MIN_FILES or not is_indexed(group):
        yield lambda _: None
        return
    with ThreadPoolExecutor(1, thread_name_prefix="hiveacid-file-index") as pool:
        made = pool.submit(make_index, context.env, group)
        yield lambda asked: made.result() if asked.files == group.files else None


def _expected_group(locations: Sequence[Location]) -> FileGroup:
    """Return the files that no delete event can match, in the order of a scan, as if each had rows and the same columns."""
    files, sizes = [], []
    for location in locations:
        root = spark_path(location.root)
        for directory in () if location.state.delete_deltas else location.state.row_directories:
            for file in directory.acid_files if directory.validity is RangeShare.ALL else ():
                if file.size and file.flush_length_path is None:
                    files.append(f"{root}/{file.path}")
                    sizes.append((file.size, file.modified))
    return FileGroup(tuple(files), 0, ReadOptions(), (), (), None, sizes=tuple(sizes))
