"""``format("hiveacid")`` on Spark's Python Data Source API (Spark 4.0 and later).

`register` makes the format known to a session; `hiveacid.connect` calls it if the session supports it.

- Batch (`data_source`): a task of a read reads one file; a task of a write stages one Arrow file. The driver then
  writes all staged files in one transaction.
- Streaming sink (`stream_sink`): the same for each batch of a query. The transaction carries the batch's id, so that a repeated
  batch is written once.
- Streaming source (`stream_source`): a process of the driver finds offsets and files (`stream_offsets`). The tasks read the
  files with the reader of `hiveacid.open`, and pair deletes and inserts of one key (`change_feed_task`).

Spark starts Python processes for all of this and pickles the objects between them. The objects therefore hold options
only, and each process opens the store itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import active_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def can_register(spark: SparkSession) -> bool:
    """Tell whether a session supports data sources in Python: Spark 4.0 and later."""
    return int(spark.version.partition(".")[0]) >= 4  # noqa: PLR2004 - Spark's major version


def register(spark: SparkSession) -> None:
    """Register ``format("hiveacid")`` in a session, once. Raises UnsupportedFeatureError before Spark 4."""
    if not can_register(spark):
        raise UnsupportedFeatureError(
            f'format("hiveacid") needs Spark 4.0 or later, this is {spark.version}: write streams by '
            "foreachBatch(t.stream_writer(...))"
        )
    if not _is_registered(spark):
        # Spark looks for the name in the active session, whatever ``spark`` is
        with active_session(SparkEnvironment(spark)):
            spark.dataSource.register(_portable_source())


def _portable_source() -> type[DataSource]:
    """Return the class to register: a small one, sent by value, whose call makes a `HiveAcidDataSource`."""
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415 - Spark 3.5 has no such API

    from hiveacid.datasource.data_source import HiveAcidDataSource  # noqa: PLC0415
    from hiveacid.spark.session.python_workers import pickle_for_workers, unpickler  # noqa: PLC0415

    unpickle, pickled = unpickler(), pickle_for_workers(HiveAcidDataSource)

    class HiveAcid(DataSource):
        def __new__(cls, options: Mapping[str, str]) -> Any:
            return unpickle(pickled)(options)

        @classmethod
        def name(cls) -> str:
            return "hiveacid"

    return HiveAcid


def _is_registered(spark: SparkSession) -> bool:
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(
        session.sessionState().dataSourceManager().dataSourceExists("hiveacid")
    )
