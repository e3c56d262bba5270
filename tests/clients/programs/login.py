"""A log-in by PyHive or impyla; run by the interpreter of .venv-clients.

With a user and a password it goes over TLS; the authority of the server's certificate is SSL_CERT_FILE's. Without them it
takes the Kerberos ticket of the environment.
"""

from __future__ import annotations

import os
import sys
from typing import Any

CLIENT, TRANSPORT, PORT, *LOGIN = sys.argv[1:]
SERVICE = "hive"
HTTP: dict[str, Any] = {"use_http_transport": True, "http_path": "cliservice"} if TRANSPORT == "http" else {}


def by_password(user: str, password: str) -> Any:
    if CLIENT == "pyhive":
        from pyhive import hive  # noqa: PLC0415

        return hive.connect(
            "localhost", int(PORT), "https", user, auth="BASIC", password=password, check_hostname="true",
            ssl_cert="required",
        )  # fmt: skip
    from impala.dbapi import connect  # noqa: PLC0415

    return connect(
        "localhost", int(PORT), use_ssl=True, ca_cert=os.environ["SSL_CERT_FILE"], verify_cert=True,
        auth_mechanism="LDAP", user=user, password=password, retries=1, **HTTP,
    )  # fmt: skip


def by_ticket() -> Any:
    if CLIENT == "pyhive":
        from pyhive import hive  # noqa: PLC0415

        scheme = "http" if HTTP else None
        return hive.connect("localhost", int(PORT), scheme, auth="KERBEROS", kerberos_service_name=SERVICE)
    from impala.dbapi import connect  # noqa: PLC0415

    return connect(
        "localhost", int(PORT), auth_mechanism="GSSAPI", kerberos_service_name=SERVICE, retries=1, **HTTP
    )


cursor = (by_password(*LOGIN) if LOGIN else by_ticket()).cursor()
cursor.execute("SELECT 41 + 1")
print(cursor.fetchall())  # noqa: T201
