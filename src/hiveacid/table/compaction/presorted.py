"""Compaction of rows that need no sorting: files are read and written one by one, then spliced.

Sorting a table costs a shuffle of all its rows, and memory that grows with it. A base and the large deltas above it
are in key order already (``core.compaction.plan``). Only small files, and files with overlapping keys, are
sorted. If the written files turn out not to be in key order, the caller sorts all rows.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import DataFrame

from hiveacid.config import setting_definitions
from hiveacid.core.compaction.plan import KeyedFile, files_in_key_order
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import LocationPlan, ScanFile
from hiveacid.spark.read.scan import scan
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.write import sort_and_stage
from hiveacid.spark.write.splice_task_files import splice_by_bucket
from hiveacid.spark.write.staged_files import StagedKind, add_reports, list_staged_files
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context
from hiveacid.table.read.footers import Footers
from hiveacid.table.write.arrow_staging import StagedOutput

logger = logging.getLogger(__name__)

_LEAST_PART = 64 << 20  # smallest part of a file, in bytes, that one task reads


def stage_in_order(
    context: Context,
    target: sort_and_stage.StagingTarget,
    location: Location,
    write_ids: ValidWriteIdList,
    footers: Footers,
    directory: str,
) -> StagedOutput | None:
    """Stage the live rows of a location below ``directory`` and return one file for each bucket, in key order.

    None if all rows have to be sorted. That is the case if no file is large, if keys overlap or are unknown, if rows
    have no row ids in the files, or if delete events are so many that they are joined by a shuffle.
    """
    large = context.settings.get(setting_definitions.UNSORTED_FILE_SIZE)
    chosen = _files_without_sorting(location, footers, large)
    if not chosen:
        return None
    env = context.env.session_with_task_per_file(_split_size(context.env, list(chosen.values())))
    rows, events = footers.plans[location.partition]
    unsorted, others = (
        tuple(file for file in rows if (file.path in chosen) == inside) for inside in (True, False)
    )

    def scan_of(files: tuple[ScanFile, ...], env: SparkEnvironment) -> DataFrame:
        plans = {location.partition: LocationPlan(files, events)}
        source = ScanSource(env, context.fs, target.table, write_ids, plans)
        return scan(source, [location], footers.bounds, current=True)

    read = scan_of(unsorted, env)
    reports = [sort_and_stage.stage_in_read_order(replace(target, env=env), read, f"{directory}/read")]
    files = list_staged_files(context.fs, f"{directory}/read", StagedKind.INSERTED, reports[0])
    if others:
        read = scan_of(others, context.env)
        reports.append(sort_and_stage.stage_rows_with_ids(target, read, f"{directory}/sorted"))
        files += list_staged_files(context.fs, f"{directory}/sorted", StagedKind.INSERTED, reports[1])
    result = splice_by_bucket(context.fs, files)
    outcome = "are not in key order, and are sorted" if result is None else "are written as they are read"
    logger.info("%s: the rows of %d files %s", target.table.name, len(chosen), outcome)
    return None if result is None else (result, add_reports(reports))


def _files_without_sorting(location: Location, footers: Footers, large: int) -> dict[str, int]:
    """Return the files to be read without sorting, with their sizes."""
    if (
        footers.has_acid_v1_events
        or not all(file.acid for file in footers.plans[location.partition].rows)
        or (footers.bounds is not None and not footers.bounds.fits_memory)
    ):
        return {}
    files = []
    for file in footers.plans[location.partition].rows:
        if file.keys is None:
            return {}
        files.append(KeyedFile(file.path, file.listed.size, file.keys.low, file.keys.high))
    chosen = files_in_key_order(files, large)
    return {file.path: file.size for file in files if file.path in chosen}


def _split_size(env: SparkEnvironment, sizes: list[int]) -> int | None:
    """Return the split size in bytes that gives every core a part; None if there are enough files."""
    cores = env.spark.sparkContext.defaultParallelism
    return None if len(sizes) >= cores else max(_LEAST_PART, -(-sum(sizes) // cores))
