"""INSERT of rows listed in the statement, written by Arrow in the driver: for few rows a Spark job takes longer."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.spark.formats.driver_frames import collect_as_arrow, count_listed_rows
from hiveacid.spark.write.sort_and_stage import StagingTarget, new_rows_for_arrow
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import StagedOutput, StageFiles, can_write, stage_computed_rows
from hiveacid.table.write.driver_reads import may_read_in_driver

_MAX_ROWS = 10_000


def stage_listed_rows(
    context: Context, table: TableDefinition, rows: DataFrame, by_spark: StageFiles, *, dynamic: bool
) -> StageFiles:
    """Return the stage that writes at most 10,000 rows of VALUES by Arrow, and all others by ``by_spark``.

    ``rows``: a frame of the table's columns, with partition columns if ``dynamic``.
    """
    if not _may_write_in_driver(context, table):
        return by_spark
    staged_table = table if dynamic else replace(table, partition_columns=())

    def stage(target: StagingTarget, directory: str) -> StagedOutput:
        target_of_rows = replace(target, table=staged_table)
        frame = new_rows_for_arrow(target_of_rows, rows)
        count = count_listed_rows(frame)
        if count is None or count > _MAX_ROWS:
            return by_spark(target, directory)
        staged = stage_computed_rows(context, collect_as_arrow(context.env, frame), target_of_rows, directory)
        return staged or by_spark(target, directory)

    return stage


def _may_write_in_driver(context: Context, table: TableDefinition) -> bool:
    return table.kind is TableKind.FULL_ACID and may_read_in_driver(context) and can_write(table)
