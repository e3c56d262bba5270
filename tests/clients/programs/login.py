"""A log-in with a password over TLS by PyHive or impyla; run by the interpreter of .venv-clients.

The authority of the server's certificate is SSL_CERT_FILE's.
"""

from __future__ import annotations

import os
import sys
from typing import Any

CLIENT, TRANSPORT, PORT, USER, PASSWORD = sys.argv[1:]


def connection() -> Any:
    if CLIENT == "pyhive":
        from pyhive import hive  # noqa: PLC0415

        return hive.connect(
            "localhost", int(PORT), "https", USER, auth="BASIC", password=PASSWORD, check_hostname="true",
            ssl_cert="required",
        )  # fmt: skip
    from impala.dbapi import connect  # noqa: PLC0415

    more = {"use_http_transport": True, "http_path": "cliservice"} if TRANSPORT == "http" else {}
    return connect(
        "localhost", int(PORT), use_ssl=True, ca_cert=os.environ["SSL_CERT_FILE"], verify_cert=True,
        auth_mechanism="LDAP", user=USER, password=PASSWORD, retries=1, **more,
    )  # fmt: skip


cursor = connection().cursor()
cursor.execute("SELECT 41 + 1")
print(cursor.fetchall())  # noqa: T201
