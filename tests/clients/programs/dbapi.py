"""The same steps through PyHive, impyla or SQLAlchemy; run by the interpreter of .venv-clients."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

CLIENT, PORT = sys.argv[1], int(sys.argv[2])
TABLE = f"{CLIENT}_t"


def pyhive_connection() -> Any:
    from pyhive import hive  # noqa: PLC0415

    return hive.connect("127.0.0.1", port=PORT, username="ann")


def impyla_connection() -> Any:
    from impala.dbapi import connect  # noqa: PLC0415

    http = CLIENT == "impyla_http"
    more = {"use_http_transport": True, "http_path": "cliservice"} if http else {}
    return connect("127.0.0.1", PORT, auth_mechanism="PLAIN", user="ann", password="x", **more)  # noqa: S106


def by_cursor(connection: Any) -> None:
    cursor = connection.cursor()

    def run(text: str) -> list[Any]:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []

    run(f"CREATE TABLE {TABLE} (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    run(f"INSERT INTO {TABLE} VALUES (1, 'tea'), (2, NULL)")
    run(f"UPDATE {TABLE} SET v = 'jam' WHERE id = 1")
    run("START TRANSACTION")
    run(f"DELETE FROM {TABLE} WHERE id = 2")
    run("ROLLBACK")
    assert sorted(run(f"SELECT id, v FROM {TABLE}")) == [(1, "jam"), (2, None)]
    assert len(run("SELECT id FROM range(20000)")) == 20000
    try:
        run("SELECT * FROM not_there")
    except Exception as error:  # noqa: BLE001 - each client has its own
        assert "TABLE_OR_VIEW_NOT_FOUND" in str(error)  # noqa: PT017 - see above
    else:
        raise AssertionError("no error")
    connection.close()


def by_sqlalchemy() -> None:
    from sqlalchemy import create_engine, inspect, text  # noqa: PLC0415

    engine = create_engine(f"hive://ann@127.0.0.1:{PORT}/default")
    with engine.connect() as connection:
        connection.execute(
            text(
                f"CREATE TABLE {TABLE} (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
            )
        )
        connection.execute(text(f"INSERT INTO {TABLE} VALUES (1, 'tea')"))
        assert connection.execute(text(f"SELECT id, v FROM {TABLE}")).fetchall() == [(1, "tea")]
    assert [column["name"] for column in inspect(engine).get_columns(TABLE)] == ["id", "v"]


if CLIENT == "sqlalchemy":
    by_sqlalchemy()
else:
    by_cursor(pyhive_connection() if CLIENT == "pyhive" else impyla_connection())
print(version({"pyhive": "PyHive", "sqlalchemy": "SQLAlchemy"}.get(CLIENT, "impyla")))  # noqa: T201
