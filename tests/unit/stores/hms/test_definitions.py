"""What crosses the border to a metastore, both ways: lists, definitions, lock requests, versions, names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import (
    Bucketing,
    Column,
    Partition,
    TableDefinition,
    TableName,
    TxnId,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    StoreUnavailableError,
    StoreVersionError,
    UnsupportedFeatureError,
)
from hiveacid.ports.transactions import Client
from hiveacid.stores.hms import compaction_queue, definitions, protocol
from hiveacid.stores.hms.compaction_queue import owner_of
from hiveacid.stores.hms.definitions import plain_partition, plain_table, without_quotes
from hiveacid.stores.hms.locks import Requests
from hiveacid.stores.hms.metastores import HIVE3, HIVE4, capabilities_of
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.transactions import (
    format_txn_list,
    split_by_aborted_bits,
    txn_list,
    write_id_list,
)
from support.clock import ManualClock
from support.samples import ORC, ORDERS, STOCK

TABLE = TableDefinition(
    name=ORDERS,
    columns=(Column("id", "int"), Column("item", "struct<a:int,b:array<string>>", "what was sold")),
    storage=ORC,
    location="/wh/shop.db/orders",
    partition_columns=(Column("dt", "date"), Column("city", "string")),
    bucketing=Bucketing(("id",), 4, ("item", "id"), ("id",)),
    properties=(("note", "x"), ("transactional", "true")),
    comment="it's",
    owner="ann",
    created_at=1_700_000_000,
)
PLAIN = replace(
    TABLE, name=STOCK, properties=(), partition_columns=(), bucketing=None, external=True, comment=None
)


def test_bits_say_who_is_aborted() -> None:
    """Java's BitSet: the lowest bit of the first byte is the first id; bytes that are all zero are left out."""
    ids = list(range(10, 28))
    assert split_by_aborted_bits(ids, bytes([0b10000001, 0b10])) == (
        (11, 12, 13, 14, 15, 16, 18, *range(20, 28)),
        (10, 17, 19),
    )
    assert split_by_aborted_bits(ids, b"") == split_by_aborted_bits(ids, None) == (tuple(ids), ())
    assert split_by_aborted_bits([], None) == ((), ())


def test_snapshots_come_and_go() -> None:
    answer = protocol.GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[3, 5, 7], abortedBits=b"\x02")
    txns = txn_list(answer)
    assert txns == ValidTxnList(TxnId(9), (TxnId(3), TxnId(7)), (TxnId(5),))
    assert format_txn_list(txns) == "9:3:3,7:5"
    assert format_txn_list(ValidTxnList(TxnId(9))) == "9:9223372036854775807::"
    ids = protocol.TableValidWriteIds(writeIdHighWaterMark=4, invalidWriteIds=[2, 3], abortedBits=b"\x02")
    assert write_id_list(ORDERS, ids) == ValidWriteIdList(ORDERS, WriteId(4), (WriteId(2),), (WriteId(3),))


@pytest.mark.parametrize("table", [TABLE, PLAIN])
def test_a_definition_comes_back_whole(table: TableDefinition) -> None:
    assert definitions.table_of(definitions.raw_table(table)) == table


def test_what_we_do_not_know_of_a_table_stays() -> None:
    """Retention, statistics; but they are not called exact after a change."""
    raw = definitions.raw_table(TABLE)
    raw.retention, raw.sd.parameters = 7, {"k": "v"}
    raw.parameters |= {"numRows": "3", "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "EXTERNAL": "TRUE"}
    assert definitions.table_of(raw) == TABLE
    changed = definitions.raw_table(replace(TABLE, comment=None, properties=(("new", "1"),)), raw)
    assert (changed.retention, changed.sd.parameters) == (7, {"k": "v"})
    assert changed.parameters == {"numRows": "3", "new": "1"}


def test_a_table_made_again_has_another_incarnation() -> None:
    """Hive 4 numbers its tables; in a metastore of Hive 3 the time of creation and a hidden property of ours tell them apart."""
    raw = definitions.raw_table(TABLE)
    first = definitions.table_of(raw)
    raw.parameters[definitions.INCARNATION] = "a"
    ours = definitions.table_of(raw)
    assert ours.properties == TABLE.properties
    altered = definitions.raw_table(replace(ours, comment=None, properties=()), raw)
    assert ours.is_same_table(definitions.table_of(altered))
    assert not ours.is_same_table(first)
    raw.createTime += 1
    assert not ours.is_same_table(definitions.table_of(raw))
    raw.id = 7
    numbered = definitions.table_of(raw)
    raw.createTime += 1
    assert numbered.is_same_table(definitions.table_of(raw))
    raw.id = 8
    assert not numbered.is_same_table(definitions.table_of(raw))
    renamed = [replace(table, name=replace(table.name, name="renamed")) for table in (numbered, ours, first)]
    ids = [table.unique_id for table in (numbered, ours, first)]
    assert [table.unique_id for table in renamed[:2]] == ids[:2]
    assert renamed[2].unique_id != ids[2]  # Hive 3 may make two tables in a second


def test_partitions_come_back_whole() -> None:
    one = Partition(("2026-01-01", None), "/elsewhere/p", (("k", "v"),))
    raw = definitions.raw_partition(definitions.raw_table(TABLE), one, 5000)
    assert raw.values == ["2026-01-01", "__HIVE_DEFAULT_PARTITION__"]
    assert (raw.sd.location, raw.createTime) == ("file:/elsewhere/p", 5)
    assert definitions.partition_of(raw) == one


@pytest.mark.parametrize(
    ("text", "place"),
    [("file:/a/b", "/a/b"), ("file:///a/b/", "/a/b"), ("hdfs://n/a", "hdfs://n/a"), ("/a", "/a")],
)
def test_local_places_have_no_scheme(text: str, place: str) -> None:
    assert definitions.local(text) == place


@pytest.mark.parametrize(
    ("lock", "operation", "partition", "three", "four"),
    [
        # type, operation, transactional, dynamic: as Hive's own client says it
        (LockType.SHARED_WRITE, "u", "dt=1/city=o", (2, 3, True, False), (2, 3, True, False)),
        (LockType.SHARED_WRITE, "d", None, (2, 2, True, False), (2, 4, True, True)),
        (LockType.SHARED_WRITE, "i", None, (1, 2, True, False), (2, 2, True, True)),
        (LockType.EXCL_WRITE, "u", None, (3, 2, True, False), (4, 3, True, True)),
        (LockType.SHARED_READ, None, None, (1, 1, False, False), (1, 1, False, False)),
        (LockType.EXCLUSIVE, None, None, (3, 6, False, False), (3, 6, False, False)),
    ],
)
def test_locks_say_what_will_be_written(
    lock: LockType,
    operation: str | None,
    partition: str | None,
    three: tuple[object, ...],
    four: tuple[object, ...],
) -> None:
    component = LockComponent(lock, "shop", "orders", partition, operation)
    for can, expected in ((HIVE3, three), (HIVE4, four)):
        made = Requests(can, {ORDERS: TABLE}.get).component(component)
        found = made.type, made.operationType, made.isTransactional, made.isDynamicPartitionWrite
        assert found == expected


def test_plain_tables_and_databases_are_only_locked() -> None:
    requests = Requests(HIVE4, {STOCK: PLAIN}.get)
    made = requests.component(LockComponent(LockType.EXCL_WRITE, "shop", "stock", None, "i"))
    assert (made.level, made.operationType, made.isTransactional) == (2, 6, False)
    made = requests.component(LockComponent(LockType.SHARED_READ, "shop"))
    assert (made.level, made.tablename, made.isTransactional) == (1, None, False)


def test_versions() -> None:
    assert capabilities_of("3.0") is HIVE3
    assert capabilities_of("4.0.1") is capabilities_of("4.2.0") is HIVE4
    assert (HIVE3.layout, HIVE4.layout) == ("hive3", "hive4")
    for bad in ("2.3.9", "", "unknown"):
        with pytest.raises(StoreVersionError):
            capabilities_of(bad)


def test_names_that_a_metastore_would_put_into_its_sql() -> None:
    for bad in ("a'b", "a b", "Größe", "UPPER", "a.b"):
        with pytest.raises(CatalogError):
            plain_table(TableName("shop", bad))
    for bad_partition in ("p=a'b", "p=a\\b", ""):
        with pytest.raises(CatalogError):
            plain_partition(bad_partition)
    assert plain_partition("p=a%27b") == "p=a%27b"
    assert without_quotes(Client("o'neill", "h\\", 'a"b')) == Client("o_neill", "h_", 'a"b')


def test_a_store_that_is_not_there() -> None:
    with pytest.raises(StoreUnavailableError, match=r"thrift://127\.0\.0\.1:1"):
        MetastoreStore("thrift://127.0.0.1:1", clock=ManualClock())
    with pytest.raises(ConfigError):
        MetastoreStore("thrift://", clock=ManualClock())


def test_who_cleans_after_our_compactions(tmp_path: Path) -> None:
    """Hive's cleaner deletes as that user, and not at all without one."""
    assert owner_of(replace(TABLE, location=str(tmp_path))) == tmp_path.owner()
    assert owner_of(replace(TABLE, location=str(tmp_path / "gone"))) == "ann"
    assert owner_of(replace(TABLE, location="hdfs://elsewhere/t", owner="")) is None
    assert owner_of(None) is None
    sent_kinds: list[Any] = []
    client = SimpleNamespace(call=lambda name, *words: sent_kinds.append((name, words)))
    job = Compaction(7, CompactionRequest(ORDERS, None, "major"), "working")
    compaction_queue.start_job(client, job, TxnId(3), WriteId(9), "ann")  # type: ignore[arg-type]
    assert (sent_kinds[0][0], sent_kinds[0][1][0].runas) == ("update_compactor_state", "ann")


@pytest.mark.parametrize(
    ("expanded", "query"),
    [
        (
            "SELECT `_c0` AS `n` FROM (select `t`.`a` + 1 from `d`.`t`) `d.v`",
            "select `t`.`a` + 1 from `d`.`t`",
        ),
        (
            "SELECT `_c0` AS `n`, `b` AS `m` FROM (select `t`.`a` + 1, `b`\nfrom `d`.`t`) `v`",
            "select `t`.`a` + 1, `b`\nfrom `d`.`t`",
        ),
        ("select `t`.`a` from `d`.`t`", "select `t`.`a` from `d`.`t`"),
    ],
)
def test_the_text_of_hives_views(expanded: str, query: str) -> None:
    raw = protocol.Table(
        dbName="d", tableName="v", viewExpandedText=expanded, sd=protocol.StorageDescriptor(cols=[])
    )
    found = definitions.view_of(raw)
    assert found.text == query
    assert definitions.raw_view(replace(found, comment="new"), raw).viewExpandedText == expanded


def test_views_of_ours_give_hive_their_columns_by_name() -> None:
    view = ViewDefinition(
        TableName("d", "v"),
        (Column("n", "int", "it"), Column("m", "string")),
        "SELECT * FROM `d`.`t`",
        original="SELECT * FROM t",
        outputs=("a", "B"),
        database="d",
        properties=(("k", "v"),),
        comment="why",
        owner="ann",
        created_at=7,
        settings=(("spark.sql.ansi.enabled", "false"),),
    )
    raw = definitions.raw_view(view)
    assert (
        raw.viewExpandedText == "SELECT `a` AS `n`, `B` AS `m` FROM (SELECT * FROM `d`.`t`) `hiveacid_query`"
    )
    found = definitions.view_of(raw)
    assert found == replace(view, text=raw.viewExpandedText, outputs=())
    # names that stay as they are (t.history) are looked for where the view was made, also when it goes elsewhere
    for moved in (replace(view, database="a"), replace(view, name=TableName("b", "v"))):
        assert definitions.view_of(definitions.raw_view(moved)).database == moved.database
    # what was read is kept as it is when it is changed
    assert definitions.raw_view(found, raw).viewExpandedText == found.text
    for outputs in (("a", ""), ("a", "A")):
        with pytest.raises(UnsupportedFeatureError, match="name of its own"):
            definitions.raw_view(replace(view, outputs=outputs))
