"""``hiveacid serve``: settings that a client sends with one statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.serve.authentication import Anyone, Authentication
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Sessions
from support.hs2_client import CallError, Hs2Client

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession


@pytest.fixture
def client(native: NativeSession) -> Iterator[Hs2Client]:
    options = ServerOptions.of("127.0.0.1", 0, Authentication(Anyone()))
    server = Server(Service(Sessions(native, 3600.0), native.version), options)
    server.start()
    with Hs2Client(server.port) as client:
        yield client
    server.stop(0.0)


def test_a_statement_may_have_settings_of_its_own(client: Hs2Client) -> None:
    def run(text: str, **overlay: str) -> Any:
        names = {name.replace("__", ":").replace("_", "."): value for name, value in overlay.items()}
        answer = client.call("ExecuteStatement", statement=text, confOverlay=names)
        return client.rows(answer.operationHandle)

    client.run("SET my.setting=kept")
    shown = "SET hive.exec.orc.default.compress"
    before = client.run(shown)
    assert run("SET my.setting", my_setting="other") == [("my.setting", "other")]
    assert run(shown, set__hiveconf__hive_exec_orc_default_compress="SNAPPY")[0][-1].endswith("=SNAPPY")
    assert run("SELECT current_timezone()", spark_sql_session_timeZone="Asia/Tokyo") == [("Asia/Tokyo",)]
    for wrong in ({"new_setting": "1", "hive_txn_timeout": "soon"}, {"my_setting": "x", "a b": "1"}):
        with pytest.raises(CallError, match=r"setting|timeout"):
            run("SELECT 1", **wrong)
    assert client.run("SET my.setting") == [("my.setting", "kept")]
    assert client.run("SET new.setting")[0][1] != "1"
    assert client.run(shown) == before
    assert client.run("SELECT current_timezone()") != [("Asia/Tokyo",)]
