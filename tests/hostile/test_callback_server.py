"""Py4J's callback server, attacked by another operating system user of the driver's machine."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.sql.native.session import NativeSession

GUESSES = 64
# Sends each command to each object id that can be guessed; prints the answers.
ATTACK = f"""
import encodings.idna, os, socket, sys  # nobody may not be able to read Python's modules
user, port, *commands = sys.argv[1:]
os.setgroups([]), os.setgid(int(user)), os.setuid(int(user))
for command in commands:
    for guess in [*(f"p{{n}}" for n in range({GUESSES})), "t", "c", "GATEWAY_SERVER"]:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client, client.makefile("rw") as stream:
            stream.write(f"c\\n{{guess}}\\n{{command}}\\ne\\n")
            stream.flush()
            print(stream.readline().strip())
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def attack(spark: SparkSession, *commands: str) -> set[str]:
    """Return the answers that a process of the user nobody gets."""
    gateway: Any = spark.sparkContext._gateway
    port = str(gateway._callback_server.get_listening_port())
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, str(pwd.getpwnam("nobody").pw_uid), port, *commands],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


def test_another_user_runs_no_statement_as_the_driver(native: NativeSession) -> None:
    create = "CREATE TABLE stolen (id INT) TBLPROPERTIES ('transactional'='true')"
    assert attack(native, f"parsePlan\ns{create}", "parseDataType\nsint") == {"!xsObject ID unknown"}
    assert native.sql("SHOW TABLES").collect() == []


def test_another_user_calls_no_function_of_a_streaming_query(native: NativeSession) -> None:
    """The query's function stays registered while the attack runs."""
    started, attacked = threading.Event(), threading.Event()
    batches: list[int] = []

    def batch(_frame: object, number: int) -> None:
        batches.append(number)
        started.set()
        assert attacked.wait(100)

    query = native.readStream.format("rate").load().writeStream.foreachBatch(batch).trigger(once=True).start()
    assert started.wait(100)
    try:  # any object of the JVM would do as the frame
        assert attack(native, "call\nro0\nL7") == {"!xsObject ID unknown"}
    finally:
        attacked.set()
    assert query.awaitTermination(100)
    assert query.exception() is None
    assert batches == [0]


def test_every_registered_object_gets_a_secret_id(native: NativeSession) -> None:
    pool: Any = native.sparkContext._gateway.gateway_property.pool
    first, second = pool.put(object()), pool.put(object())
    assert first[:-32] == second[:-32] == "p"
    assert first != second
    assert pool.put(object(), "t") == "t"  # the id that Py4J itself asks for
    for each in (first, second, "t"):
        del pool[each]
