"""Results of compactions that the driver writes, which need no Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow.orc
import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import TableName
from hiveacid.ports.transactions import Operation, Written
from hiveacid.table.compaction.run_compaction import run_job
from hiveacid.table.compaction.write_compacted_files import FileWriter
from support.contexts import open_context
from support.corpus.acid_files import acid_bytes, bucket_property
from support.directories.shelves import definition
from support.samples import CLIENT

T = TableName("default", "t")
SQL = "CREATE TABLE t (v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true'{})"
Event = tuple[int, int, int, int, int, tuple[str] | None]


@dataclass(frozen=True)
class _Environment:
    """What a compaction in the driver asks of Spark."""

    copies_timestamps: bool = False
    files_in_driver_zone: bool = False

    def require_plain_names(self) -> None:
        """Accept all names."""


def _values(directory: Path) -> list[str]:
    files = sorted(directory.glob("bucket_*"))
    rows = [row for file in files for row in pyarrow.orc.ORCFile(str(file)).read().to_pylist()]
    return [row["row"] and row["row"]["v"] for row in rows]


@pytest.mark.parametrize("level", ["", ", 'hiveacid.layout.level'='hive3'"])
def test_a_minor_compaction_of_one_write_id_drops_rows_that_it_deleted_itself(
    tmp_path: Path, level: str
) -> None:
    """Hive 4 does not apply the events of delete_delta_2_2 to the rows of delta_2_2, and showed the row again."""
    place = tmp_path / "t"
    context = open_context(tmp_path / "wh")
    context = replace(context, env=cast("Any", _Environment()))
    context.catalog.create_table(definition(SQL.format(level), str(place)))

    def put(name: str, *events: Event) -> None:
        (place / name).mkdir(parents=True)
        (place / name / "bucket_00000").write_bytes(acid_bytes(events, "v:string"))

    one, two = (context.store.open_txns(CLIENT)[0] for _ in range(2))
    context.store.allocate_write_ids([one, two], T)
    put("base_0000001", (0, 1, bucket_property(0), 0, 1, ("old",)))
    put(
        "delta_0000002_0000002_0000",
        *((0, 2, bucket_property(0), n, 2, (value,)) for n, value in enumerate("ab")),
    )
    put("delta_0000002_0000002_0001", (0, 2, bucket_property(0, 1), 0, 2, ("c",)))
    put("delete_delta_0000002_0000002_0002", (2, 2, bucket_property(0), 1, 2, None))
    for txn_id in (one, two):
        context.store.add_written(txn_id, [Written(T, None, Operation.INSERT)])
        context.store.commit_txn(txn_id)
    job = context.store.enqueue_compaction(CompactionRequest(T, None, "minor"), "test")
    claimed = context.store.claim_compaction("w", job.id)
    assert claimed is not None
    report = run_job(context, claimed, "w", writer=FileWriter())
    written = [Path(path) for path in report.written]
    suffix = "" if level else "_v0000003"
    assert [path.name.removesuffix(suffix) for path in written] == [
        "delta_0000002_0000002",
        "delete_delta_0000002_0000002",
    ]
    assert _values(written[0]) == ["a", "c"]
    assert _values(written[1]) == [None]
    context.close()
