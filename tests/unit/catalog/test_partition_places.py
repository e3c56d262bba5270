"""ALTER TABLE ADD PARTITION at a place that lies in the table's directory, or in another partition's, by another path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.catalog.ddl import _overlap_any, add_partitions, create_table
from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import CatalogError, InvalidPathError
from hiveacid.storage.paths import SourceFile
from hiveacid.stores.sql.store import SqlStore
from hiveacid.table.context import Context
from hiveacid.table.definition import lock_of_location
from hiveacid.table.write.load import _require_outside
from support.contexts import open_context

T = TableName("default", "t")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = open_context(tmp_path / "wh")
    yield made
    made.close()


@pytest.mark.parametrize("properties", [(), (("transactional", "true"),)])
@pytest.mark.parametrize("below", ["", "/p=1", "/other"])
def test_the_table_itself_by_a_symbolic_link(
    context: Context, tmp_path: Path, properties: tuple[tuple[str, str], ...], below: str
) -> None:
    """Rows that come to p=1 later would also be those of p=9."""
    create_table(
        context,
        TableDefinition(T, (Column("id", "int"),), ORC, "", (Column("p", "int"),), properties=properties),
    )
    (tmp_path / "alias").symlink_to(context.require(T).location)
    with pytest.raises(CatalogError, match=r"lies in the directory of default\.t: write LOCATION"):
        add_partitions(context, T, [({"p": "9"}, f"{tmp_path}/alias{below}")])
    assert context.catalog.list_partitions(T) == ()


def test_another_partition_by_a_symbolic_link_beside_a_metastore(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metastore does not compare places."""
    create_table(context, TableDefinition(T, (Column("id", "int"),), ORC, "", (Column("p", "int"),)))
    (tmp_path / "one").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "one")
    add_partitions(context, T, [({"p": "1"}, f"{tmp_path}/one")])
    monkeypatch.setattr(SqlStore, "places", lambda _: ())
    with pytest.raises(CatalogError, match=r"another partition of default\.t has the location"):
        add_partitions(context, T, [({"p": "2"}, f"{tmp_path}/alias/below")])


def test_new_partitions_inside_the_table_are_compared_with_each_other_by_the_store(context: Context) -> None:
    """Rows at the inner place would be read as those of both."""
    create_table(context, TableDefinition(T, (Column("id", "int"),), ORC, "", (Column("p", "int"),)))
    root = context.require(T).location
    for one, other in (
        (f"{root}/a", f"{root}/a"),
        (f"{root}/a/b", f"{root}/a"),
        (f"{root}/p=2/a", f"{root}/p=2"),
    ):
        new = [Partition(("1",), one), Partition(("2",), other)]
        for both in (new, new[::-1]):
            with pytest.raises(CatalogError, match="is not free"):
                context.catalog.add_partitions(T, both, empty=True)
    assert context.catalog.list_partitions(T) == ()


def test_the_default_file_system_may_be_that_of_another_place() -> None:
    """OVERWRITE deletes no source of LOAD DATA, two partitions get no one directory, and LOAD DATA of both names waits."""
    with pytest.raises(InvalidPathError):
        _require_outside([SourceFile("hdfs://nn/wh/t/f", 1, 1)], "hdfs:///wh/t")
    assert _overlap_any("hdfs://nn/wh/t/p=1", ["hdfs:///wh/t/p=1"])
    assert lock_of_location("hdfs://nn/wh/x") == lock_of_location("hdfs:///wh/x")
