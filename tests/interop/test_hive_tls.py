"""A metastore that speaks TLS: statements of ours, and who is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers

import hiveacid
from hiveacid.core.model import DatabaseDefinition
from hiveacid.errors import StoreError
from hiveacid.stores.hms.store import MetastoreStore
from support.servers.databases import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PASSWORD = "changeit"  # noqa: S105 - of keys that live for a test


def keys(place: Path, name: str) -> tuple[Path, Path]:
    """Make a key of localhost, certified by itself; return the server's store and the certificate."""
    store, certificate = place / f"{name}.jks", place / f"{name}.pem"
    common = ["-alias", name, "-keystore", str(store), "-storepass", _PASSWORD]
    made = ["-keypass", _PASSWORD, "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "SAN=dns:localhost"]
    keytool = str(java_home() / "bin" / "keytool")  # type: ignore[operator]
    for words in (["-genkeypair", *made], ["-exportcert", "-rfc", "-file", str(certificate)]):
        subprocess.run([keytool, *words, *common], check=True, capture_output=True)
    return store, certificate


@pytest.fixture(scope="module", params=VERSIONS)
def secured(
    request: pytest.FixtureRequest, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[HiveServers, Path]]:
    """Return servers whose metastore speaks TLS, and its certificate."""
    if not is_installed(request.param) or java_home() is None:
        pytest.skip(f"Hive {request.param} is not installed: make interop-hive fetches it")
    store, certificate = keys(tmp_path_factory.mktemp("keys"), "server")
    settings = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(store),
        "hive.metastore.keystore.password": _PASSWORD,
    }
    made = HiveServers(request.param, postgres_server, more=settings)  # type: ignore[arg-type]
    try:
        made.start_metastore()
        yield made, certificate
    finally:
        made.remove()


def test_statements(secured: tuple[HiveServers, Path], spark: SparkSession) -> None:
    servers, certificate = secured
    url = f"thrift://localhost:{servers.hms_port}?timeout=60&tls=true&ca={certificate}"
    acid = hiveacid.connect(spark, store=url)
    acid.sql("CREATE TABLE safe (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO safe VALUES (1), (2)")
    acid.sql("DELETE FROM safe WHERE id = 1")
    assert [tuple(row) for row in acid.sql("SELECT id FROM safe").collect()] == [(2,)]
    acid.sql("DROP TABLE safe")
    acid.close()


def test_a_restart(secured: tuple[HiveServers, Path]) -> None:
    """Connections that it ended are not taken for open: what may be sent once only arrives at the new one."""
    servers, certificate = secured
    store = MetastoreStore(f"thrift://localhost:{servers.hms_port}?timeout=60&tls=true&ca={certificate}")
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: store.list_databases(), range(50)))
    servers.restart_metastore()
    store.create_database(DatabaseDefinition("again", f"file://{servers.place}/warehouse/again.db", ""))
    assert "again" in store.list_databases()
    store.close()


def test_who_is_refused(secured: tuple[HiveServers, Path], tmp_path: Path) -> None:
    """A certificate of somebody else, one of another name, and no TLS where the metastore wants it."""
    servers, certificate = secured
    _, others = keys(tmp_path, "other")
    port = servers.hms_port
    for url in (
        f"thrift://localhost:{port}?tls=true&ca={others}",
        f"thrift://127.0.0.1:{port}?tls=true&ca={certificate}",
        f"thrift://localhost:{port}?timeout=5",
    ):
        with pytest.raises(StoreError):
            MetastoreStore(f"{url}&connect_timeout=5")
