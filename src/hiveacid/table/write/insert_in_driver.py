"""INSERT of a short list of rows, which Arrow writes in the driver: a Spark job takes longer than the rows do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.spark.formats.driver_frames import listed_rows
from hiveacid.spark.session.capabilities import ARROW_FRAMES
from hiveacid.spark.write.acid_events import StagingTarget, new_rows_for_arrow
from hiveacid.spark.write.publish import StagedFile
from hiveacid.spark.write.task_reports import TaskReport
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import Stage, can_write, stage_computed_rows
from hiveacid.table.write.driver_reads import may_read_in_driver

_MAX_ROWS = 10_000


def stage_list(
    context: Context, table: TableDefinition, rows: DataFrame, by_spark: Stage, *, dynamic: bool
) -> Stage:
    """Return the stage that writes rows by Arrow if the statement lists them, as in VALUES, else by ``by_spark``.

    ``rows``: the table's columns, with partition columns if ``dynamic``.
    """
    if not _may_write_in_driver(context, table):
        return by_spark
    own = table if dynamic else replace(table, partition_columns=())

    def stage(target: StagingTarget, directory: str) -> tuple[list[StagedFile], TaskReport]:
        flat = replace(target, table=own)
        frame: Any = new_rows_for_arrow(flat, rows)
        count = listed_rows(frame)
        if count is None or count > _MAX_ROWS:
            return by_spark(target, directory)
        return stage_computed_rows(context, frame.toArrow(), flat, directory) or by_spark(target, directory)

    return stage


def _may_write_in_driver(context: Context, table: TableDefinition) -> bool:
    facts = context.facts
    return (
        table.kind is TableKind.FULL_ACID
        and facts.classic
        and facts.version >= ARROW_FRAMES
        and may_read_in_driver(context)
        and can_write(table)
    )
