"""Streams of ours into tables of a real metastore: Hive reads each transaction as it commits, and compacts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hive_client import Hive
from hive_server import HiveServers

from hiveacid.cli import main
from hiveacid.core.model import TableName
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.streaming import Connection

SETTING = "hive.compute.query.using.stats=true"  # a count from statistics would show wrong ones


def _rows(session: Hive, name: str) -> list[tuple[Any, ...]]:
    return sorted(session.sql(f"SELECT * FROM {name}"))


def test_transactions_into_a_partitioned_and_bucketed_table(hive: HiveServers, session: Hive) -> None:
    """Dynamic partitions, new ones too, two committed transactions, one given up."""
    session.sql(
        "CREATE TABLE measured (id INT, v STRING) PARTITIONED BY (p STRING) CLUSTERED BY (id) INTO 2 BUCKETS "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    session.sql("INSERT INTO measured PARTITION (p='old') VALUES (0, 'hive')")
    with Connection("measured", store=hive.url) as stream:
        stream.begin_transaction()
        stream.write([{"id": 1, "v": "a", "p": "old"}, {"id": 2, "v": "b", "p": "new"}])
        assert session.sql("SELECT count(*) FROM measured") == [(1,)]
        stream.commit()
        assert session.sql("SELECT count(*) FROM measured") == [(3,)]
        stream.begin_transaction()
        stream.write([{"id": 99, "v": "never", "p": "old"}])
        stream.abort()
        stream.begin_transaction()
        stream.write([{"id": 3, "v": "c", "p": "new"}])
        stream.commit()
        assert len(_rows(session, "measured")) == 4
    rows = [(0, "hive", "old"), (1, "a", "old"), (2, "b", "new"), (3, "c", "new")]
    assert _rows(session, "measured") == rows
    session.sql("UPDATE measured SET v = 'changed' WHERE id = 2")
    session.sql("ALTER TABLE measured PARTITION (p='old') COMPACT 'major' AND WAIT")
    rows[2] = (2, "changed", "new")
    assert _rows(session, "measured") == rows
    assert session.sql("SELECT count(*) FROM measured WHERE p = 'old'") == [(2,)]
    with Connection("measured", store=hive.url, partition={"p": "old"}) as stream:
        stream.begin_transaction()
        stream.write([{"id": 4, "v": "d"}])
        stream.commit()
    assert _rows(session, "measured") == sorted([*rows, (4, "d", "old")])
    store = MetastoreStore(hive.url)
    assert [row for row in store.show_transactions() if row.state == "OPEN"] == []
    assert store.show_locks() == ()
    assert len(store.valid_write_ids(store.valid_txns(), [TableName("default", "measured")])) == 1
    store.close()


def test_lines_into_an_insert_only_table(hive: HiveServers, session: Hive, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE noted (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
        "'transactional_properties'='insert_only')"
    )
    lines = tmp_path / "lines.json"
    lines.write_text('{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["ingest", "noted", str(lines), "--store", hive.url])
    assert done.exit_code == 0, done.output
    session.sql("INSERT INTO noted VALUES (3, 'z')")
    assert _rows(session, "noted") == [(1, "x"), (2, "y"), (3, "z")]
    assert session.sql("SELECT count(*) FROM noted") == [(3,)]
