"""MSCK: directories that become partitions, partitions that are dropped, and rows that must not become visible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow as pa
import pytest
from pyarrow import orc

import hiveacid
from hiveacid.catalog.convert import convert
from hiveacid.catalog.ddl import create_table
from hiveacid.catalog.repair_partitions import repair_partitions
from hiveacid.config.setting_definitions import MSCK_PATH_VALIDATION
from hiveacid.core.model import Bucketing, Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import (
    CatalogError,
    MissingDirectoryError,
    NotEnoughHistoryError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.table.check_files import check_quick
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of
from hiveacid.table.read.visible_locations import require_same_table
from hiveacid.table.tags import create_tag
from support.contexts import open_context

T = TableName("default", "t")
ACID = (("transactional", "true"),)
ONLY = (*ACID, ("transactional_properties", "insert_only"))
DAYS = (Column("day", "string"),)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = open_context(tmp_path)
    yield made
    made.close()


def create(
    context: Context,
    properties: tuple[tuple[str, str], ...] = (),
    columns: tuple[Column, ...] = DAYS,
    bucketing: Bucketing | None = None,
) -> Path:
    table = TableDefinition(
        T, (Column("id", "int"),), ORC, "", columns, bucketing=bucketing, properties=properties
    )
    create_table(context, table)
    return Path(context.require(T).location)


def repair(context: Context, *, add: bool = True, drop: bool = False) -> list[str]:
    return repair_partitions(context, T, list, add=add, drop=drop)


def validate(context: Context, how: str) -> None:
    context.session.settings = context.settings.with_value(MSCK_PATH_VALIDATION.name, how)


def put(root: Path, path: str, ids: list[int]) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table({"id": pa.array(ids, pa.int32())}), root / path)


def rows(context: Context) -> list[int]:
    with hiveacid.open(context.warehouse) as warehouse:
        return sorted(warehouse.table("t").to_arrow()["id"].to_pylist())


def names(context: Context) -> list[str]:
    return sorted(context.catalog.list_partition_names(T))


def test_directories_become_partitions_and_partitions_without_one_go(context: Context) -> None:
    root = create(context)
    put(root, "day=a/x.orc", [1])
    put(root, "day=b%3Ac/y.orc", [2])
    put(root, "day=__HIVE_DEFAULT_PARTITION__/z.orc", [3])
    for hidden in ("_temporary/0/day=q", ".hive-staging_1/day=q", "day=a/deeper/day=q"):
        (root / hidden).mkdir(parents=True)
    (root / "_SUCCESS").touch()
    found = "Partitions not in metastore:\tt:day=__HIVE_DEFAULT_PARTITION__\tt:day=a\tt:day=b%3Ac"
    assert sorted(repair(context, add=False)[0].split("\t")) == sorted(found.split("\t"))
    assert names(context) == []
    assert repair(context)[1:] == [
        "Repair: Added partition to metastore t:day=__HIVE_DEFAULT_PARTITION__",
        "Repair: Added partition to metastore t:day=a",
        "Repair: Added partition to metastore t:day=b%3Ac",
    ]
    assert [one.values for one in context.catalog.list_partitions(T)] == [(None,), ("a",), ("b:c",)]
    assert repair(context) == []

    rmtree(root / "day=a")
    (root / "day=d").mkdir()
    assert repair(context, add=False)[1:] == ["Partitions missing from filesystem:\tt:day=a"]
    repair(context, add=False, drop=True)
    assert names(context) == ["day=__HIVE_DEFAULT_PARTITION__", "day=b%3Ac"]
    repair(context, drop=True)
    assert names(context) == ["day=__HIVE_DEFAULT_PARTITION__", "day=b%3Ac", "day=d"]


def test_a_directory_of_another_partition_is_not_taken_again(context: Context) -> None:
    """By its own name, as other engines may have added it, or by a symbolic link: its rows would be there twice."""
    root = create(context)
    put(root, "day=a/x.orc", [1])
    context.catalog.add_partitions(T, [Partition(("z",), str(root / "day=a"))], empty=False)
    put(root, "day=b/y.orc", [2])
    (root / "day=c").symlink_to(root / "day=b")
    (root / "day=d").symlink_to(root / "day=a")
    lines = repair(context)
    assert len(lines) == 2
    assert len(names(context)) == 2
    assert rows(context) == [1, 2]


def test_two_directories_of_one_value_do_not_become_two_partitions(context: Context) -> None:
    """Writers would not know to which of them a row of the value belongs, and refuse it."""
    root = create(context, columns=(Column("p", "int"),))
    put(root, "p=6/x.orc", [1])
    repair(context)
    put(root, "p=06/y.orc", [2])
    put(root, "p=7/x.orc", [3])
    put(root, "p=007/y.orc", [4])
    with pytest.raises(CatalogError, match=r"has the value of the partition at .*validation=skip"):
        repair(context)
    validate(context, "skip")
    assert [line[:18] for line in repair(context)[1:]] == ["Repair: Added part", *["Repair: Cannot add"] * 2]
    assert len(names(context)) == 2
    assert "p=6" in names(context)


def test_a_missing_table_directory_drops_nothing(context: Context) -> None:
    root = create(context)
    (root / "day=a").mkdir()
    repair(context)
    rmtree(root)
    with pytest.raises(MissingDirectoryError):
        repair(context, drop=True)
    assert names(context) == ["day=a"]


@pytest.mark.parametrize(
    "odd", ["day=a:b", "other=1", "stray", "day=", "file", "day=x=y", "day=a/hour=1", "day=a/file"]
)
def test_names_that_are_no_partitions(context: Context, odd: str) -> None:
    """Only `ignore` takes a value in another spelling than Hive's own; its rows lie where they are."""
    create(context, columns=(*DAYS, Column("h", "int")) if "/" in odd else DAYS)
    path = Path(context.require(T).location) / odd
    path.parent.mkdir(exist_ok=True)
    if "file" in odd:
        path.touch()
    else:
        path.mkdir()
    with pytest.raises(CatalogError, match=r"not the directory of a partition .*validation=skip"):
        repair(context)
    validate(context, "skip")
    assert [line[:18] for line in repair(context)] == ["Repair: Cannot add"]
    assert names(context) == []
    validate(context, "ignore")
    repair(context)
    taken = (Partition((odd[4:],), str(path)),) if odd in {"day=a:b", "day=x=y"} else ()
    assert context.catalog.list_partitions(T) == taken


def test_plain_tables_do_not_take_directories_of_transactional_ones(context: Context) -> None:
    root = create(context)
    (root / "day=a" / "delta_0000001_0000001_0000").mkdir(parents=True)
    with pytest.raises(CatalogError, match=r"take it over with acid\.adopt"):
        repair(context)


@pytest.mark.parametrize("properties", [ACID, ONLY], ids=["full ACID", "insert-only"])
def test_no_rows_of_deltas_become_visible(context: Context, properties: tuple[tuple[str, str], ...]) -> None:
    """Of committed, aborted and later write ids alike: what is in the directory may be another table's."""
    root = create(context, properties)
    with hiveacid.open(context.warehouse) as warehouse:
        warehouse.table("t").append(pa.table({"id": [1], "day": ["a"]}))
    (source,) = (root / "day=a").iterdir()
    (root / "day=empty").mkdir()
    assert len(repair(context)) == 2
    for number in (1, 2, 900):
        copy = root / "day=b" / f"delta_{number:07}_{number:07}_0000"
        copytree(source, copy)
        with pytest.raises(CatalogError, match=r"aborted transaction, .*acid\.adopt"):
            repair(context)
        validate(context, "skip")
        assert repair(context)[1].startswith("Repair: Cannot add default.t: ")
        validate(context, "throw")
        rmtree(copy)
    with hiveacid.open(context.warehouse) as warehouse:
        warehouse.table("t").append(pa.table({"id": [2], "day": ["a"]}))
    assert rows(context) == [1, 2]
    assert names(context) == ["day=a", "day=empty"]


def test_files_outside_deltas_become_rows_of_a_full_acid_table(context: Context) -> None:
    """A commit of its own, so that snapshots of before do not have them; readers do not rely on records of files any more."""
    root = create(context, ACID)
    with hiveacid.open(context.warehouse) as warehouse:
        table = warehouse.table("t")
        table.append(pa.table({"id": [1], "day": ["a"]}))
        put(root, "day=b/000000_0", [2, 3])
        (root / "day=c").mkdir()
        with context.transactions.scope(context.settings) as before:
            before.valid_write_ids(T)
            assert len(repair(context)) == 3
            with pytest.raises(WriteConflictError, match="dropped or repaired"):
                require_same_table(context, context.require(T), before)
        assert rows(context) == [1, 2, 3]
        with pytest.raises(NotEnoughHistoryError):
            table.to_arrow(as_of=1)
        table.append(pa.table({"id": [4], "day": ["b"]}))
        assert rows(context) == [1, 2, 3, 4]
    definition = context.require(T)
    assert check_quick(context, definition, partitions_of(context, definition)) == ()


def test_partitions_come_and_go_in_one_statement(context: Context) -> None:
    """Both have write ids of their own, and each changes the definition that the other has read."""
    root = create(context, ACID)
    (root / "day=a").mkdir()
    repair(context)
    rmtree(root / "day=a")
    put(root, "day=b/000000_0", [1])
    assert [line.partition(":")[0] for line in repair(context, drop=True)[2:]] == ["Repair", "Repair"]
    assert (names(context), rows(context)) == (["day=b"], [1])


def test_a_tag_keeps_its_rows(context: Context) -> None:
    """Files outside deltas have no write id, so that the tag would show them; without a partition its rows would be missing."""
    root = create(context, ACID)
    create_tag(context, T, "kept")
    put(root, "day=b/000000_0", [1])
    with pytest.raises(UnsupportedFeatureError, match=r"MSCK ADD .*DROP TAG kept"):
        repair(context)
    rmtree(root / "day=b")
    (root / "day=c").mkdir()
    repair(context)
    rmtree(root / "day=c")
    with pytest.raises(UnsupportedFeatureError, match=r"MSCK DROP .*DROP TAG kept"):
        repair(context, drop=True)
    assert names(context) == ["day=c"]


@pytest.mark.parametrize(
    ("properties", "bucketing", "name", "reason"),
    [
        (ONLY, None, "000000_0", "outside deltas"),
        (ACID, Bucketing(("id",), 2), "000000_0", "rows of any bucket"),
        (ACID, None, "part-00000.orc", "unexpected data file name"),
        (ACID, None, "sub/other", "unexpected data file name"),
    ],
)
def test_other_files_are_refused(
    context: Context,
    properties: tuple[tuple[str, str], ...],
    bucketing: Bucketing | None,
    name: str,
    reason: str,
) -> None:
    root = create(context, properties, bucketing=bucketing)
    put(root, f"day=b/{name}", [2])
    with pytest.raises(CatalogError, match=reason):
        repair(context)
    assert names(context) == []


def test_files_outside_deltas_of_a_table_that_was_insert_only_are_not_taken(context: Context) -> None:
    """Its readers ignore such files, as the conversion may have left some, so that the new partition showed no rows."""
    root = create(context)
    put(root, "day=a/000000_0", [1])
    repair(context)
    convert(context, T, dict(ONLY))
    convert(context, T, {"transactional_properties": "default"})
    put(root, "day=b/000000_0", [2])
    with pytest.raises(CatalogError, match=r"day=b/000000_0 lies outside deltas.*LOAD DATA INPATH it"):
        repair(context)
    assert (names(context), rows(context)) == (["day=a"], [1])


def test_without_anything_to_repair_nobody_is_waited_for(context: Context) -> None:
    root = create(context, ACID)
    lock = LockComponent(LockType.SHARED_READ, "default", "t")
    with context.transactions.scope(context.settings) as reader:
        reader.lock([lock])
        assert repair(context, drop=True) == []
        (root / "day=b").mkdir()
        assert repair(context, add=False) == ["Partitions not in metastore:\tt:day=b"]
