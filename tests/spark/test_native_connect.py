"""Plain clients of a Spark Connect server whose sessions are native."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.servers.native_connect import PATIENCE, native_connect_server, start_client

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession


def test_two_plain_clients_at_once(native: NativeSession) -> None:
    """Each statement runs once; databases, views and settings are those of the client."""
    native.sql("CREATE TABLE shared (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    with native_connect_server(native) as address:
        clients = [start_client(address, name) for name in ("ann", "bob")]
        try:
            for client in clients:
                output, _ = client.communicate(timeout=PATIENCE)
                assert client.returncode == 0, output[-4000:]
        finally:
            for client in clients:
                client.kill()
    rows = sorted((row["v"], row["id"]) for row in native.sql("SELECT * FROM shared").collect())
    assert rows == [(name, number) for name in ("ann", "bob") for number in (1, 3, 13)]
    native.sql("DROP DATABASE ann CASCADE")
    native.sql("DROP DATABASE bob CASCADE")
