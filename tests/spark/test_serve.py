"""``hiveacid serve``: sessions, transactions, cancels, metadata, large results, and beeline."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from hiveacid.errors import ConfigError
from hiveacid.serve import hs2_messages, sessions
from hiveacid.serve.authentication import Anyone, Authentication
from hiveacid.serve.hs2_messages import CALL, encode_message, encode_struct
from hiveacid.serve.results import SparkResult
from hiveacid.serve.server import Server, ServerOptions
from hiveacid.serve.service import Service
from hiveacid.serve.sessions import Caller, Sessions
from support.hs2_client import PATIENCE, CallError, Hs2Client, HttpClient

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession

TABLE = "CREATE TABLE t (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
# one task, so that other statements find a free slot
SLOW = "SELECT sum(a.id * b.id) FROM range(0, 3000000, 1, 1) a JOIN range(0, 3000000, 1, 1) b ON a.id % 7 = b.id % 7"
JARS = Path(pyspark.__file__).parent / "jars"


@pytest.fixture
def server(native: NativeSession) -> Iterator[Server]:
    options = ServerOptions.of("127.0.0.1", 0, Authentication(Anyone()))
    made = Server(Service(Sessions(native, 3600.0), native.version), options)
    made.start()
    yield made
    made.stop(0.0)


@pytest.fixture
def web(native: NativeSession) -> Iterator[Server]:
    options = ServerOptions.of("127.0.0.1", 0, Authentication(Anyone()), http=True)
    made = Server(Service(Sessions(native, 3600.0, 600.0), native.version), options)
    made.start()
    yield made
    made.stop(0.0)


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def open_txns(native: NativeSession) -> list[Any]:
    """Return the open transactions that are not of readers."""
    held = native.acid.context.read_leases.txn_ids()
    rows = native.acid.context.store.show_transactions()
    return [row for row in rows if row.state == "OPEN" and row.txn_id not in held]


def test_types_arrive_as_drivers_expect_them(server: Server) -> None:
    with Hs2Client(server.port) as client:
        client.run("SET spark.sql.execution.arrow.useLargeVarTypes=true")  # not for the server
        (row,) = client.run(
            "SELECT true, 1Y, 2S, 3, 4L, CAST(1.1 AS FLOAT), 2.5D, 'tea', X'00FF', DATE'2020-02-29', "
            "TIMESTAMP'1969-12-31 23:59:59.5', CAST(-1.50 AS DECIMAL(9,2)), array(1, NULL), map('k', 1), "
            "named_struct('a', NULL, 'b', 'x'), NULL, CAST(NULL AS INT), array(timestamp_ntz'2020-01-01 10:11:12.123456')"
        )
        assert row == (
            *(True, 1, 2, 3, 4, 1.1, 2.5, "tea", b"\x00\xff", "2020-02-29", "1969-12-31 23:59:59.5", "-1.50"),
            *("[1,null]", '{"k":1}', '{"a":null,"b":"x"}', None, None, '["2020-01-01 10:11:12.123456"]'),
        )
        handle = client.call("ExecuteStatement", statement="SELECT 1 AS a, 1.5BD AS a").operationHandle
        schema = client.call("GetResultSetMetadata", operationHandle=handle).schema
        entries = [column.typeDesc.types[0].primitiveEntry for column in schema.columns]
        assert [column.columnName for column in schema.columns] == ["a", "a"]
        assert [entry.type for entry in entries] == [3, 15]
        assert entries[1].typeQualifiers.qualifiers["scale"].i32Value == 1


def test_each_session_has_its_own_database_settings_and_transaction(
    server: Server, native: NativeSession
) -> None:
    with (
        Hs2Client(server.port) as ann,
        Hs2Client(server.port, "bob", hive_exec_orc_default_compress="SNAPPY") as bob,
    ):
        ann.run(TABLE)
        ann.run("CREATE DATABASE other")
        ann.run("USE other")
        with pytest.raises(CallError, match="is the server's"):
            ann.run("SET hive.txn.timeout=17s")
        for setting in (
            "hive.txn.timeout=17s",
            "hiveacid.auto_compact=true",
            "hiveacid.openlineage.to=file:///events",
            "spark.sql.variable.substitute=true",
        ):
            with pytest.raises(CallError, match="is the server's"):
                ann.run(f"EXECUTE IMMEDIATE 'SET {setting}'")
        ann.run("EXECUTE IMMEDIATE 'SET spark.sql.shuffle.partitions=3'")
        assert ann.run("SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "3")]
        assert bob.run("SELECT current_database()") == [("default",)]
        assert bob.run("SET hive.exec.orc.default.compress")[0][-1].endswith("=SNAPPY")
        assert not bob.run("SET hive.txn.timeout")[0][-1].endswith("=17s")
        assert native.acid.settings.get("hive.txn.timeout") != 17
        with Hs2Client(server.port, use__database="other") as third:
            assert third.run("SELECT current_database()") == [("other",)]
        ann.run("START TRANSACTION")
        assert ann.run("INSERT INTO default.t VALUES (1, 'a')")[0][:2] == (1, 1)
        assert ann.run("SELECT count(*) FROM default.t") == [(1,)]
        assert bob.run("SELECT count(*) FROM t") == [(0,)]
        assert [txn.user for txn in open_txns(native)] == ["ann"]
        ann.run("COMMIT")
        assert bob.run("SELECT id, v FROM t") == [(1, "a")]


def test_a_failed_statement_fails_its_transaction_and_carries_hives_code(server: Server) -> None:
    with Hs2Client(server.port) as client:
        client.run(TABLE)
        with pytest.raises(CallError) as caught:
            client.run("UPDATE nope SET id = 1")
        assert (caught.value.status.errorCode, caught.value.status.sqlState) == (10001, "42S02")
        with pytest.raises(CallError, match=r"UNBOUND_SQL_PARAMETER.*parameter: a"):
            client.run("SELECT :a")
        client.run("START TRANSACTION")
        client.run("INSERT INTO t VALUES (1, 'a')")
        with pytest.raises(CallError):
            client.run("INSERT INTO t SELECT raise_error('no'), 'b'")
        with pytest.raises(CallError, match="ROLLBACK"):
            client.run("COMMIT")
        client.run("ROLLBACK")
        assert client.run("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("ending", ["hang up", "close", "reset"])
def test_a_session_that_ends_is_rolled_back(server: Server, native: NativeSession, ending: str) -> None:
    with Hs2Client(server.port) as other:
        other.run(TABLE)
        client = Hs2Client(server.port)
        client.run("START TRANSACTION")
        client.run("INSERT INTO t VALUES (1, 'a')")
        assert open_txns(native)
        if ending == "close":
            client.call("CloseSession")
        elif ending == "reset":
            client.start(SLOW)  # hangs up while a statement runs
        if ending != "close":
            client.close()
        until(lambda: not open_txns(native), "the transaction stays open")
        assert other.run("SELECT count(*) FROM t") == [(0,)]
        other.run("INSERT OVERWRITE TABLE t VALUES (2, 'b')")  # needs the lock
        if ending == "close":
            with pytest.raises(CallError) as caught:
                client.run("SELECT 1")
            assert caught.value.status.statusCode == 4
            client.close()


def test_a_session_over_http_ends_soon_unless_it_holds_a_transaction(web: Server) -> None:
    ann, bob = HttpClient(web.port, "ann"), HttpClient(web.port, "bob")
    bob.run("START TRANSACTION")
    for session in web._service.sessions._sessions.values():
        session.used -= 1000
    web._service.sessions.close_idle()
    with pytest.raises(CallError) as caught:
        ann.run("SELECT 1")
    assert caught.value.status.statusCode == 4
    assert bob.run("SELECT 1") == [(1,)]
    bob.run("ROLLBACK")


def test_a_session_whose_handle_no_client_gets_is_closed(web: Server) -> None:
    service = web._service
    body = encode_struct(
        hs2_messages.CALLS["OpenSession"].arguments(req=hs2_messages.TOpenSessionReq(client_protocol=9))
    )
    call = encode_message("OpenSession", CALL, 1, body)

    def fail(data: bytes) -> None:
        assert data
        assert len(service.sessions) == 1
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        service.answer(call, Caller("ann", "", "user ann", lambda: False), fail)
    with pytest.raises(EOFError):
        service.answer(call, Caller("ann", "", "user ann", lambda: True), fail)
    assert not len(service.sessions)
    until(lambda: not service.sessions._users, "a session has not ended")


def test_one_user_cannot_take_all_sessions(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_USER", 2)
    refused: list[CallError] = []
    clients: list[Hs2Client] = []

    def connect() -> None:
        try:
            clients.append(Hs2Client(server.port))
        except CallError as error:
            refused.append(error)

    threads = [threading.Thread(target=connect) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(clients), len(refused)) == (2, 4)
    assert "limit" in refused[0].status.errorMessage
    with Hs2Client(server.port, "bob") as bob:
        assert bob.run("SELECT 1") == [(1,)]
    clients[0].call("CloseSession")
    until(lambda: server._service.sessions._users == ["ann"], "a session has not ended")
    with Hs2Client(server.port) as again:
        assert again.run("SELECT 1") == [(1,)]


def test_a_statement_for_a_session_that_ends_is_refused(server: Server, native: NativeSession) -> None:
    with Hs2Client(server.port) as client:
        client.run(TABLE)
        ((guid, session),) = server._service.sessions._sessions.items()
        handles = [client.start(text) for text in (SLOW, *["INSERT INTO t VALUES (1, 'a')"] * 6)]
        statements = [session.operations[handle.operationId.guid] for handle in handles]
        session.end()
        assert [statement.state for statement in statements] == [hs2_messages.CANCELED] * 7
        server._service.sessions._sessions[guid] = session  # found just before it ended
        with pytest.raises(CallError, match="closed") as caught:
            client.run("INSERT INTO t VALUES (2, 'b')")
        assert caught.value.status.sqlState == "HY008"
        assert native.sql("SELECT * FROM t").count() == 0


def test_a_session_ends_even_if_the_machine_has_no_more_threads(
    server: Server, native: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name == "hiveacid-session-end":
            raise RuntimeError("can't start new thread")
        started(thread)

    with Hs2Client(server.port) as client:
        client.run(TABLE)
        client.run("START TRANSACTION")
        client.run("INSERT INTO t VALUES (1, 'a')")
        monkeypatch.setattr(threading.Thread, "start", none_left)
        client.call("CloseSession")
        assert not open_txns(native)
        assert not server._service.sessions._users


def test_handles_of_another_client_are_of_no_use(server: Server) -> None:
    with Hs2Client(server.port) as ann, Hs2Client(server.port) as eve:
        handle = ann.start("SELECT 1")
        ann.wait(handle)
        for method in ("FetchResults", "CancelOperation", "CloseOperation", "GetResultSetMetadata"):
            with pytest.raises(CallError) as caught:
                eve.call(method, operationHandle=handle)
            assert caught.value.status.statusCode == 4
        eve.session = ann.session
        with pytest.raises(CallError) as caught:
            eve.run("DROP TABLE t")
        assert caught.value.status.statusCode == 4
        assert ann.rows(handle) == [(1,)]


def test_sessions_have_pools_of_their_own_in_sparks_scheduler(server: Server, native: NativeSession) -> None:
    with Hs2Client(server.port):
        (session,) = server._service.sessions._sessions.values()
        read = session.thread.submit(lambda: native.sparkContext.getLocalProperty("spark.scheduler.pool"))
        assert read.future.result() == f"client-{session.guid[0] % 64}"


def test_a_statement_is_cancelled_and_the_session_goes_on(server: Server, native: NativeSession) -> None:
    with Hs2Client(server.port) as client, Hs2Client(server.port) as other:
        client.run(TABLE)
        handle = client.start(
            f"INSERT INTO t SELECT CAST(x AS INT), 'a' FROM ({SLOW.replace('sum(', 'max(')}) AS s(x)"
        )
        until(lambda: open_txns(native), "the statement does not begin")
        assert other.run("SELECT 1") == [(1,)]  # nobody waits
        client.call("CancelOperation", operationHandle=handle)
        status = client.wait(handle)
        assert status.operationState == 3
        assert status.sqlState == "HY008"
        assert client.run("SELECT count(*) FROM t") == [(0,)]
        assert not open_txns(native)


def test_a_cancel_stops_analysis_and_the_session_keeps_its_settings(server: Server) -> None:
    """Spark analyses this script for half a minute."""
    deep = "BEGIN " + "IF true THEN " * 150 + "SELECT 1; " + "END IF; " * 150 + "END"
    shown = "SET spark.sql.caseSensitive"
    with Hs2Client(server.port) as client:
        before = client.run(shown)
        for settings in ({}, {"spark.sql.caseSensitive": "true", "spark.sql.codegen.wholeStage": "false"}):
            answer = client.call("ExecuteStatement", statement=deep, runAsync=True, confOverlay=settings)
            client.call("CancelOperation", operationHandle=answer.operationHandle)
            assert client.wait(answer.operationHandle).operationState == hs2_messages.CANCELED
            assert client.run(shown) == before
        client.run("SET spark.sql.ansi.enabled=false")
        answer = client.call("ExecuteStatement", statement=deep, runAsync=True, queryTimeout=1)
        assert client.wait(answer.operationHandle).operationState == hs2_messages.CANCELED
        assert client.run("SELECT CAST('x' AS INT) AS A, a FROM VALUES (1) AS t(a)") == [(None, 1)]


def test_a_statement_that_has_committed_cannot_be_told_as_cancelled(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel makes Spark jobs fail; the counts of committed changes are read without one."""

    def cancelled(_: SparkResult) -> Iterator[Any]:
        raise RuntimeError("the job was cancelled")

    with Hs2Client(server.port) as client:
        client.run(TABLE)
        with monkeypatch.context() as patched:
            patched.setattr(SparkResult, "batches", cancelled)
            handle = client.start("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
            status = client.wait(handle)
            assert (status.operationState, status.numModifiedRows) == (hs2_messages.FINISHED, 2)
            assert client.rows(handle)[0][:2] == (2, 2)
            with pytest.raises(CallError):
                client.run("SELECT * FROM t")
        assert client.run("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize("explicit", [False, True])
def test_a_wait_for_a_lock_is_cancelled(server: Server, *, explicit: bool) -> None:
    with Hs2Client(server.port) as holder, Hs2Client(server.port) as client:
        holder.run(TABLE)
        holder.run("START TRANSACTION")
        holder.run("INSERT OVERWRITE TABLE t VALUES (1, 'a')")
        if explicit:
            client.run("START TRANSACTION")
        handle = client.start("INSERT OVERWRITE TABLE t VALUES (2, 'b')")
        assert client.state(handle).operationState in (1, 7)
        client.call("CancelOperation", operationHandle=handle)
        assert client.wait(handle).operationState == 3
        if explicit:
            for statement in ("INSERT INTO t VALUES (3, 'c')", "COMMIT"):  # a transaction no less than before
                with pytest.raises(CallError, match="ROLLBACK ends it"):
                    client.run(statement)
            client.run("ROLLBACK")
        holder.run("COMMIT")
        assert client.run("SELECT id FROM t") == [(1,)]


def test_execute_immediate_writes_as_its_client_and_is_cancelled(
    server: Server, native: NativeSession
) -> None:
    insert = "EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1, \"a\")'"
    with Hs2Client(server.port) as client, Hs2Client(server.port, "bob") as bob:
        client.run(TABLE)
        client.run(insert)
        client.run("EXECUTE IMMEDIATE 'SET hive.exec.orc.default.compress=SNAPPY'")
        assert client.run("SET hive.exec.orc.default.compress")[0][-1].endswith("=SNAPPY")
        bob.run("START TRANSACTION")
        bob.run("INSERT OVERWRITE t SELECT 2, 'b'")
        handle = client.start(insert)
        until(lambda: {txn.user for txn in open_txns(native)} == {"ann", "bob"}, "it does not begin")
        client.call("CancelOperation", operationHandle=handle)
        assert client.wait(handle).operationState == hs2_messages.CANCELED
        assert {txn.user for txn in open_txns(native)} == {"bob"}
        bob.run("ROLLBACK")
        assert client.run("SELECT id FROM t") == [(1,)]


def test_a_time_limit_cancels(server: Server) -> None:
    with Hs2Client(server.port) as client:
        handle = client.call(
            "ExecuteStatement", statement=SLOW, runAsync=True, queryTimeout=1
        ).operationHandle
        assert client.wait(handle).operationState == 3


def test_metadata_lists_our_tables(server: Server) -> None:
    with Hs2Client(server.port) as client:
        client.run("CREATE DATABASE shop")
        client.run(
            "CREATE TABLE shop.sales (id BIGINT COMMENT 'key', price DECIMAL(8,2)) PARTITIONED BY (dt DATE) "
            "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
        client.run("CREATE VIEW shop.cheap AS SELECT id FROM shop.sales WHERE price < 1")
        client.run("CREATE TABLE shop.plain USING parquet AS SELECT 1 AS a")
        assert [row[0] for row in client.metadata("GetSchemas", schemaName="sh%")] == ["shop"]
        tables = client.metadata("GetTables", schemaName="shop", tableName="%")
        assert [(row[1], row[2], row[3]) for row in tables] == [
            ("shop", "cheap", "VIEW"), ("shop", "plain", "TABLE"), ("shop", "sales", "TABLE"),
        ]  # fmt: skip
        views = client.metadata("GetTables", schemaName="shop", tableName="%", tableTypes=["VIEW"])
        assert [row[2] for row in views] == ["cheap"]
        columns = client.metadata("GetColumns", schemaName="shop", tableName="sales", columnName="%")
        assert [(row[3], row[4], row[5], row[6], row[8], row[11], row[16]) for row in columns] == [
            ("id", -5, "BIGINT", 19, 0, "key", 1),
            ("price", 3, "DECIMAL", 8, 2, None, 2),
            ("dt", 91, "DATE", 10, None, None, 3),
        ]
        assert len(client.metadata("GetColumns", schemaName="shop", tableName="cheap")) == 1
        assert ("concat",) in [row[2:3] for row in client.metadata("GetFunctions", tableName="conc%")]
        assert [row[0] for row in client.metadata("GetTableTypes")] == ["TABLE", "VIEW"]
        assert "DECIMAL" in [row[0] for row in client.metadata("GetTypeInfo")]
        assert client.metadata("GetCatalogs") == client.metadata("GetPrimaryKeys") == []
        client.run("CREATE VIEW shop.of_spark AS SELECT a FROM shop.plain")
        client.run("DROP TABLE shop.plain")  # a view that cannot be read hides the columns of no other table
        client.run("ALTER TABLE shop.sales RENAME TO shop.sold")
        columns = client.metadata("GetColumns", schemaName="shop")
        assert [row[2:4] for row in columns] == [
            ("cheap", "id"), ("sold", "id"), ("sold", "price"), ("sold", "dt"),
        ]  # fmt: skip
        client.run("DROP DATABASE shop CASCADE")


def test_rows_come_in_pieces_and_again_from_the_first(server: Server) -> None:
    with Hs2Client(server.port) as client:
        handle = client.call("ExecuteStatement", statement="SELECT id FROM range(10000)").operationHandle
        assert client.rows(handle, 999) == [(number,) for number in range(10000)]
        again = client.call("FetchResults", operationHandle=handle, orientation=4, maxRows=2)
        assert again.results.columns[0].c5.values == [0, 1]
        with pytest.raises(CallError):
            client.call("FetchResults", operationHandle=handle, orientation=1, maxRows=2)


def test_a_fetch_that_failed_fails_again(server: Server) -> None:
    """A client that repeats it must not take the rows so far for all rows, nor lose those before the error."""
    with Hs2Client(server.port) as client:
        query = "SELECT IF(id = 9000, raise_error('bad row'), id) AS id FROM range(0, 10000, 1, 2)"
        handle = client.call("ExecuteStatement", statement=query).operationHandle
        seen: list[int] = []
        while len(seen) < 5000:
            answer = client.call("FetchResults", operationHandle=handle, orientation=0, maxRows=999)
            seen += answer.results.columns[0].c5.values
        assert seen == [*range(5000)]
        for _ in range(2):
            with pytest.raises(CallError, match="bad row"):
                client.call("FetchResults", operationHandle=handle, orientation=0, maxRows=999)
        again = client.call("FetchResults", operationHandle=handle, orientation=4, maxRows=2)
        assert again.results.columns[0].c5.values == [0, 1]


def test_an_open_result_keeps_its_snapshot_and_a_closed_one_lets_go(
    server: Server, native: NativeSession
) -> None:
    with Hs2Client(server.port) as client:
        client.run(TABLE)
        client.run("INSERT INTO t SELECT CAST(id AS INT), 'a' FROM range(20000)")
        handle = client.call("ExecuteStatement", statement="SELECT id FROM t").operationHandle
        with Hs2Client(server.port) as other:
            other.run("DELETE FROM t WHERE id < 10000")
            other.run("ALTER TABLE t COMPACT 'major' AND WAIT")
            native.acid.clean()
            assert len(client.rows(handle)) == 20000
        assert native.acid.context.read_leases.txn_ids()
        client.call("CloseOperation", operationHandle=handle)
        server._service.sessions._swept = 0.0
        until(
            lambda: server._service.sessions.close_idle() or not native.acid.context.read_leases.txn_ids(),
            "lease",
        )


def test_twenty_clients_at_once_with_kills_and_cancels(server: Server, native: NativeSession) -> None:
    with Hs2Client(server.port) as client:
        client.run(TABLE)
    sure: list[int] = []  # ids whose insert was acknowledged
    possible: list[int] = []

    def work(number: int) -> None:
        client = Hs2Client(server.port, f"user{number}")
        for turn in range(3):
            row = number * 10 + turn
            possible.append(row)
            if number % 5 == 0 and turn == 2:
                client.start(f"INSERT INTO t VALUES ({row}, 'killed')")
                client.close()
                return
            handle = client.start(f"INSERT INTO t VALUES ({row}, 'x')")
            if number % 5 == 1:
                client.call("CancelOperation", operationHandle=handle)
            if client.wait(handle).operationState == 2:
                sure.append(row)
        client.call("CloseSession")
        client.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: not open_txns(native), "transactions stay open")
    with Hs2Client(server.port) as client:
        rows = [row[0] for row in client.run("SELECT id FROM t")]
    assert len(rows) == len(set(rows))
    assert set(sure) <= set(rows) <= set(possible)
    assert len(sure) >= 36  # of 12 clients that neither cancel nor are killed


def test_other_addresses_need_authentication() -> None:
    with pytest.raises(ConfigError, match="authentication"):
        ServerOptions.of("0.0.0.0", 0, Authentication(Anyone()))  # noqa: S104


@pytest.mark.exhaustive("tests/clients asks by beeline, and CI runs that test of it")
def test_the_command_serves_beeline_and_ends_on_a_signal(tmp_path: Path) -> None:
    """The real driver: Hive's beeline from PySpark's jars, on a server process of its own."""
    (tmp_path / "wh").mkdir()
    command = [
        sys.executable,
        "-m",
        "hiveacid",
        "serve",
        "-w",
        str(tmp_path / "wh"),
        "--port",
        "0",
        "--services",
    ]
    process = subprocess.Popen(
        [*command, "--master", "local[1]", "--conf", "spark.driver.memory=1g", "--grace", "0"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving on" in line)
        port = line.split(":")[-1].split()[0]
        script = tmp_path / "script.sql"
        script.write_text(
            f"{TABLE};\nINSERT INTO t VALUES (1,'tea'),(2,'jam');\nUPDATE t SET v = 'gin' WHERE id = 2;\n"
            "SELECT v FROM t ORDER BY id;\n!tables\nSELECT * FROM nope;\n"
        )
        output = subprocess.run(
            ["java", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine", "-u", f"jdbc:hive2://127.0.0.1:{port}/default",
             "-n", "ann", "--outputformat=csv2", "--silent=true", "--force=true", "-f", str(script)],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        shown = output.stdout.splitlines()
        assert "tea" in shown
        assert "gin" in shown
        assert any(line.startswith("NULL,default,t,TABLE") for line in shown)
        assert "TABLE_OR_VIEW_NOT_FOUND" in output.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
