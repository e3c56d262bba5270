"""``hiveacid serve``: settings that a client sends with one statement."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.ports.transactions import Client
from hiveacid.serve.authentication import Anyone, Authentication
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Sessions
from hiveacid.sql.native import session
from support.hs2_client import PATIENCE, CallError, Hs2Client

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


def test_settings_of_the_server_stay_and_those_of_a_session_are_few(
    client: Hs2Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hive.txn.timeout", "hiveacid.auto_compact", "SPARK.sql.variable.substitute"):
        with pytest.raises(CallError, match="is the server's"):
            client.run(f"SET {name}=true")
        with pytest.raises(CallError, match="is the server's"):
            client.call(
                "ExecuteStatement", statement="SELECT 1", confOverlay={f"set:hiveconf:{name}": "true"}
            )
        with pytest.raises(CallError, match="is the server's"):
            client.run(f"RESET {name}")
    monkeypatch.setattr(session, "MOST_SETTINGS", 5)
    for number in (1, 2, 3, 4, 4):
        client.run(f"SET a.b{number}=1")
    with pytest.raises(CallError, match="at most 5 settings"):
        client.call("ExecuteStatement", statement="SELECT 1", confOverlay={"a.b5": "1", "a.b6": "1"})


def test_no_client_resets_a_setting_of_the_server(native: NativeSession) -> None:
    """It could keep its commits from the server's receiver of lineage."""
    client = native.for_client(Client("ann", "here", "test"))
    namespace, codec = "hiveacid.openlineage.namespace", "hive.exec.orc.default.compress"
    context = client.acid.context
    context.change_settings(context.settings.with_value(namespace, "lake"))
    for reset in ("RESET", "EXECUTE IMMEDIATE 'RESET'"):
        client.sql(f"SET {codec}=SNAPPY")
        client.sql(reset)
        assert dict(client.acid.context.settings.changed) == {namespace: "lake"}
    for reset in (f"RESET {namespace}", f"RESET `{namespace}`", f"EXECUTE IMMEDIATE 'RESET {namespace}'"):
        with pytest.raises(Exception, match="is the server's"):
            client.sql(reset)
    assert client.acid.context.settings.text(namespace) == "lake"
    client.acid.close()


def test_literals_are_data_and_batches_have_a_bound_whatever_a_client_sets(client: Hs2Client) -> None:
    hostile = "${env:HOME} ${system:user.home} ${my.setting}"
    client.run("SET my.setting=secret")
    assert client.run(f"SELECT '{hostile}'") == [(hostile,)]
    client.run("RESET")
    assert client.run(f"SELECT '{hostile}'") == [(hostile,)]
    client.run("SET spark.sql.execution.arrow.maxRecordsPerBatch=0")
    handle = client.call("ExecuteStatement", statement="SELECT id FROM range(0, 10000, 1, 1)").operationHandle
    answer = client.call("FetchResults", operationHandle=handle, orientation=0, maxRows=100_000)
    assert len(answer.results.columns[0].c5.values) == 4096


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_decimals_are_plain_in_every_mode(client: Hs2Client, ansi: str) -> None:
    client.run(f"SET spark.sql.ansi.enabled={ansi}")
    text = "SELECT 0.0000001BD, CAST(0 AS DECIMAL(38, 18)), CAST('x' AS INT)"
    if ansi == "false":
        assert client.run(text) == [("0.0000001", "0." + "0" * 18, None)]
        assert client.run("SELECT CAST('x' AS INT)") == [(None,)]
    else:
        assert client.run(text.rpartition(",")[0]) == [("0.0000001", "0." + "0" * 18)]


def test_a_text_that_is_not_utf8_can_be_read(client: Hs2Client) -> None:
    rows = client.run(
        "SELECT CAST(x AS STRING) FROM VALUES (X'61FF62'), (NULL), (X'C3A4'), (X'E282') AS t(x)"
    )
    assert rows == [("a\ufffdb",), (None,), ("\u00e4",), ("\ufffd",)]


def test_a_read_has_its_clients_name(client: Hs2Client) -> None:
    client.run("CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    client.run("INSERT INTO t VALUES (1)")
    open_result = client.call("ExecuteStatement", statement="SELECT id FROM t").operationHandle
    rows = client.run("SHOW TRANSACTIONS")
    assert {row[4] for row in rows if row[1] == "OPEN"} == {"ann"}
    assert client.rows(open_result) == [(1,)]


def test_a_text_too_deep_for_spark_is_refused_in_a_sentence(client: Hs2Client) -> None:
    for text in (
        "SELECT " + "/*" * 2000 + "*/" * 2000 + " 1",
        "SELECT 1 AS `open " + "/*" * 2000,
        "SELECT " + "NOT " * 20_000 + "true",
        "SELECT " + "x -> " * 20_000 + "1",
        "SELECT CAST(NULL AS " + "ARRAY<" * 20_000 + "INT" + ">" * 20_000 + ")",
    ):
        with pytest.raises(CallError) as caught:
            client.run(text)
        message = caught.value.status.errorMessage
        assert any(word in message for word in ("nested", "too complex", "no end")), message[:300]
        assert "java." not in message
    assert client.run("SELECT 1") == [(1,)]


def test_statements_cancels_and_settings_are_audited(
    client: Hs2Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hiveacid.audit")
    port = client.socket.getpeername()[1]
    with pytest.raises(CallError, match="is the server's"):
        Hs2Client(port, "eve", set__hiveconf__hive_txn_timeout="1s")
    text = "SELECT 'a\nb', '\u009b'"
    with Hs2Client(port, "bob", set__hiveconf__my_setting="x\ny") as bob:
        handle = bob.call("ExecuteStatement", statement=text, confOverlay={"a.b": "1"}).operationHandle
        bob.call("CancelOperation", operationHandle=handle)
        slow = "SELECT count(*) FROM range(100000000) a JOIN range(100000000) b ON a.id % 7 = b.id % 7"
        bob.wait(bob.call("ExecuteStatement", statement=slow, runAsync=True, queryTimeout=1).operationHandle)
        bob.call("CloseOperation", operationHandle=bob.start(slow))
        bob.call("CloseSession")
        expected = [
            ("login", "eve", ""),
            ("session_refused", "eve", 'settings={"set:hiveconf:hive.txn.timeout": "1s"} reason="'),
            ("login", "bob", ""),
            ("session_opened", "bob", 'settings={"set:hiveconf:my.setting": "x\\ny"}'),
            ("statement", "bob", 'settings={"a.b": "1"} text=' + json.dumps(text)),
            ("cancel", "bob", 'reason="requested"'),
            ("statement", "bob", "text="),
            ("cancel", "bob", 'reason="time limit"'),
            ("statement", "bob", "text="),
            ("cancel", "bob", 'reason="closed"'),
            ("session_ended", "bob", 'reason="closed"'),
        ]
        end = time.monotonic() + PATIENCE
        while len(caplog.records) < len(expected):
            assert time.monotonic() < end, [record.getMessage() for record in caplog.records]
            time.sleep(0.01)
    lines = [record.getMessage() for record in caplog.records if record.name == "hiveacid.audit"]
    assert all(line.isprintable() for line in lines)
    for line, (event, user, more) in zip(lines, expected, strict=True):
        assert line.startswith(f'event={event} user="{user}" host="127.0.0.1"')
        assert more in line
