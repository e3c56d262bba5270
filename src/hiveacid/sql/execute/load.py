"""LOAD DATA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.sql.binding.source_positions import errors_at
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.execute.small_results import write_result
from hiveacid.table.write.load import LoadOptions, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.execute.context import ExecutionContext
    from hiveacid.sql.statements import LoadData


def load_data(execution: ExecutionContext, statement: LoadData) -> DataFrame:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE t [PARTITION (...)]."""
    name = execution.find(statement.table)
    options = LoadOptions(
        statement.local, statement.overwrite, partition_values(execution, statement.partition)
    )
    with errors_at(statement.table.line, statement.table.column):
        report = load(execution.context, name, statement.path, options, execution.joined)
    return write_result(execution.context.facts, report)
