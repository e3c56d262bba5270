"""CREATE TABLE AS SELECT into a directory that holds files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.catalog import ddl
from hiveacid.core.model import TableDefinition
from hiveacid.errors import CatalogError

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.context import StoreContext

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def test_a_table_as_select_does_not_take_the_rows_of_files_at_its_location(
    acid: AcidSession, tmp_path: Path
) -> None:
    """As in Hive (``CTAS_LOCATION_NONEMPTY``) and in Spark."""
    acid.sql(f"CREATE EXTERNAL TABLE old STORED AS PARQUET LOCATION '{tmp_path}/x' AS SELECT 1 AS id")
    acid.sql("DROP TABLE old")
    usual = Path(acid.context.warehouse, "usual")
    shutil.copytree(tmp_path / "x", usual)
    for name, place in (("given", f"LOCATION '{tmp_path}/x'"), ("usual", "")):
        for kind in ("STORED AS PARQUET", ACID):
            with pytest.raises(CatalogError, match="is not empty"):
                acid.sql(f"CREATE TABLE {name} {kind} {place} AS SELECT 2 AS id")
    assert acid.sql("SHOW TABLES").collect() == []
    assert len(list(usual.iterdir())) == len(list((tmp_path / "x").iterdir())) > 0
    acid.sql(f"CREATE TABLE old (id INT) STORED AS PARQUET LOCATION '{tmp_path}/x'")
    assert acid.sql("SELECT id FROM old").collect()[0].id == 1


def test_a_table_as_select_looks_again_behind_the_lock_of_its_location(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INSERT OVERWRITE DIRECTORY may have had it."""
    prepare, usual = ddl.prepare_table, Path(acid.context.warehouse, "t")

    def slow(context: StoreContext, table: TableDefinition) -> TableDefinition:
        prepared = prepare(context, table)
        usual.mkdir()
        (usual / "foreign").write_bytes(b"")
        return prepared

    monkeypatch.setattr(ddl, "prepare_table", slow)
    with pytest.raises(CatalogError, match="is not empty"):
        acid.sql(f"CREATE TABLE t {ACID} AS SELECT 1 AS id")
    assert [path.name for path in usual.iterdir()] == ["foreign"]
