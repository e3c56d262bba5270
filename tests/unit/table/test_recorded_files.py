"""What commits record of real files, without Spark: streams, their overwrites, and what a check says of differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow as pa
import pytest

from hiveacid.arrow.table import ArrowTable
from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.catalog.ddl import create_table, drop_partitions, rename_table, set_properties
from hiveacid.config import Settings
from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.snapshot.check_findings import Finding, FindingKind
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.file_records import first_difference
from hiveacid.ports.store import own_store
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.snapshot_locations import Location, list_locations
from hiveacid.table.check_files import check_quick
from hiveacid.table.connection_caches import LocationCache
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.visible_locations import list_visible
from support.contexts import open_context
from support.recorded_files import recorded_files

NAME = TableName("default", "t")
COLUMNS = (Column("id", "int"), Column("name", "string"))
TABLE = TableDefinition(
    NAME, COLUMNS, ORC, "", (Column("p", "int"),), properties=(("transactional", "true"),)
)
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("p", pa.int32())])


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    opened = open_context(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def t(context: Context) -> Iterator[ArrowTable]:
    with open_warehouse(context.warehouse) as warehouse:
        create_table(context, TABLE)
        yield warehouse.table("t")


def rows(*partitions: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": p, "name": "a" * p, "p": p} for p in partitions], SCHEMA)


def differences(context: Context, name: TableName = NAME) -> list[Finding]:
    table = context.require(name)
    found = check_quick(context, table, partitions_of(context, table))
    return [one for one in found if one.kind is FindingKind.WRONG_RECORD]


def test_appends_record_their_files(context: Context, t: ArrowTable) -> None:
    """With the facts of their footers, in partitions old and new; DROP PARTITION and RENAME go along."""
    assert recorded_files(context, t) == 0
    t.append(rows(1, 2))
    t.append(rows(2, 3))
    assert recorded_files(context, t) == 4
    drop_partitions(context, NAME, lambda all_of_them: all_of_them[:1], if_exists=False)
    assert recorded_files(context, t) == 3
    set_properties(context, NAME, {"note": "kept"})
    renamed = TableName("default", "u")
    rename_table(context, NAME, renamed)
    found = own_store(context.store).recorded_files(renamed, partitions_of(context, context.require(renamed)))
    assert found is not None
    assert sum(map(len, found.values())) == 3
    assert differences(context, renamed) == []


@pytest.mark.parametrize("spoil", ["lost", "longer", "put there"])
def test_a_check_finds_what_differs(context: Context, t: ArrowTable, spoil: str) -> None:
    """A file that is gone or changed, and a directory that no commit has made."""
    t.append(rows(1, 2))
    assert differences(context) == []
    root = f"{context.warehouse}/t/p=2"
    (first,) = Path(root).glob("delta_*")
    if spoil == "lost":
        rmtree(first)
    elif spoil == "longer":
        (first / "bucket_00000").write_bytes((first / "bucket_00000").read_bytes() + b"x")
    else:
        t.append(rows(1))
        copytree(first, f"{root}/delta_0000002_0000002_0000")
    (found,) = differences(context)
    path, message = {
        "lost": (first.name, "it is not there"),
        "longer": (f"{first.name}/bucket_00000", "were recorded"),
        "put there": ("delta_0000002_0000002_0000", "no commit has recorded it"),
    }[spoil]
    assert (found.path, found.partition) == (f"{root}/{path}", "p=2")
    assert message in found.message


def test_a_directory_whose_files_are_not_told_ends_the_records(
    context: Context, t: ArrowTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a future writer that forgets to: readers have to list the table from then on."""
    t.append(rows(1))
    with monkeypatch.context() as patched:
        patched.setattr(
            "hiveacid.table.write.output_directories.OutputDirectories.record_files", lambda *_: None
        )
        t.append(rows(2))
    assert own_store(context.store).recorded_files(NAME, []) is None
    t.append(rows(3))
    assert own_store(context.store).recorded_files(NAME, []) is None
    assert differences(context) == []


class NoListings(LocalFileSystem):
    """Counts what it is asked to list, or to read the end of."""

    def __init__(self) -> None:
        super().__init__(durable=False)
        object.__setattr__(self, "asked", [])

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        self.asked.append(root)  # type: ignore[attr-defined]
        return super().list_tree(root)


@pytest.mark.parametrize("by_records", [True, False])
def test_a_reader_selects_the_same_by_records_and_by_a_listing(
    context: Context,
    t: ArrowTable,
    by_records: bool,  # noqa: FBT001
) -> None:
    """After each change, for snapshots before and after it; by records nothing is listed."""
    fs = NoListings()
    reader = replace(context, fs=fs, kept=LocationCache())
    reader.change_settings(Settings({"hiveacid.read.file.records": str(by_records).lower()}))
    shown: list[tuple[Location, ...]] = []
    snapshots = []
    for change in (
        lambda: t.append(rows(1, 2)),
        lambda: t.append(rows(2, 3)),
        lambda: drop_partitions(context, NAME, lambda some: some[:1], if_exists=False),
        lambda: t.append(rows(1)),
    ):
        change()
        table, txn = context.require(NAME), context.transactions.begin(context.settings)
        snapshots.append(txn)
        partitions = partitions_of(context, table, txn)
        for _ in range(2):
            write_ids = txn.valid_write_ids(NAME)
            before = len(fs.asked)  # type: ignore[attr-defined]
            shown.append(list_visible(reader, table, partitions, write_ids, txn))
            assert len(fs.asked) - before == (0 if by_records else len(partitions or ()))  # type: ignore[attr-defined]
            listed = list_locations(context.fs, table, partitions, write_ids, txn.snapshot())
            assert [(one.root, one.partition) for one in shown[-1]] == [
                (one.root, one.partition) for one in listed
            ]
            for found, expected in zip(shown[-1], listed, strict=True):
                assert first_difference(expected.state, found.state) is None
        assert (shown[-1] is shown[-2]) == by_records
    for txn in snapshots:
        txn.abort("test")


def test_a_plan_of_what_has_not_changed_is_that_of_before(context: Context, t: ArrowTable) -> None:
    """Whole, or each partition that has not changed; another choice of partitions finds its own."""
    t.append(rows(1, 2, 3))

    def plan(count: int) -> tuple[Location, ...]:
        table, txn = context.require(NAME), context.transactions.begin(context.settings)
        partitions = (partitions_of(context, table, txn) or ())[-count:]
        found = list_visible(context, table, partitions, txn.valid_write_ids(NAME), txn)
        assert [one.partition for one in found] == [*partitions]
        txn.abort("test")
        return found

    first = plan(3)
    assert plan(3) is first
    (last,) = plan(1)
    assert last is first[2]
    assert plan(3) is first
    t.append(rows(2))
    second = plan(3)
    assert [new is old for new, old in zip(second, first, strict=True)] == [True, False, True]
    assert len(second[1].state.directories_to_read) == 2
    assert plan(3) is second
