"""Division of files into tasks, and the limits of what tasks return."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.storage.file_system_routing import OpenedBefore
from hiveacid.table.arrow_read import row_tasks
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot
from hiveacid.table.arrow_read.record_batches import RowBudget, Selection
from hiveacid.table.arrow_read.row_tasks import Refusal, RowTask, divide_files
from support.directories.shelves import definition

TABLE = definition(
    "CREATE TABLE t (v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')", "/nowhere"
)


def snapshot(lengths: list[list[int]]) -> Snapshot:
    """Return partitions of files of these lengths, which do not exist."""
    partitions = []
    for number, of_partition in enumerate(lengths):
        paths = [f"/nowhere/{number}/bucket_{file:05}" for file in range(len(of_partition))]
        files = [
            ScanFile(path, DataFile(path, length), length, acid=True)
            for path, length in zip(paths, of_partition, strict=True)
        ]
        partitions.append(PartitionFiles((), tuple(files), ()))
    return Snapshot(TABLE, LayoutLevel.HIVE4, ValidWriteIdList(TABLE.name, WriteId(1)), tuple(partitions))


@pytest.mark.parametrize("seed", range(50))
def test_each_byte_of_each_file_is_in_one_part(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(row_tasks, "_MIN_PART", random.choice([1, 10, 1000]))
    lengths = [
        [random.choice([1, 7, 90, 12_345]) for _ in range(random.randrange(4))]
        for _ in range(random.randrange(5))
    ]
    groups = divide_files(snapshot(lengths), random.choice([1, 2, 7, 100]))
    found: dict[str, list[tuple[int, int]]] = {}
    for part in (part for group in groups for part in group):
        assert part.file.path.startswith(f"/nowhere/{part.partition}/")
        found.setdefault(part.file.path, []).append((part.begin, part.end))
    for number, of_partition in enumerate(lengths):
        for file, length in enumerate(of_partition):
            bounds = found.pop(f"/nowhere/{number}/bucket_{file:05}")
            ends = [0, *(end for _, end in bounds)]
            assert bounds == [*pairwise(ends)]
            assert ends[-1] == length
    assert found == {}
    assert all(groups)


@pytest.mark.parametrize(
    ("lengths", "tasks", "sizes"),
    [
        ([[100 << 20]], 4, [25, 25, 25, 25]),
        ([[30 << 20, 30 << 20], [60 << 20]], 2, [60, 60]),
        ([[1 << 20] * 8], 100, [6, 2]),  # smaller tasks would take longer to start
        ([[4096 << 20]], 2, [256] * 16),
        ([[]], 4, []),
    ],
)
def test_tasks_have_similar_sizes(lengths: list[list[int]], tasks: int, sizes: list[int]) -> None:
    groups = divide_files(snapshot(lengths), tasks)
    assert [sum(part.end - part.begin for part in group) >> 20 for group in groups] == sizes


def test_a_budget_ends_with_its_rows_and_with_their_bytes() -> None:
    batch = pa.record_batch({"v": ["x" * 100] * 10})
    budget = RowBudget(30, 10_000)
    assert budget.take([batch, batch]) == [batch, batch]
    assert budget.take([]) == []
    assert budget.take([batch]) == [batch]
    assert budget.take([batch]) is None
    assert RowBudget(30, 2000).take([batch]) is None


def test_a_file_that_cannot_be_read_is_a_refusal() -> None:
    files = snapshot([[100]])
    task = RowTask.of(files, divide_files(files, 1)[0], Selection((), row_ids=True), 10, 10, OpenedBefore())
    refusal = task()
    assert isinstance(refusal, Refusal)
    assert "/nowhere/0/bucket_00000" in refusal.reason
