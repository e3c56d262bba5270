"""Real database servers for tests and measurements: own data directory, free port, gone when one is done.

What is not installed says so (:meth:`Server.why_not`); nothing here needs more than the servers' own programs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from typing import ClassVar
from urllib.parse import quote_plus

from support.servers import mysql_debs

PASSWORD = "s3cr3t/p@ss:wörd"  # noqa: S105 - of a server that lives for a test
_PATIENCE = 300.0  # seconds until a server must have started or stopped


class Server(ABC):
    """One server process. ``durable``: whether it waits for the disk, as a real one does."""

    name: ClassVar[str]
    package: ClassVar[str]
    """What to install on Debian."""
    driver: ClassVar[str]
    """The module that the client needs."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.home = Path(tempfile.mkdtemp(prefix=f"hiveacid-{self.name.lower()}-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        owner = self._owner()
        if owner is not None:
            shutil.chown(self.home, owner)
        self._prepare()

    @classmethod
    def why_not(cls) -> str | None:
        """Return why none can be started here, or None."""
        if cls._program() is None:
            return f"no {cls.name} server is installed (Debian: apt-get install {cls.package})"
        if find_spec(cls.driver) is None:
            return f"{cls.driver} is not installed (pip install 'hiveacid[all]')"
        return None

    @classmethod
    @abstractmethod
    def _program(cls) -> Path | None:
        """Return the newest server program, or None."""

    @abstractmethod
    def _owner(self) -> str | None:
        """Return the user to run as, where we are root: servers refuse root."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make the data directory."""

    @abstractmethod
    def _arguments(self) -> list[str]:
        """Return the server's command line without the program."""

    @abstractmethod
    def _answers(self) -> bool:
        """Tell whether it takes connections."""

    @abstractmethod
    def url(self, database: str = "", password: str = PASSWORD, port: int | None = None) -> str:
        """Return the SQLAlchemy URL of a database (default: one that is there)."""

    @abstractmethod
    def make_database(self, name: str) -> str:
        """Make an empty database and return its URL."""

    def start(self) -> None:
        """Start and wait until it answers."""
        log = self.home / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._program()), *self._arguments()],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._owner(), cwd="/",
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(encoding="utf-8", errors="replace")[-2000:])
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT or SIGTERM in order, SIGQUIT or SIGKILL as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None

    def remove(self) -> None:
        """Stop and delete everything."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self, program: Path, *arguments: str) -> None:
        done = subprocess.run(
            [str(program), *arguments],
            check=False, capture_output=True, encoding="utf-8", errors="replace", user=self._owner(), cwd="/",
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(
                f"{program} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
            )


class PostgresServer(Server):
    """PostgreSQL. Its log is ``home/log``."""

    name = "PostgreSQL"
    package = "postgresql"
    driver = "psycopg"

    @classmethod
    def _program(cls) -> Path | None:
        debian = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4])
        )
        elsewhere = shutil.which("postgres")
        return debian[-1] if debian else Path(elsewhere) if elsewhere else None

    def _owner(self) -> str | None:
        return "postgres" if os.geteuid() == 0 else None

    def _tool(self, name: str) -> Path:
        program = self._program()
        assert program is not None
        return program.with_name(name)

    def _prepare(self) -> None:
        secret = self.home / "secret"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        self._run(
            self._tool("initdb"), "-D", str(self.home / "data"), "-U", "postgres", "-A", "scram-sha-256",
            "--pwfile", str(secret), "-E", "UTF8", "--locale=C.UTF-8",
            *(() if self.durable else ("--no-sync",)),
        )  # fmt: skip

    def _arguments(self) -> list[str]:
        on = "on" if self.durable else "off"
        return [
            "-D", str(self.home / "data"), "-p", str(self.port), "-k", str(self.home),
            "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100", "-c", "shared_buffers=64MB",
            "-c", f"fsync={on}", "-c", f"full_page_writes={on}",
        ]  # fmt: skip

    def _answers(self) -> bool:
        command = [str(self._tool("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def url(self, database: str = "", password: str = PASSWORD, port: int | None = None) -> str:
        """Return the SQLAlchemy URL of a database (default: one that is there)."""
        secret = quote_plus(password)
        place = f"127.0.0.1:{port or self.port}/{database or 'postgres'}"
        return f"postgresql+psycopg://postgres:{secret}@{place}"

    def make_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", password=PASSWORD, autocommit=True
        ) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)


class MariadbServer(Server):
    """MariaDB. Its log is ``home/log``; ``home/first.sql`` runs whenever it starts."""

    name = "MariaDB"
    package = "mariadb-server-core mariadb-client-core"
    driver = "pymysql"

    @classmethod
    def _program(cls) -> Path | None:
        found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        return Path(found) if found and shutil.which("mariadb-install-db") else None

    def _owner(self) -> str | None:
        return "nobody" if os.geteuid() == 0 else None

    def _prepare(self) -> None:
        first = self.home / "first.sql"
        statements = (
            f"CREATE USER IF NOT EXISTS hiveacid@'%' IDENTIFIED BY PASSWORD '{_native_hash(PASSWORD)}'",
            "GRANT ALL ON *.* TO hiveacid@'%' WITH GRANT OPTION",
            "DROP USER IF EXISTS root@'127.0.0.1', root@'::1'",
            "CREATE DATABASE IF NOT EXISTS hiveacid",
        )
        first.write_text("".join(f"{one};\n" for one in statements), encoding="utf-8")
        first.chmod(0o644)
        self._run(
            Path(shutil.which("mariadb-install-db") or ""), "--no-defaults", f"--datadir={self.home}/data",
            self._temporary(), "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
        )  # fmt: skip

    def _temporary(self) -> str:
        """Return the option for its temporary files: a server that starts deletes others' in a shared directory."""
        return f"--tmpdir={self.home}"

    def _arguments(self) -> list[str]:
        return [
            "--no-defaults", f"--datadir={self.home}/data", f"--port={self.port}", "--bind-address=127.0.0.1",
            f"--socket={self.home}/socket", f"--pid-file={self.home}/pid", f"--init-file={self.home}/first.sql",
            self._temporary(), "--skip-name-resolve", "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M",
            # 2: written at each commit, so that killing the server loses nothing; not waiting for the disk.
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 2}",
            *(() if self.durable else ("--innodb-flush-method=nosync", "--sync-frm=OFF")),
        ]  # fmt: skip

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as wire:
                return bool(wire.recv(1))  # the server speaks first
        except OSError:
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop: SIGTERM in order (SIGINT counts as that), SIGKILL or SIGQUIT as a crash."""
        kinds = {signal.SIGINT: signal.SIGTERM, signal.SIGQUIT: signal.SIGKILL}
        super().stop(kinds.get(how, how))

    def url(self, database: str = "", password: str = PASSWORD, port: int | None = None) -> str:
        """Return the SQLAlchemy URL of a database (default: one that is there)."""
        secret = quote_plus(password)
        return f"mysql+pymysql://hiveacid:{secret}@127.0.0.1:{port or self.port}/{database or 'hiveacid'}"

    def make_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        import pymysql  # noqa: PLC0415 - only where there is a server

        with (
            pymysql.connect(
                host="127.0.0.1", port=self.port, user="hiveacid", password=PASSWORD.encode()
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE `{name}`")
        return self.url(name)


class MysqlServer(MariadbServer):
    """MySQL, unpacked by ``mysql_debs``, with a certificate that it makes itself."""

    name = "MySQL"

    @classmethod
    def why_not(cls) -> str | None:
        """Return why none can be started here, or None."""
        return (
            super().why_not()
            if cls._program()
            else "no MySQL server was fetched (tests/support/servers/mysql_debs.py)"
        )

    @classmethod
    def _program(cls) -> Path | None:
        return Path(mysql_debs.server()[0]) if mysql_debs.server() else None

    def _owner(self) -> None:
        return None  # the cache may be closed to others; --user=root below

    def _prepare(self) -> None:
        statements = (
            f"CREATE USER IF NOT EXISTS hiveacid@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT ALL ON *.* TO hiveacid@'%' WITH GRANT OPTION",
            "CREATE DATABASE IF NOT EXISTS hiveacid",
        )
        (self.home / "first.sql").write_text("".join(f"{one};\n" for one in statements), encoding="utf-8")
        program = self._program()
        assert program is not None
        self._run(program, *self._options(), "--initialize-insecure")

    def _options(self) -> list[str]:
        return [
            *mysql_debs.server()[1:], "--no-defaults", f"--basedir={mysql_debs.home() / 'usr'}",
            f"--datadir={self.home}/data", self._temporary(), "--innodb-redo-log-capacity=32M",
            *(("--user=root",) if os.geteuid() == 0 else ()),
        ]  # fmt: skip

    def _arguments(self) -> list[str]:
        return [
            *self._options(), f"--port={self.port}", "--bind-address=127.0.0.1", "--mysqlx=OFF",
            f"--socket={self.home}/socket", f"--pid-file={self.home}/pid", f"--init-file={self.home}/first.sql",
            "--skip-name-resolve", "--innodb-buffer-pool-size=64M", "--secure-file-priv=NULL",
            "--information-schema-stats-expiry=0", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--sql-mode=",
            # As for MariaDB: killing the server loses nothing.
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 2}",
            *(() if self.durable else ("--sync-binlog=0", "--innodb-flush-method=nosync")),
        ]  # fmt: skip


def _native_hash(password: str) -> str:
    """Return what MariaDB keeps of a password: the file that is read at its start has no character set."""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return f"*{hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()}"


def free_port() -> int:
    """Return a port that nobody listens at and that the system gives to no outgoing connection.

    Those it would give (from 32768 on) may be taken until the server listens, or while it is started anew.
    """
    for port in SystemRandom().sample(range(20_000, 32_000), 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port between 20000 and 32000")
