"""Who follows a metastore's events (replication, Impala) hears of our files as of Hive's: where ``dml.events`` is set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hive_client import Hive
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers

import hiveacid
from support.servers.databases import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACID = "TBLPROPERTIES ('transactional'='true')"
_TABLES = (
    "CREATE TABLE {}_acid (a INT, b STRING) STORED AS ORC " + _ACID,
    "CREATE TABLE {}_part (a INT, b STRING) PARTITIONED BY (p STRING) STORED AS ORC " + _ACID,
    "CREATE TABLE {}_only (a INT) STORED AS ORC "
    + _ACID.replace(")", ", 'transactional_properties'='insert_only')"),
    "CREATE TABLE {}_plain (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
)
_STATEMENTS = (
    "INSERT INTO {}_acid VALUES (1,'a'),(2,'b'),(3,'c')",
    "UPDATE {}_acid SET b = 'u' WHERE a = 1",
    "DELETE FROM {}_acid WHERE a = 2",
    "INSERT OVERWRITE TABLE {}_acid VALUES (4,'d')",
    "INSERT INTO {}_part PARTITION (p='x y') VALUES (1,'a')",
    "INSERT INTO {}_part PARTITION (p) VALUES (2,'b','x y'),(3,'c','new')",
    "UPDATE {}_part SET b = 'u' WHERE p = 'new'",
    "INSERT INTO {}_only VALUES (1)",
    "INSERT INTO {}_plain VALUES (1)",
    "INSERT OVERWRITE TABLE {}_plain VALUES (2)",
)
_DIRECTORY = re.compile(r"(?:base|delta|delete_delta)_\d+(?:_\d+)?")


@pytest.fixture(scope="module", params=VERSIONS)
def listened(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[HiveServers]:
    """Return servers whose metastore keeps its events."""
    if not is_installed(request.param) or java_home() is None:
        pytest.skip(f"Hive {request.param} is not installed: make interop-hive fetches it")
    listener = "interop.Listener" if request.param.startswith("3.") else "interop.Writes"
    settings = {
        "hive.metastore.dml.events": "true",
        "hive.metastore.transactional.event.listeners": listener,
        "metastore.transactional.event.listeners": listener,
    }
    made = HiveServers(request.param, postgres_server, more=settings)  # type: ignore[arg-type]
    try:
        made.start_metastore()
        made.start_hive_server()
        yield made
    finally:
        made.remove()


def told(log: Path, who: str) -> set[tuple[str, ...]]:
    """Return the events about tables of ``who`` and forget them: what kind, which place and directory of files.

    Hive 4 tells of delete events and of rows one after the other, we at once: followers put together what a transaction did.
    """
    events = set()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        kind, table, partition, more, files = line.split("\t")
        assert table.startswith(who), line
        for file in files.split(","):
            found = _DIRECTORY.search(file)
            place = found[0] if found else "plain"
            events.add((kind, table.removeprefix(who), partition, more.partition(" in=")[0], place))
    log.unlink(missing_ok=True)
    return events


def test_the_same_is_told_of_our_statements_as_of_hives(listened: HiveServers, spark: SparkSession) -> None:
    acid, session = hiveacid.connect(spark, store=listened.url), Hive(listened.hs2_port)
    try:
        for table in _TABLES:
            session.sql(table.format("hives"))
            session.sql(table.format("ours"))
        log = listened.place / "tmp" / "events"
        hives, ours = {}, {}
        for statement in _STATEMENTS:
            if "_only" in statement and listened.is_hive3:
                continue  # its metastore fails, and with it Hive's own statement: see docs/metastore.md
            session.sql(statement.format("hives"))
            hives[statement] = told(log, "hives")
            acid.sql(statement.format("ours"))
            ours[statement] = told(log, "ours")
        assert ours == hives
        assert sum(map(len, ours.values())) >= len(ours), ours  # there was something to compare
        acid.sql("INSERT INTO ours_only VALUES (2)")  # works on 3.1.3, too
        told(log, "ours")
        acid.set("hive.metastore.dml.events", "false")
        acid.sql("INSERT INTO ours_acid VALUES (9,'z')")
        assert told(log, "ours") == set()
    finally:
        session.close()
        acid.close()
