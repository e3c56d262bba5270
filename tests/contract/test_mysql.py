"""The SQL store on a real MySQL passes the contract, also where the server's default is to cut off long texts."""

from __future__ import annotations

import pytest
from server_rules import Place, ServerContract, ServerRules
from sqlalchemy import text
from test_mariadb import test_a_schema_that_was_left_half_made_is_finished  # noqa: F401 - the same here

from hiveacid.errors import StoreError
from hiveacid.stores.sql.store import SqlStore
from support.servers.databases import Server


@pytest.fixture(scope="module")
def place(mysql_server: Server) -> Place:
    return Place(mysql_server, "contract")


@pytest.mark.sampled(6, "the contract stays whole on PostgreSQL, SQLite and in memory")
class TestMysql(ServerContract):
    pass


@pytest.mark.sampled(4, "the rules of servers stay whole on PostgreSQL")
@pytest.mark.exhaustive("the same test on PostgreSQL stays", cases=("test_a_history", "test_walks"))
class TestMysqlServer(ServerRules):
    pass


def test_a_text_that_is_too_long_is_refused(place: Place) -> None:
    store = SqlStore(place.url)
    row = text("INSERT INTO hiveacid_done VALUES (:mark, 1)").bindparams(mark="x" * 65)
    with pytest.raises(StoreError, match="too long"):
        store._database.write(lambda connection: connection.execute(row))
    store.close()
