"""Tables that move out of a real metastore and back: Hive reads and changes them with the write ids that they had.

No Spark: Hive writes, a stream writes, and a second reader reads. See also tests/spark/test_migrate.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hive_client import Hive, HiveError, row_id
from hive_server import HiveServers

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.config.property_definitions import MIGRATION
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Column, TableDefinition, TableName, TxnId
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem, local_path
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.sql.store import SqlStore
from hiveacid.streaming import Connection
from support.corpus.sort_merge_reader import read_table
from support.crash.faults import SimulatedCrash
from support.samples import CLIENT, ORC

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones
NAME = TableName("trade", "orders")
_QUERY = "SELECT ROW__ID, * FROM trade.orders"


@pytest.fixture
def metastore(hive: HiveServers) -> Iterator[MetastoreStore]:
    made = MetastoreStore(hive.url)
    yield made
    made.close()


def _run(warehouse: str, *arguments: str, store: str, to: str) -> Result:
    names = {"HIVEACID_TO": to, "HIVEACID_STORE": store}
    return CliRunner().invoke(
        main, ["migrate", "-w", warehouse, "--to-warehouse", warehouse, *arguments], env=names
    )


def _ids(store: MetastoreStore | SqlStore) -> ValidWriteIdList:
    return store.valid_write_ids(store.valid_txns(), [NAME])[NAME]


def _hives(session: Hive) -> list[tuple[Any, ...]]:
    return sorted((row_id(row[0]), *row[1:]) for row in session.sql(_QUERY))


def _on_disk(store: MetastoreStore | SqlStore) -> list[tuple[Any, ...]]:
    """Read the table without the help of what is tested."""
    table = store.get_table(NAME)
    assert table is not None
    found = read_table(Path(table.location), _ids(store).to_string(), 1)
    return sorted(
        ((write_id, bucket, row), *values, place.removeprefix("p="))
        for place, rows in found.items()
        for write_id, bucket, row, values in rows
    )


def _made(session: Hive, metastore: MetastoreStore, url: str) -> list[tuple[Any, ...]]:
    """Let Hive fill tables, and a stream that gives up once leave its files there."""
    session.sql("CREATE DATABASE trade")
    session.sql(
        "CREATE TABLE trade.orders (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true', 'note'='mine')"
    )
    session.sql("INSERT INTO trade.orders PARTITION (p) VALUES (1,'a','x'),(2,'b','x'),(3,'c','y')")
    session.sql("UPDATE trade.orders SET v = 'new' WHERE id = 1")
    session.sql(
        "CREATE TABLE trade.flat (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    session.sql("INSERT INTO trade.flat VALUES (1), (2)")
    session.sql("CREATE VIEW trade.seen AS SELECT id FROM trade.orders")
    _half_given_up(url)
    session.sql("DELETE FROM trade.orders WHERE id = 3")
    assert len(_ids(metastore).aborted) == 1
    return _hives(session)


def _half_given_up(url: str, warehouse: str | None = None) -> None:
    """Commit one transaction of a batch, and give up the other, which leaves nothing."""
    with Connection("trade.orders", warehouse=warehouse, store=url, partition={"p": "x"}) as stream:
        stream.begin_transaction()
        stream.write([{"id": 4, "v": "streamed"}])
        stream.commit()
        stream.begin_transaction()
        stream.write([{"id": 99, "v": "never"}])
        stream.abort()


def test_out_of_a_metastore_and_back(
    hive: HiveServers, session: Hive, metastore: MetastoreStore, tmp_path: Path
) -> None:
    warehouse, url = str(tmp_path / "own"), f"sqlite:///{tmp_path}/own.db"
    before = _made(session, metastore, hive.url)
    (held,) = metastore.open_txns(CLIENT)
    refused = _run(warehouse, "trade.*", store=hive.url, to=url)
    assert (refused.exit_code, "are open" in refused.output) == (1, True), refused.output
    metastore.abort_txns([held], "enough")
    ids = _ids(metastore)
    done = _run(warehouse, "trade.*", store=hive.url, to=url)
    assert done.exit_code == 0, done.output
    with pytest.raises(HiveError):
        session.sql("SELECT * FROM trade.orders")
    own, _ = open_store(warehouse, url, Settings(), SystemClock())
    assert (_ids(own).high_watermark, _ids(own).aborted) == (ids.high_watermark, ids.aborted)
    assert _on_disk(own) == before
    _half_given_up(url, warehouse)
    (killed,) = own.open_txns(CLIENT)
    (write_id,) = own.allocate_write_ids([killed], NAME)
    (partition,) = (one for one in own.list_partitions(NAME) if one.values == ("x",))
    place = Path(local_path(partition.location))
    streamed = max(place.glob("delta_*_0000"))
    shutil.copytree(streamed, place / f"delta_{write_id:07d}_{write_id:07d}_0000")
    own.abort_txns([killed], "killed")
    between, ids = _on_disk(own), _ids(own)
    assert [row[1:] for row in between if row[0][0] > before[-1][0][0]] == [(4, "streamed", "x")]
    assert len(ids.aborted) == 2
    own.close()
    done = _run(warehouse, "trade.*", store=url, to=hive.url)
    assert done.exit_code == 0, done.output
    assert (_ids(metastore).high_watermark, _ids(metastore).aborted) == (ids.high_watermark, ids.aborted)
    assert metastore.show_locks() == ()
    found = metastore.get_table(NAME)
    assert found is not None
    assert found.property("note") == "mine"
    assert _hives(session) == between
    session.sql("INSERT INTO trade.orders PARTITION (p='x') VALUES (7,'hive')")
    session.sql("UPDATE trade.orders SET v = 'both' WHERE id = 4")
    session.sql("INSERT INTO trade.flat VALUES (3)")
    assert max(row[0][0] for row in _hives(session)) == ids.high_watermark + 2
    rows = [(1, "new", "x"), (2, "b", "x"), (4, "both", "x"), (4, "both", "x"), (7, "hive", "x")]
    assert sorted(row[1:] for row in _hives(session)) == rows
    assert session.sql("SELECT count(*) FROM trade.orders") == [(5,)]
    assert session.sql("SELECT count(*) FROM trade.flat") == [(3,)]
    assert _on_disk(metastore) == _hives(session)


def test_files_that_hive_3_cannot_read_stay_in_their_store(
    hive: HiveServers, session: Hive, metastore: MetastoreStore, tmp_path: Path
) -> None:
    name, warehouse, url = (
        TableName("default", "packed"),
        str(tmp_path / "own"),
        f"sqlite:///{tmp_path}/own.db",
    )
    own, _ = open_store(warehouse, url, Settings(), SystemClock())
    acid = (("transactional", "true"), ("transactional_properties", "default"))
    own.create_table(
        TableDefinition(name, (Column("a", "int"),), ORC, f"{warehouse}/packed", properties=acid)
    )
    with Connection("packed", warehouse=warehouse, store=url) as stream:
        stream.begin_transaction()
        stream.write([{"a": 1}])
        stream.commit()
    done = _run(warehouse, "packed", store=url, to=hive.url)
    if hive.is_hive3:
        assert (done.exit_code, "ZSTD, which Hive 3 cannot read" in done.output) == (1, True), done.output
        assert metastore.get_table(name) is None
        assert own.get_table(name) is not None
    else:
        assert done.exit_code == 0, done.output
        assert session.sql("SELECT * FROM packed") == [(1,)]
    own.close()


def test_transaction_ids_go_on_above_those_in_names(hive: HiveServers, metastore: MetastoreStore) -> None:
    top = metastore.valid_txns().high_watermark
    metastore.seed_txns(TxnId(top - 1))  # nothing to do
    if hive.is_hive3:
        with pytest.raises(Exception, match="Hive 3"):
            metastore.seed_txns(TxnId(top + 500))
        return
    metastore.seed_txns(TxnId(top + 500))
    (later,) = metastore.open_txns(CLIENT)
    assert later > top + 500
    assert metastore.valid_txns().is_valid(TxnId(top + 400))
    metastore.abort_txns([later], "enough")


def test_a_stand_in_that_a_killed_run_left_is_brought_to_its_end(
    hive: HiveServers, metastore: MetastoreStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name had a table before, whose write ids Hive 4 keeps; what lets them go is killed before it is dropped."""
    name = TableName("default", "again")
    warehouse = str(tmp_path / "own")
    own, _ = open_store(warehouse, f"sqlite:///{tmp_path}/own.db", Settings(), SystemClock())
    (tmp_path / "own" / "again").mkdir(parents=True)
    acid = (("transactional", "true"), ("transactional_properties", "default"))
    table = TableDefinition(name, (Column("a", "int"),), ORC, f"{warehouse}/again", properties=acid)
    for store in (own, metastore):
        store.create_table(table)
        (txn,) = store.open_txns(CLIENT)
        assert store.allocate_write_ids([txn], name) == (1,)
        store.commit_txn(txn)
    metastore.drop_table(name)
    work = Migration(
        MigrationStore(own, "own"), MigrationStore(metastore, "hive"), LocalFileSystem(), SystemClock()
    )
    real = MetastoreClient.call

    def killed(client: MetastoreClient, method: str, *values: Any) -> Any:
        if method.startswith("drop_table") or dead:
            dead.append(method)
            raise SimulatedCrash
        return real(client, method, *values)

    dead: list[str] = []
    if not hive.is_hive3:  # Hive 3 forgets the write ids with the table
        with monkeypatch.context() as patched:
            patched.setattr(MetastoreClient, "call", killed)
            with pytest.raises(SimulatedCrash):
                work.move(name)
        left = metastore.get_table(name)
        assert left is not None
        assert left.location != table.location
        metastore.abort_txns(metastore.valid_txns().open, "time-out")
        own.abort_txns(own.valid_txns().open, "time-out")
    assert work.move(name) is not None
    there = metastore.get_table(name)
    assert there is not None
    assert (there.location.removeprefix("file:"), MIGRATION.of(there)) == (table.location, None)
    assert metastore.valid_write_ids(metastore.valid_txns(), [name])[name].high_watermark == 1
    assert own.get_table(name) is None
    own.close()
