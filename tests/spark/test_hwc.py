"""The calls of the Hive Warehouse Connector, as its users write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import ConfigError, NoSuchTableError, UnsupportedFeatureError
from hiveacid.hwc import STORE_KEY, WAREHOUSE_KEY, HiveWarehouse, HiveWarehouseSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def hive(spark: SparkSession, tmp_path: Path) -> Iterator[HiveWarehouse]:
    spark.conf.set(WAREHOUSE_KEY, str(tmp_path / "warehouse"))
    made = HiveWarehouseSession.session(spark).build()
    yield made
    made.close()
    spark.conf.unset(WAREHOUSE_KEY)


@pytest.mark.exhaustive("its statements are those of `acid.sql`")
def test_a_job_written_for_hwc_runs(hive: HiveWarehouse) -> None:
    hive.createDatabase("shop", True)
    hive.createDatabase("shop", True)
    hive.setDatabase("shop")
    for _ in range(2):
        hive.createTable("stock").ifNotExists().column("sku", "string").column("qty", "int").partition(
            "site", "string"
        ).clusterBy(2, "sku").prop("note", "it's").create()
    described = "".join(row[0] for row in hive.executeQuery("SHOW CREATE TABLE stock").collect())
    assert "INTO 2 BUCKETS" in described
    assert "'note'='it\\'s'" in described
    assert "'transactional'='true'" in described
    assert hive.executeUpdate("INSERT INTO stock VALUES ('tea', 1, 'a'), ('jam', 2, 'a'), ('old', 0, 'a')")
    spark = hive.session()
    spark.createDataFrame(
        [("tea", 5), ("jam", 0), ("nut", 7)], "sku string, qty int"
    ).createOrReplaceTempView("news")
    hive.mergeBuilder().mergeInto("stock", "t").using("news", "s").on("t.sku = s.sku").whenMatchedThenDelete(
        "s.qty = 0"
    ).whenMatchedThenUpdate("s.qty > 0", "qty = s.qty").whenNotMatchedInsert(
        None, "s.sku", "s.qty", "'b'"
    ).merge()
    rows = [tuple(row) for row in hive.table("stock").orderBy("sku").collect()]
    assert rows == [("nut", 7, "b"), ("old", 0, "a"), ("tea", 5, "a")]
    assert hive.sql("SELECT qty FROM shop.stock WHERE sku = 'tea'").collect()[0][0] == 5
    assert hive.execute("SELECT count(*) FROM stock").collect()[0][0] == 3
    assert [row[0] for row in hive.showTables().collect()] == ["stock"]
    assert {row[0] for row in hive.showDatabases().collect()} == {"default", "shop"}
    assert [row[0] for row in hive.describeTable("stock").collect()][:2] == ["sku", "qty"]
    for wrong in (("sku", "qty"), (True, "sku"), (0, "sku"), (2,)):
        with pytest.raises(ConfigError, match="number of buckets, then columns"):
            hive.createTable("more").column("sku", "string").clusterBy(*wrong)
    hive.dropTable("stock", False, True)
    hive.dropTable("stock", True, False)
    with pytest.raises(NoSuchTableError):
        hive.executeUpdate("DELETE FROM stock", False)
    hive.setDatabase("default")
    hive.dropDatabase("shop", False, True)
    spark.catalog.dropTempView("news")


def test_what_needs_a_hive_server_is_refused(spark: SparkSession, hive: HiveWarehouse) -> None:
    builder = HiveWarehouseSession.session(spark)
    for refused in (
        lambda: builder.userPassword("me", "secret"),
        lambda: builder.hs2url("jdbc:hive2://host"),
        lambda: builder.principal("hive/_HOST"),
        builder.credentialsEnabled,
    ):
        with pytest.raises(UnsupportedFeatureError, match="HiveServer2") as caught:
            refused()
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="using, on"):
        hive.mergeBuilder().mergeInto("t", "t").merge()
    with pytest.raises(ConfigError, match="clause"):
        hive.mergeBuilder().mergeInto("t", "t").using("s", "s").on("true").merge()


def test_a_session_that_does_not_say_where_is_refused(spark: SparkSession) -> None:
    assert spark.conf.get(STORE_KEY, None) is None
    with pytest.raises(ConfigError, match=WAREHOUSE_KEY):
        HiveWarehouseSession.session(spark).build()


def test_a_database_is_chosen_at_the_beginning(spark: SparkSession, hive: HiveWarehouse) -> None:
    hive.createDatabase("other", False)
    again = HiveWarehouseSession.session(spark).defaultDB("other").build()
    assert again.acid.context.database == "other"
    again.close()
