"""Rows of a compaction that need no sorting: read and written file by file, then put together.

Sorting a table costs a shuffle of all its rows and memory that grows with it; a base and the large deltas on top of
it are in order already (``core.in_order``). Only what is small, or lies among others, is sorted. If the written files
do not prove to be in order after all, the caller sorts everything.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.in_order import KeyedFile, passed_on
from hiveacid.core.snapshot import AcidDirectory, AcidState
from hiveacid.spark.publish import StagedFile, staged_files
from hiveacid.spark.scan import Source, data_directories, scan
from hiveacid.spark.splicing import spliced
from hiveacid.spark.write import Kind, Target, stage_as_read, stage_kept

if TYPE_CHECKING:
    from hiveacid.core.listing import DataFile
    from hiveacid.core.write_ids import ValidWriteIdList
    from hiveacid.spark.session import SparkFacts
    from hiveacid.storage.listing import Location
    from hiveacid.table.context import Context
    from hiveacid.table.survey import Survey

logger = logging.getLogger(__name__)

_LEAST_PART = 64 << 20  # bytes of a file that a task gets at least


def stage_in_order(
    context: Context,
    target: Target,
    location: Location,
    write_ids: ValidWriteIdList,
    found: Survey,
    directory: str,
) -> list[StagedFile] | None:
    """Stage the live rows of a location below ``directory`` and return a file a bucket, in key order.

    None where all rows have to be sorted: nothing of it is large, files overlap or say nothing of their keys, rows
    have no ids of their own, or delete events are so many that they are joined by a shuffle.
    """
    large = context.settings.get(keys.UNSORTED_FILE_SIZE)
    chosen = _chosen(location, found, large)
    facts = context.facts.apart(_part(context.facts, list(chosen.values()))) if chosen else None
    if facts is None:
        return None
    source = Source(context.facts, context.fs, target.table, write_ids, found.files)
    some, rest = (_only(location, chosen, inside=inside) for inside in (True, False))
    read = scan(replace(source, facts=facts), [some], found.bounds, current=True)
    stage_as_read(replace(target, facts=facts), read, f"{directory}/read")
    files = staged_files(context.fs, f"{directory}/read", Kind.INSERTED)
    if any(one.files for one in rest.state.row_directories):
        read = scan(source, [rest], found.bounds, current=True)
        stage_kept(target, read, f"{directory}/sorted")
        files += staged_files(context.fs, f"{directory}/sorted", Kind.INSERTED)
    done = spliced(context.fs, files)
    how = "are not in key order, and are sorted" if done is None else "are written as they are read"
    logger.info("%s: the rows of %d files %s", target.table.name, len(chosen), how)
    return done


def _chosen(location: Location, found: Survey, large: int) -> dict[str, int]:
    """Return the files to be read without sorting, with their sizes."""
    if found.old or found.numbered or (found.bounds is not None and not found.bounds.fits_memory):
        return {}
    files = []
    for file in _data(location):
        known = found.files[f"{location.root}/{file.path}"]
        if known.rows and known.keys is None:
            return {}
        if known.rows and known.keys is not None:
            files.append(KeyedFile(file.path, file.size, *known.keys))
    chosen = passed_on(files, large)
    return {file.path: file.size for file in files if file.path in chosen}


def _data(location: Location) -> list[DataFile]:
    return [file for directory in data_directories(location) for file in directory.acid_files]


def _only(location: Location, chosen: Collection[str], *, inside: bool) -> Location:
    """Return the location with some of its files; delete events stay."""

    def filtered(directory: AcidDirectory) -> AcidDirectory:
        return replace(
            directory, files=tuple(file for file in directory.files if (file.path in chosen) == inside)
        )

    state = location.state
    base = None if state.base is None else filtered(state.base)
    return replace(
        location,
        state=AcidState(base, tuple(filtered(one) for one in state.deltas), state.delete_deltas, ()),
    )


def _part(facts: SparkFacts, sizes: list[int]) -> int | None:
    """Return at how many bytes to cut files, so that every core has something to do; None: not at all."""
    cores = facts.spark.sparkContext.defaultParallelism if facts.classic else 1
    return None if len(sizes) >= cores else max(_LEAST_PART, -(-sum(sizes) // cores))
