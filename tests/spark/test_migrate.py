"""Tables that move from a store to another: the same rows and row ids, later write ids, one owner at any time."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import hiveacid
from hiveacid.cli import main
from hiveacid.config.property_definitions import MIGRATION
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableName
from hiveacid.errors import CatalogError
from support.servers.databases import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

NAME = TableName("shop", "orders")
_QUERY = "SELECT ROW__ID, * FROM shop.orders ORDER BY id"


def _run(*arguments: str, to: str) -> Result:
    return CliRunner().invoke(main, ["migrate", *arguments], env={"HIVEACID_TO": to})


def _filled(acid: AcidSession) -> list[tuple[Any, ...]]:
    """Make a partitioned table with deletes, a compaction, an aborted write and a partition elsewhere; and others."""
    acid.sql("CREATE DATABASE shop COMMENT 'all we sell'")
    acid.sql(
        "CREATE TABLE shop.orders (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true', 'note'='mine')"
    )
    acid.sql("INSERT INTO shop.orders PARTITION (p) VALUES (1,'a','x'),(2,'b','x'),(3,'c','y')")
    acid.sql("UPDATE shop.orders SET v = 'new' WHERE id = 1")
    acid.sql("ALTER TABLE shop.orders PARTITION (p='x') COMPACT 'major' AND WAIT")
    acid.sql(f"ALTER TABLE shop.orders ADD PARTITION (p='z') LOCATION '{acid.context.warehouse}/elsewhere'")
    acid.sql("INSERT INTO shop.orders PARTITION (p='z') VALUES (4,'d')")
    _given_up(acid, "INSERT INTO shop.orders PARTITION (p='x') VALUES (99,'never')")
    acid.sql("DELETE FROM shop.orders WHERE id = 3")
    acid.sql("CREATE TABLE shop.plain (a INT) STORED AS PARQUET TBLPROPERTIES ('transactional'='false')")
    acid.sql("INSERT INTO shop.plain VALUES (7)")
    acid.sql("CREATE VIEW shop.seven AS SELECT a FROM shop.plain")
    acid.sql("CREATE VIEW shop.above AS SELECT s.a FROM shop.seven s")
    return [tuple(row) for row in acid.sql(_QUERY).collect()]


def _given_up(acid: AcidSession, statement: str) -> None:
    """Carry out a statement in a transaction that is rolled back."""
    with suppress(ZeroDivisionError), acid.transaction() as txn:
        txn.sql(statement)
        raise ZeroDivisionError


def _ids(acid: AcidSession) -> ValidWriteIdList:
    store = acid.context.store
    return store.valid_write_ids(store.valid_txns(), [NAME])[NAME]


@pytest.mark.exhaustive("the interrupted migration, brought to its end, stays")
def test_from_sqlite_to_postgresql_and_back(
    spark: SparkSession, tmp_path: Path, postgres_server: Server
) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    url = postgres_server.make_database("migration")
    with hiveacid.connect(spark, warehouse=here) as acid:
        before = _filled(acid)
        ids, partitions = _ids(acid), acid.context.catalog.list_partitions(NAME)
        held = _run(
            "-w", here, "--to-warehouse", there, "--all", to=url
        )  # a data frame still holds its snapshot
        assert held.exit_code == 1
        assert "are open" in held.output
        acid.context.read_leases.close()
        dry = _run("-w", here, "--to-warehouse", there, "shop.*", "--dry-run", to=url)
        assert dry.exit_code == 0, dry.output
        assert [tuple(row) for row in acid.sql(_QUERY).collect()] == before
    done = _run("-w", here, "--to-warehouse", there, "shop.*", to=url)
    assert done.exit_code == 0, done.output
    assert done.output == dry.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["table"], row["high_watermark"], row["aborted"]) for row in rows[:2]] == [
        ("shop.orders", 5, 1), ("shop.plain", 0, 0),
    ]  # fmt: skip
    assert "view shop.above is not moved" in done.stderr
    with hiveacid.connect(spark, warehouse=there, store=url) as acid:
        found = acid.table("shop.orders").definition
        assert (found.property("note"), MIGRATION.of(found)) == ("mine", None)
        assert acid.context.catalog.list_partitions(NAME) == partitions
        assert (_ids(acid).high_watermark, _ids(acid).aborted) == (ids.high_watermark, ids.aborted)
        assert [tuple(row) for row in acid.sql(_QUERY).collect()] == before
        assert acid.sql("SELECT * FROM shop.plain").first()[0] == 7
        acid.sql("INSERT INTO shop.orders PARTITION (p='x') VALUES (0,'later')")
        assert acid.sql(_QUERY).first()[0][0] == ids.high_watermark + 1
        acid.sql("ALTER TABLE shop.orders PARTITION (p='x') COMPACT 'major' AND WAIT")
        after = [tuple(row) for row in acid.sql(_QUERY).collect()]
        assert after[1:] == before
    with (
        hiveacid.connect(spark, warehouse=here) as acid,
        pytest.raises(hiveacid.HiveAcidError, match="exist"),
    ):
        acid.sql(_QUERY)
    again = _run("-w", here, "--to-warehouse", there, "shop.orders", to=url)
    assert (again.exit_code, again.stdout) == (0, "")
    back = CliRunner().invoke(
        main, ["migrate", "-w", there, "--to-warehouse", here, "--all"],
        env={"HIVEACID_STORE": url, "HIVEACID_TO": f"sqlite:///{here}/.hiveacid/store.db"},
    )  # fmt: skip
    assert back.exit_code == 0, back.output
    with hiveacid.connect(spark, warehouse=here) as acid:
        assert [tuple(row) for row in acid.sql(_QUERY).collect()] == after


def test_what_was_interrupted_is_brought_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """Marked in both stores nobody uses it; the same command again ends it, at whichever point it stopped."""
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    url = f"sqlite:///{there}/.hiveacid/store.db"
    begun = {MIGRATION.name: f"from the store of {here}"}
    with hiveacid.connect(spark, warehouse=here) as acid, hiveacid.connect(spark, warehouse=there) as other:
        before = _filled(acid)
        acid.context.read_leases.close()
        table = acid.table("shop.orders").definition
        acid.context.catalog.alter_table(NAME, table.with_properties({MIGRATION.name: f"to {url}"}))
        other.sql("CREATE DATABASE shop")
        other.context.catalog.create_table(table.with_properties(begun))
        for one in (acid, other):
            with pytest.raises(CatalogError, match="hiveacid migrate"):
                one.sql("INSERT INTO shop.orders PARTITION (p='x') VALUES (5, 'no')")
    done = _run("-w", here, "--to-warehouse", there, "shop.orders", to=url)
    assert done.exit_code == 0, done.output
    assert "view shop.seven is not moved: run its SHOW CREATE TABLE statement" in done.stderr
    with hiveacid.connect(spark, warehouse=there) as other:
        assert [tuple(row) for row in other.sql(_QUERY).collect()] == before
        other.context.read_leases.close()
        other.context.catalog.alter_table(NAME, other.table("shop.orders").definition.with_properties(begun))
    assert _run("-w", here, "--to-warehouse", there, "shop.orders", to=url).exit_code == 0
    with hiveacid.connect(spark, warehouse=there) as other:
        assert [tuple(row) for row in other.sql(_QUERY).collect()] == before
    with hiveacid.connect(spark, warehouse=here) as acid:
        acid.sql("CREATE TABLE shop.orders (a INT) STORED AS ORC LOCATION '" + str(tmp_path / "o") + "'")
    clash = _run("-w", here, "--to-warehouse", there, "shop.orders", to=url)
    assert (clash.exit_code, "already" in clash.output) == (1, True)
    missing = _run("-w", here, "--to-warehouse", there, "shop.nothing", to=url)
    assert (missing.exit_code, "neither" in missing.output) == (1, True)
    assert _run("-w", here, to=url).exit_code == 2
