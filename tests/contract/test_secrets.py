"""Passwords of stores: in no log, error, name or list of processes; and where else they may come from."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from hiveacid.errors import ConfigError, StoreUnavailableError
from hiveacid.stores.sql.database import has_password, parse_store_url
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT
from support.servers.databases import PASSWORD, Server

SECRET = PASSWORD[:6]
SPELLINGS = (PASSWORD, quote_plus(PASSWORD), SECRET)


@pytest.fixture(scope="module", params=["postgres_server", "mariadb_server", "mysql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    return server.make_database("secrets")


def without_password(url: str) -> str:
    return url.replace(f":{quote_plus(PASSWORD)}", "")


def test_everything_that_is_logged_or_raised(
    server: Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With all loggers at their most talkative: good and bad days, restarts included."""
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for name in ("sqlalchemy.engine", "sqlalchemy.pool", "sqlalchemy.dialects", "psycopg", "pymysql"):
            caplog.set_level(logging.DEBUG, name)
        store = SqlStore(url, txn_timeout=1.0)  # a store that is away is tried until transactions expire
        store.open_txns(CLIENT)
        said += [
            repr(store),
            str(store),
            repr(store._database),
            repr(vars(store)),
            repr(vars(store._database)),
        ]
        server.stop(signal.SIGQUIT)
        store._database.tries = 2
        with pytest.raises(StoreUnavailableError) as gone:
            store.open_txns(CLIENT)
        server.start()
        with pytest.raises(StoreUnavailableError) as refused:
            SqlStore(url.replace(SECRET, f"{SECRET}-wrong"))
        with pytest.raises(ConfigError) as odd:
            SqlStore(url.replace("+", "+nosuch"))
        said += ["".join(traceback.format_exception(one.value)) for one in (gone, refused, odd)]
        store.close()
    assert len(caplog.records) > 20
    said += [logging.Formatter().format(record) for record in caplog.records]
    said += [repr(record.args) for record in caplog.records]
    assert [text for text in said if any(one in text for one in SPELLINGS)] == []
    assert "***" in said[0]


def test_passwords_in_other_places_of_the_url() -> None:
    """Drivers take them as options, too."""
    address = parse_store_url("postgresql+psycopg://u@h/d?password=hu%2Fsh&sslpassword=tell", {})
    assert str(address) == "postgresql+psycopg://u@h/d?password=***&sslpassword=***"
    assert address.masked("hu/sh hu%2Fsh tell") == "*** *** ***"
    assert "hu" not in repr(address)
    assert has_password("mysql+pymysql://u@h/d?passwd=x")
    assert not has_password("postgresql+psycopg://u@h/d")
    assert not has_password("sqlite:////tmp/x")


def test_a_password_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL has none then; one in the URL counts more."""
    bare = without_password(url)
    assert PASSWORD not in bare
    with pytest.raises(StoreUnavailableError):
        SqlStore(bare)
    monkeypatch.setenv("HIVEACID_STORE_PASSWORD", PASSWORD)
    store = SqlStore(bare)
    assert store.valid_txns().high_watermark > 0
    store.close()
    monkeypatch.setenv("HIVEACID_STORE_PASSWORD", "wrong")
    SqlStore(url).close()
    with pytest.raises(StoreUnavailableError):
        SqlStore(bare)


def test_passwords_from_where_the_databases_own_tools_have_them(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PGPASSFILE; MYSQL_PWD."""
    if server.name == "PostgreSQL":
        secret = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
        passfile = tmp_path / "pgpass"
        passfile.write_text(f"127.0.0.1:{server.port}:*:postgres:{secret}\n", encoding="utf-8")
        passfile.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passfile))
    else:
        monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    store = SqlStore(without_password(url))
    assert store.valid_txns().high_watermark > 0
    store.close()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hiveacid", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=300
    )


def open_transactions(listed: str) -> list[int]:
    """Return the ids of what is open; the other tests' transactions have expired, or will."""
    rows = [json.loads(line) for line in listed.splitlines()]
    return [int(row["txnid"]) for row in rows if row["state"] == "OPEN"]


@pytest.mark.exhaustive("the same test on PostgreSQL stays", cases=("mariadb", "mysql"))
def test_the_command_line_takes_no_password(url: str, tmp_path: Path) -> None:
    """Among the arguments everybody could read it; from the environment it works, and is not repeated."""
    warehouse = str(tmp_path / "warehouse")
    for command in (["txn", "list", "-w", warehouse], ["doctor", "-w", warehouse]):
        refused = run(*command, "--store", url)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "HIVEACID_STORE_PASSWORD" in refused.stderr
        assert [one for one in SPELLINGS if one in refused.stderr] == []
    store = SqlStore(url)
    (txn_id,) = store.open_txns(CLIENT)
    store.close()
    listed = run("txn", "list", "-w", warehouse, "-o", "json", HIVEACID_STORE=url)
    assert listed.returncode == 0, listed.stderr
    assert open_transactions(listed.stdout) == [int(txn_id)]
    again = run(
        "txn", "list", "-w", warehouse, "-o", "json", "--store", without_password(url),
        HIVEACID_STORE_PASSWORD=PASSWORD,
    )  # fmt: skip
    assert open_transactions(again.stdout) == [int(txn_id)]
    wrong = run("txn", "list", "-w", warehouse, HIVEACID_STORE=url.replace(SECRET, f"{SECRET}-wrong"))
    assert wrong.returncode == 1
    assert [one for one in SPELLINGS if one in wrong.stderr + wrong.stdout] == []
    assert "***" in wrong.stderr
