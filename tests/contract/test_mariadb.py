"""The SQL store on a real MariaDB passes the contract, and what is special about it."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from server_rules import Place, ServerContract, ServerRules
from sqlalchemy import text

from hiveacid.core.snapshot.directory_listing import FooterFacts
from hiveacid.core.snapshot.file_records import (
    NewDirectory,
    RecordedDirectory,
    RecordedFile,
    TableRecords,
)
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Start
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.store import MIGRATIONS, SqlStore, migrate
from support.samples import CLIENT, ORDERS, database, table
from support.servers.databases import Server


@pytest.fixture(scope="module")
def place(mariadb_server: Server) -> Place:
    return Place(mariadb_server, "contract")


@pytest.mark.sampled(6, "the contract stays whole on PostgreSQL, SQLite and in memory")
class TestMariadb(ServerContract):
    pass


@pytest.mark.sampled(4, "the rules of servers stay whole on PostgreSQL")
@pytest.mark.exhaustive("the same test on PostgreSQL stays", cases=("test_a_history", "test_walks"))
class TestMariadbServer(ServerRules):
    pass


def test_a_schema_that_was_left_half_made_is_finished(place: Place) -> None:
    """DDL commits by itself here: who starts next goes on where another one died."""
    url = place.server.make_database("contract_half")
    database = Database(url, SystemClock())
    words = database.dialect.ddl_terms
    for count in range(0, len(MIGRATIONS[0]), 4):
        for statement in MIGRATIONS[0][:count]:
            try:
                database.write(lambda connection, s=statement: connection.execute(text(s.format(**words))))
            except Exception as error:  # noqa: BLE001 - the earlier turns made it
                assert "exists" in str(error) or "Duplicate" in str(error)  # noqa: PT017
    migrate(database)
    database.close()
    store = SqlStore(url)
    assert store.open_txns(CLIENT, 3) == (1, 2, 3)
    store.close()


def test_a_commit_of_many_wide_files_fits_into_a_packet(place: Place) -> None:
    """The server refuses statements of more than max_allowed_packet, 16 MB by default."""
    place.empty()
    store = SqlStore(place.url)
    store.create_database(database())
    store.create_table(replace(table(), partition_columns=()), unoccupied=True)
    names, sample = [f"bucket_{number:05d}" for number in range(1500)], Random(1)
    facts = [FooterFacts(1, "struct<a:int>", statistics=(sample.randbytes(16_000),)) for _ in names]
    files = tuple(RecordedFile(name, 9, fact) for name, fact in zip(names, facts, strict=True))
    made = RecordedDirectory("delta_0000001_0000001_0000", files)
    txn_id = store.begin_txn(CLIENT, Start((), (ORDERS,), (ORDERS,))).txn_id
    store.commit_txn(txn_id, CatalogChanges(records=(TableRecords(ORDERS, (NewDirectory((), made),)),)))
    found = store.recorded_files(ORDERS, None)
    store.close()
    assert found is not None
    assert [file.name for file in found[()][0].files] == names


def test_a_connection_that_the_server_has_closed_is_replaced(place: Place) -> None:
    """MySQL ends every idle session after some seconds: the pool notices before a statement does."""
    place.empty()
    store = SqlStore(place.url)
    with store._database._engine.connect() as connection:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar()
    with place.engine.connect() as other:
        other.exec_driver_sql(f"KILL {number}")
        listed = text("SELECT count(*) FROM information_schema.processlist WHERE id = :id")
        while other.scalar(listed, {"id": number}):
            time.sleep(0.01)
    assert store.open_txns(CLIENT) == (1,)
    assert store._database._generation == 0
    store.close()
