"""LOAD DATA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.sql.execute_insert import partition_values
from hiveacid.sql.placing import at
from hiveacid.sql.rows import written
from hiveacid.table.load import LoadOptions, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.session import AcidSession
    from hiveacid.sql.statements import LoadData


def load_data(session: AcidSession, statement: LoadData) -> DataFrame:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE t [PARTITION (...)]."""
    name = session.find(statement.table)
    options = LoadOptions(
        statement.local, statement.overwrite, partition_values(session, statement.partition)
    )
    with at(statement.table.line, statement.table.column):
        report = load(session.context, name, statement.path, options, session.joined)
    return written(session.context.facts, report)
