"""The catalog of real metastores: definitions come back whole, partitions, renames, statistics that are not believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hive_server import HiveServers

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Bucketing, Column, DatabaseDefinition, Partition, TableDefinition, TableName
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    NoSuchDatabaseError,
    NoSuchTableError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Start
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.client import ThriftConnection
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift_structs import parse_interface
from support.clock import ManualClock
from support.samples import CLIENT, ORC, ORDERS, STOCK, wrote


@pytest.fixture
def store(hive: HiveServers) -> Iterator[MetastoreStore]:
    made = MetastoreStore(hive.url, clock=ManualClock(), owner="ann")
    place = f"{hive.place}/warehouse"
    for name in ("shop", "bank"):
        made.create_database(DatabaseDefinition(name, f"{place}/{name}.db", "all we sell", (("k", "v"),)))
    yield made
    for name in ("shop", "bank"):
        for table in made.list_tables(name):
            made.drop_table(TableName(name, table))
        made.drop_database(name)
    made.close()


@pytest.fixture
def table(hive: HiveServers) -> TableDefinition:
    return definition(hive)


def definition(hive: HiveServers) -> TableDefinition:
    return TableDefinition(
        name=ORDERS,
        columns=(Column("id", "int"), Column("item", "struct<a:int,b:array<string>>", "what was sold")),
        storage=ORC,
        location=f"{hive.place}/warehouse/shop.db/orders",
        partition_columns=(Column("dt", "date"), Column("city", "string")),
        bucketing=Bucketing(("id",), 4),
        properties=(
            ("bucketing_version", "2"),
            ("note", "a 'quoted' \"note\"; — ünï"),
            ("transactional", "true"),
            ("transactional_properties", "default"),
        ),
        comment="it's; DROP TABLE x --",
        owner="ann",
        created_at=1_700_000_000,
    )


def _found(store: MetastoreStore, wanted: TableDefinition) -> TableDefinition:
    """Return what is kept of a table. Its time is the metastore's, and Hive 4 drops SerDe properties of no effect."""
    found = store.get_table(wanted.name)
    assert found is not None
    assert found.storage.input_format == wanted.storage.input_format
    return replace(found, created_at=wanted.created_at, storage=wanted.storage)


def test_definitions(store: MetastoreStore, table: TableDefinition) -> None:
    """Whole, once, listed, altered, renamed with partitions, dropped."""
    store.create_table(table)
    assert _found(store, table) == table
    with pytest.raises(AlreadyExistsError):
        store.create_table(table)
    with pytest.raises(NoSuchDatabaseError):
        store.create_table(replace(table, name=TableName("none", "x")))
    plain = replace(
        table, name=STOCK, location=f"{table.location}2", properties=(("bucketing_version", "2"),),
        partition_columns=(), bucketing=None, comment=None, external=True,
    )  # fmt: skip
    store.create_table(plain)
    assert _found(store, plain) == plain
    assert store.list_tables("shop") == ("orders", "stock")
    assert store.get_table(TableName("shop", "none")) is None
    with pytest.raises(NoSuchDatabaseError):
        store.list_tables("none")
    with pytest.raises(CatalogError, match="not empty"):
        store.drop_database("shop")
    one = Partition(("2026-01-01", "oslo"), f"{table.location}/elsewhere")
    store.add_partitions(ORDERS, [one])
    wider = replace(table, columns=(*table.columns, Column("more", "bigint")), comment=None)
    store.alter_table(ORDERS, wider)
    assert _found(store, wider) == wider
    assert store.list_partitions(ORDERS)[0].location == one.location
    with pytest.raises(AlreadyExistsError):
        store.alter_table(ORDERS, replace(table, name=STOCK))
    store.drop_table(STOCK)
    with pytest.raises(NoSuchTableError):
        store.drop_table(STOCK)
    assert store.list_tables("shop") == ("orders",)


def test_what_we_do_not_know_survives_our_changes(
    store: MetastoreStore, hive: HiveServers, table: TableDefinition
) -> None:
    """Where skewed values lie, and what Hive keeps of a SerDe."""
    raw = definitions.raw_table(replace(table, partition_columns=(), bucketing=None))
    raw.sd.skewedInfo = protocol.SkewedInfo(
        skewedColNames=["id"],
        skewedColValues=[["1"], ["2"]],
        skewedColValueLocationMaps={("1",): f"file:{table.location}/id=1"},
    )
    raw.sd.serdeInfo.description, raw.sd.serdeInfo.serializerClass = "why", "a.Writer"
    raw.sd.serdeInfo.deserializerClass, raw.sd.serdeInfo.serdeType = "a.Reader", 2
    store._create(raw, table.name, None)
    before = store._raw(table.name)
    if hive.is_hive3:  # 4.0 does not give back those that a new table came with
        assert list(before.sd.skewedInfo.skewedColValueLocationMaps) == [("1",)]
    made = store.get_table(table.name)
    assert made is not None
    store.alter_table(table.name, replace(made, comment="new"))
    after = store._raw(table.name)
    assert after.parameters["comment"] == "new"
    assert (repr(after.sd.skewedInfo), repr(after.sd.serdeInfo)) == (
        repr(before.sd.skewedInfo),
        repr(before.sd.serdeInfo),
    )


def test_partitions(store: MetastoreStore, table: TableDefinition) -> None:
    """Added once, with places of their own; none and empty are the default partition."""
    store.create_table(table)
    default = Partition((None, "a/b=c'\""), f"{table.location}/p0")
    early = Partition(("2026-01-01", "z"), f"{table.location}/p1")
    later = Partition(("2026-01-02", "ö"), f"{table.location}/p2")
    store.add_partitions(ORDERS, [later, default])
    with pytest.raises(WriteConflictError, match="lies in"):  # the others are there all the same
        store.add_partitions(ORDERS, [early, replace(later, location=f"{table.location}/no"), early])
    assert [(p.values, p.location) for p in store.list_partitions(ORDERS)] == [
        (p.values, p.location) for p in (early, later, default)
    ]
    store.drop_partitions(ORDERS, [replace(early, location="any"), Partition(("2026-02-02", "y"), "no")])
    store.drop_partitions(ORDERS, [default])
    assert [p.values for p in store.list_partitions(ORDERS)] == [later.values]
    with pytest.raises(NoSuchTableError):
        store.list_partitions(STOCK)


def test_a_commit_brings_partitions_and_takes_back_that_statistics_are_exact(
    store: MetastoreStore, hive: HiveServers, table: TableDefinition
) -> None:
    store.create_table(table)
    one = Partition(("2026-01-01", "oslo"), f"{table.location}/p1")
    store.add_partitions(ORDERS, [one])
    exact = 'INSERT INTO "%s" VALUES (%%s, \'COLUMN_STATS_ACCURATE\', \'{"BASIC_STATS":"true"}\')'
    with hive.connection() as connection:
        for place, key, source in (
            ("TABLE_PARAMS", "TBL_ID", "TBLS"),
            ("PARTITION_PARAMS", "PART_ID", "PARTITIONS"),
        ):
            connection.execute(
                f'DELETE FROM "{place}" WHERE "PARAM_KEY" = \'COLUMN_STATS_ACCURATE\''.encode()
            )
            for (number,) in connection.execute(f'SELECT "{key}" FROM "{source}"'.encode()).fetchall():
                connection.execute((exact % place).encode(), [number])
    (txn_id,) = store.open_txns(CLIENT)
    new = NewPartition(ORDERS, Partition(("2026-01-02", "bonn"), f"{table.location}/p2"))
    written = [
        wrote(ORDERS, Operation.INSERT, "dt=2026-01-01/city=oslo"),
        wrote(ORDERS, Operation.UPDATE, "dt=2026-01-02/city=bonn"),
    ]
    store.commit_txn(txn_id, CatalogChanges(partitions=(new,)), written)
    assert store.txn_state(txn_id) == "committed"
    assert [p.values[1] for p in store.list_partitions(ORDERS)] == ["oslo", "bonn"]
    with hive.connection() as connection:
        for place in ("TABLE_PARAMS", "PARTITION_PARAMS"):
            left = connection.execute(
                f'SELECT * FROM "{place}" WHERE "PARAM_KEY" = \'COLUMN_STATS_ACCURATE\''.encode()
            ).fetchall()
            assert left == []


def test_rows_are_not_committed_to_a_place_that_nobody_reads(
    store: MetastoreStore, table: TableDefinition
) -> None:
    """Somebody adds the partition of a dynamic INSERT meanwhile, in another place: the INSERT has to start over."""
    store.create_table(table)
    values = ("2026-01-01", "a/b=c")
    (txn_id,) = store.open_txns(CLIENT)
    store.allocate_write_ids([txn_id], ORDERS)
    store.add_partitions(ORDERS, [Partition(values, f"{table.location}/elsewhere")])
    new = NewPartition(ORDERS, Partition(values, f"{table.location}/dt=2026-01-01/city=a%2Fb%3Dc"))
    written = [wrote(ORDERS, Operation.INSERT, "dt=2026-01-01/city=a%2Fb%3Dc")]
    with pytest.raises(WriteConflictError, match="run the statement again"):
        store.commit_txn(txn_id, CatalogChanges(partitions=(new,)), written)
    assert not store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].is_valid(1)
    assert [row for row in store.show_transactions() if row.state == "OPEN"] == []
    (again,) = store.open_txns(CLIENT)
    there = NewPartition(ORDERS, replace(new.partition, location=f"{table.location}/elsewhere/"))
    store.commit_txn(again, CatalogChanges(partitions=(there,)), written)
    assert store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].is_valid(2)


def test_more_partitions_than_go_into_one_call(store: MetastoreStore, table: TableDefinition) -> None:
    """A second try adds those that are missing; names are looked up as the metastore spells them."""
    store.create_table(replace(table, bucketing=None))
    ones = [
        Partition(("2026-12-31", f"{odd}{n}"), f"{table.location}/{n}")
        for n, odd in enumerate("a/b=c'\"ü %{")
    ]
    more = [Partition(("2026-12-31", f"y{n}"), f"{table.location}/y{n}") for n in range(510)]
    store.add_partitions(ORDERS, ones)
    store.add_partitions(ORDERS, [*ones, *more])
    assert len(store.list_partitions(ORDERS)) == len(ones) + len(more)


def test_other_catalogs_have_no_transactions_of_their_own(hive: HiveServers, store: MetastoreStore) -> None:
    """Why they are refused: two tables of one name share write ids; in Hive 3 dropping one takes them off the other."""
    with pytest.raises(UnsupportedFeatureError, match="numbers writes"):
        MetastoreStore(
            f"{hive.url}{'&' if '?' in hive.url else '?'}catalog=other", clock=ManualClock(), owner="ann"
        )
    place = f"{hive.place}/warehouse/other"
    interface = parse_interface("""
        struct Catalog { 1: string name, 2: string description, 3: string locationUri }
        struct CreateCatalogRequest { 1: Catalog catalog }
        void create_catalog(1: CreateCatalogRequest catalog)
    """)
    new = interface.structs["Catalog"](name="other", description="", locationUri=f"file:{place}")
    client = store.client
    (server,) = client._address.servers
    wire = ThriftConnection(server, client._address, interface.calls)
    try:
        wire.call("create_catalog", interface.structs["CreateCatalogRequest"](catalog=new))
    finally:
        wire.close()
    client.call(
        "create_database",
        protocol.Database(
            name="shop", locationUri=f"file:{place}/shop.db", parameters={}, catalogName="other"
        ),
    )
    plain = replace(
        definition(hive),
        partition_columns=(),
        bucketing=None,
        location=f"{hive.place}/warehouse/shop.db/here",
    )
    store.create_table(plain)
    raw = definitions.raw_table(replace(plain, location=f"{place}/shop.db/orders"))
    raw.catName = "other"
    store._create(raw, plain.name, None)
    start = store.begin_txn(CLIENT, Start((), (ORDERS,), (ORDERS,)))
    store.abort_txns([start.txn_id], "test")

    def seen() -> ValidWriteIdList:
        return store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]

    assert not seen().is_valid(start.allocated[ORDERS])
    client.call(
        "drop_table_with_environment_context",
        "@other#shop",
        "orders",
        False,
        protocol.EnvironmentContext(properties={}),
    )
    assert store.get_table(ORDERS) is not None
    # Hive 3 has forgotten the aborted id, and will give it again
    assert seen().high_watermark == (0 if hive.is_hive3 else start.allocated[ORDERS])
    client.call("drop_database", "@other#shop", False, False)
