"""Read a table in parallel by Ray, Daft or Dask: each task of a plan in a process of theirs.

    pip install 'hiveacid[arrow]' ray        or daft, or 'dask[dataframe,distributed]'
    python examples/read_in_parallel.py ray|daft|dask WAREHOUSE TABLE COLUMN

Prints the rows of each value of a column. The processes need hiveacid and the files, not the store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hiveacid

if TYPE_CHECKING:
    from hiveacid import ScanPlan


def by_ray(plan: ScanPlan, column: str) -> dict[Any, int]:
    """Count by a data set whose blocks are read where Ray's workers run."""
    import ray  # noqa: PLC0415 - one of three

    @ray.remote
    def read(task: Any) -> Any:
        return task.to_arrow()

    counts = ray.data.from_arrow_refs([read.remote(task) for task in plan]).groupby(column).count()
    return {row[column]: row["count()"] for row in counts.take_all()}


def by_daft(plan: ScanPlan, column: str) -> dict[Any, int]:
    """Count by a data source whose tasks are those of the plan."""
    import daft  # noqa: PLC0415 - one of three
    from daft.io.source import DataSource, DataSourceTask  # noqa: PLC0415 - one of three
    from daft.recordbatch import MicroPartition  # noqa: PLC0415 - one of three

    columns = daft.Schema.from_pyarrow_schema(plan.schema)

    class Task(DataSourceTask):
        def __init__(self, task: Any) -> None:
            self.task = task

        @property
        def schema(self) -> Any:
            return columns

        def get_micro_partitions(self) -> Iterator[Any]:
            yield MicroPartition.from_arrow(self.task.to_arrow())

    class Source(DataSource):
        name = "hiveacid"
        schema = columns

        async def get_tasks(self, pushdowns: Any) -> Any:  # noqa: ARG002 - Daft's
            for task in plan:
                yield Task(task)

    counts = Source().read().groupby(column).agg(daft.lit(1).count().alias("rows"))
    return {row[column]: row["rows"] for row in counts.to_pylist()}


def by_dask(plan: ScanPlan, column: str) -> dict[Any, int]:
    """Count by a frame with a part for each task."""
    import dask.dataframe  # noqa: PLC0415 - one of three
    from dask.distributed import Client  # noqa: PLC0415 - one of three

    def read(task: Any) -> Any:
        return task.to_arrow().to_pandas()

    with Client(processes=True):
        frame = dask.dataframe.from_map(read, [*plan], meta=plan.schema.empty_table().to_pandas())
        counts: dict[Any, int] = frame[column].value_counts().compute().to_dict()
    return counts


def main(engine: str, warehouse: str, table: str, column: str) -> None:
    """Print a count for each value."""
    count = {"ray": by_ray, "daft": by_daft, "dask": by_dask}[engine]
    with hiveacid.open(warehouse) as wh, wh.table(table).plan([column]) as plan:
        for value, rows in sorted(count(plan, column).items()):
            print(value, rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ray" | "daft" | "dask" as engine, warehouse, table, column]:
            main(engine, warehouse, table, column)
        case _:
            sys.exit(f"usage: {sys.argv[0]} ray|daft|dask WAREHOUSE TABLE COLUMN")
