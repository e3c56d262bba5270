"""A metastore that wants Kerberos, with a realm of its own: with each protection, and what is said without a ticket.

HiveServer2 is not asked here; statements are ours.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers

import hiveacid
from hiveacid.core.model import TableName
from hiveacid.errors import StoreError
from hiveacid.ports.transactions import Client
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.transport import SaslTransport
from support.servers.databases import Server
from support.servers.kdc import REALM, Kdc, missing_programs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYERS = {"authentication": 1, "privacy": 4}
PRINCIPAL = f"hive/_HOST@{REALM}"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    pytest.importorskip(
        "gssapi", reason="the package gssapi is not installed: pip install 'hiveacid[kerberos]'"
    )
    if missing := missing_programs():
        pytest.skip(f"no Kerberos server: {', '.join(missing)} of krb5-kdc and krb5-admin-server")
    made = Kdc(tmp_path_factory.mktemp("kdc"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def user(kdc: Kdc) -> Path:
    return kdc.keytab("ann")


@pytest.fixture(
    scope="module",
    params=[
        (VERSIONS[0], "authentication"),
        (VERSIONS[1], "authentication"),
        (VERSIONS[1], "privacy"),
    ],
    ids="-".join,
)
def secured(request: pytest.FixtureRequest, kdc: Kdc, postgres_server: Server) -> Iterator[HiveServers]:
    version, protection = request.param
    if not is_installed(version) or java_home() is None:
        pytest.skip(f"Hive {version} is not installed: make interop-hive fetches it")
    settings = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": protection,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": f"hive/localhost@{REALM}",
        "hive.metastore.kerberos.keytab.file": str(kdc.keytab("hive/localhost")),
    }
    java = [f"-Djava.security.krb5.conf={kdc.place / 'krb5.conf'}"]
    made = HiveServers(version, postgres_server, more=settings, java=java)  # type: ignore[arg-type]
    try:
        made.start_metastore()
        yield made
    finally:
        made.remove()


def test_calls_with_a_ticket_and_without(
    secured: HiveServers, kdc: Kdc, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    place = f"thrift://localhost:{secured.hms_port}"
    url = f"{place}?timeout=60&auth=kerberos&principal={PRINCIPAL}"
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.place}/nobody")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.place / "none.keytab"))
    with pytest.raises(StoreError, match="run kinit"):
        MetastoreStore(url)
    with pytest.raises(StoreError):  # no SASL where the metastore wants it
        MetastoreStore(f"{place}?timeout=5")
    monkeypatch.setenv("KRB5CCNAME", kdc.environment["KRB5CCNAME"])
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(user))
    protection = secured.settings["hadoop.rpc.protection"]
    with socket.create_connection(("localhost", secured.hms_port)) as plain:
        assert SaslTransport(plain, PRINCIPAL, "localhost").layer == LAYERS[protection]
    # Kerberos has no name for the first.
    store = MetastoreStore(url.replace("//localhost", f"//127.0.0.1:{secured.hms_port},localhost"))
    try:
        assert "default" in store.list_databases()
        (txn_id,) = store.open_txns(Client("ann", "localhost", "interop"))
        assert store.allocate_write_ids([txn_id], TableName("default", "t" * 100)) == (1,)
        store.commit_txn(txn_id)
        assert store.txn_state(txn_id) != "open"
    finally:
        store.close()


def test_statements(
    secured: HiveServers, kdc: Kdc, user: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of call of a table's life: definitions, partitions, locks, write ids, conflicts, the queue."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(user))
    url = f"thrift://localhost:{secured.hms_port}?timeout=60&auth=kerberos&principal={PRINCIPAL}"
    acid = hiveacid.connect(spark, store=url)
    acid.sql(
        "CREATE TABLE safe (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO safe PARTITION (p) VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    acid.sql("UPDATE safe SET v = 'u' WHERE id = 2")
    with acid.transaction():
        acid.sql("DELETE FROM safe WHERE id = 3")
        acid.sql("INSERT INTO safe PARTITION (p='z') VALUES (4, 'd')")
        assert any(row.state == "OPEN" for row in acid.sql("SHOW TRANSACTIONS").collect())
    assert acid.sql("SHOW COMPACTIONS").collect() == []
    rows = acid.sql("SELECT id, v, p FROM safe").collect()
    assert sorted(map(tuple, rows)) == [(1, "a", "x"), (2, "u", "x"), (4, "d", "z")]
    acid.sql("DROP TABLE safe")
    acid.close()
