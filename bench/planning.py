"""Planning: tables of very many small files, planned for the first time and again, beside Spark's ORC reader and Iceberg.

The files are hard links to a few real ORC files, under the names that Hive gives them. A commit for each directory name
records them, as the commits of writers do. A plan ends with the list of Spark's tasks; no row is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from many_files import EVENT, V1, orc
from measure import Figure, Meter, Run
from pyspark.sql import DataFrame
from reading import Reading
from results import Result

from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.snapshot.file_records import NewDirectory, RecordedDirectory, RecordedFile, TableRecords
from hiveacid.orc.footer_summary import facts_of, read_summary
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Client, Operation, Start, Written
from hiveacid.table.context import StoreContext

FILES_EACH = 10  # of a partition
FIRST_DELTA = 2  # write id
CLIENT = Client("bench", "localhost", "planning")
SIZES = (1_000, 10_000, 100_000)
CREATE = (
    "CREATE TABLE {} (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true')"
)


@dataclass(frozen=True)
class Layout:
    """A way to divide the ten files of a partition: ``buckets`` of them in a base, the others in a delta each."""

    name: str
    buckets: int

    def files(self, templates: Path) -> list[tuple[str, Path]]:
        """Write a partition's files; return their paths below the partition and those of the real files."""
        found = []
        for bucket in range(self.buckets):
            rows = [(0, 1, V1 | bucket << 16, n, 1, (n, "base")) for n in range(3)]
            found.append((f"base_0000001/bucket_{bucket:05d}", rows))
        for write_id in range(FIRST_DELTA, FIRST_DELTA + FILES_EACH - self.buckets):
            rows = [(0, write_id, V1, n, write_id, (n, "delta")) for n in range(3)]
            found.append((f"delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000", rows))
        templates.mkdir(parents=True)
        for number, (_, rows) in enumerate(found):
            meta = {"hive.acid.version": "2", "hive.acid.stats": "3,0,0"}
            (templates / str(number)).write_bytes(orc(rows, EVENT, meta))
        return [(path, templates / str(number)) for number, (path, _) in enumerate(found)]


LAYOUTS = (Layout("base and deltas", 5), Layout("base", FILES_EACH))


def make(context: StoreContext, table: TableDefinition, layout: Layout, files: int, scratch: Path) -> None:
    """Fill a new table with very many files."""
    links = layout.files(scratch / f"{table.name.name}-files")
    folders: dict[str, list[RecordedFile]] = {}
    for path, real in links:
        folder, _, name = path.partition("/")
        size = real.stat().st_size
        facts = facts_of(read_summary(context.fs, str(real), size))
        folders.setdefault(folder, []).append(RecordedFile(name, size, facts))
    partitions = [
        Partition((str(number),), f"{table.location}/p={number}") for number in range(files // FILES_EACH)
    ]
    for partition in partitions:
        for folder in folders:
            Path(f"{partition.location}/{folder}").mkdir(parents=True)
        for path, real in links:
            os.link(real, f"{partition.location}/{path}")
    new = tuple(NewPartition(table.name, partition) for partition in partitions)
    for folder, recorded in folders.items():
        made = RecordedDirectory(folder, tuple(recorded), made=context.clock.now())
        directories = tuple(NewDirectory(partition.values, made) for partition in partitions)
        changes = CatalogChanges(partitions=new, records=(TableRecords(table.name, directories),))
        begun = context.store.begin_txn(CLIENT, Start((), (table.name,), (table.name,)))
        context.store.commit_txn(begun.txn_id, changes, [Written(table.name, None, Operation.INSERT)])
        new = ()


def make_flat(root: Path, files: int) -> None:
    """Make a directory of as many flat ORC files."""
    data = orc([(n, "flat") for n in range(3)], "struct<id:int,name:string>", {})
    reals = [root.with_name(f"{root.name}-file{number}") for number in range(FILES_EACH)]
    for real in reals:  # ext4 allows 65,000 links to a file
        real.write_bytes(data)
    for partition in range(files // FILES_EACH):
        Path(f"{root}/p={partition}").mkdir(parents=True)
        for number, real in enumerate(reals):
            os.link(real, f"{root}/p={partition}/part-{number:05d}.orc")


def planned(frame: DataFrame) -> int:
    """Plan a query up to Spark's tasks; return their number."""
    java: Any = frame._jdf  # noqa: SLF001
    return int(java.queryExecution().toRdd().getNumPartitions())


def python_memory(*, forget: bool = False) -> int:
    """Return the highest resident memory of this process in MB, since it was last forgotten."""
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    return int(peak[1]) // 1024 if peak else 0


def java_memory(meter: Meter) -> int:
    """Return the JVM's live memory in MB."""
    java: Any = meter.spark._jvm.java.lang  # type: ignore[union-attr] # noqa: SLF001
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) >> 20


def measured(reading: Reading, scratch: Path, *, quick: bool) -> Iterator[Result]:
    """Yield the results of each size and layout."""
    for files in SIZES[:-1] if quick else SIZES:
        flat = scratch / f"flat{files}"
        make_flat(flat, files)
        plans: dict[str, Callable[[str], DataFrame]] = {"flat": _flat(reading, flat)}
        if any(peer.name == "Iceberg" for peer in reading.others):
            plans["Iceberg"] = _iceberg(reading, flat, f"planning{files}")
        for layout in LAYOUTS:
            name = f"planning{layout.buckets}_{files}"
            acid = reading.ours.acid
            acid.sql(CREATE.format(name))
            make(acid.context, acid.table(name).definition, layout, files, scratch)
            yield from _plans(reading, layout, files, {"hiveacid": _ours(reading, name), **plans})
            plans = {}  # those of the others are the same


def _ours(reading: Reading, name: str) -> Callable[[str], DataFrame]:
    return lambda where: reading.ours.sql(f"SELECT * FROM {{t}} {where}", name)


def _flat(reading: Reading, root: Path) -> Callable[[str], DataFrame]:
    def plan(where: str) -> DataFrame:
        frame = reading.meter.spark.read.schema("id INT, name STRING, p INT").orc(str(root))
        return frame.where(where.removeprefix("WHERE ")) if where else frame

    return plan


def _iceberg(reading: Reading, flat: Path, name: str) -> Callable[[str], DataFrame]:
    spark = reading.meter.spark
    spark.sql(f"CREATE TABLE ice.bench.{name} (id INT, name STRING, p INT) USING iceberg PARTITIONED BY (p)")
    spark.sql(
        f"CALL ice.system.add_files(table => 'bench.{name}', source_table => '`orc`.`{flat}`', check_duplicate_files => false)"
    )
    return lambda where: spark.sql(f"SELECT * FROM ice.bench.{name} {where}")


def _plans(
    reading: Reading, layout: Layout, files: int, plans: dict[str, Callable[[str], DataFrame]]
) -> Iterator[Result]:
    meter, partition = reading.meter, f"WHERE p = {files // FILES_EACH // 2}"
    steps: Sequence[tuple[str, str, int]] = (
        ("one partition, first", partition, 1),
        ("first", "", 1),
        ("again", "", 3),
        ("one partition, again", partition, 3),
    )
    for step, where, runs in steps:
        python_memory(forget=True)
        figures: dict[str, Figure] = {}
        memory = 0
        for name, plan in plans.items():
            figures[name] = Figure(tuple(_run(meter, plan, where) for _ in range(runs)))
            memory = memory or python_memory()  # ours is the first
        what = f"{files:,}, {layout.name} (Python {memory} MB, Java {java_memory(meter)} MB)"
        yield Result("planning", f"plan, {step}", what, figures, work=files)


def _run(meter: Meter, plan: Callable[[str], DataFrame], where: str) -> Run:
    return meter.run(lambda: planned(plan(where)))
