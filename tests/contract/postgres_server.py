"""A real PostgreSQL for tests: its own data directory, a free port, gone when the tests are."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PASSWORD = "s3cr3t/p@ss:wörd"  # noqa: S105 - of a server that lives for a test


def binaries() -> Path | None:
    """Return the directory of the newest PostgreSQL server installed, or None."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    found = [str(path) for path in debian] or [path for path in (shutil.which("postgres"),) if path]
    return Path(found[-1]).parent if found else None


def why_not() -> str | None:
    """Return why no server can be started here, or None."""
    if binaries() is None:
        return "no PostgreSQL server is installed (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401, PLC0415 - only whether it is there
    except ImportError:
        return "psycopg is not installed (pip install 'hiveacid[postgres]')"
    return None


class PostgresServer:
    """One server process. ``durable``: whether it waits for the disk, as a real one does."""

    def __init__(self, *, durable: bool = False) -> None:
        found = binaries()
        assert found is not None
        self._bin = found
        self._durable = durable
        self._home = Path(tempfile.mkdtemp(prefix="hiveacid-pg-"))
        self._owner = "postgres" if os.geteuid() == 0 else None
        if self._owner is not None:
            shutil.chown(self._home, self._owner)
        self._data = self._home / "data"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        secret = self._home / "secret"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret),
            "-E", "UTF8", "--locale=C.UTF-8", *(() if durable else ("--no-sync",)),
        )  # fmt: skip

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        """Return the SQLAlchemy URL of a database."""
        from urllib.parse import quote_plus  # noqa: PLC0415 - only here

        return f"postgresql+psycopg://postgres:{quote_plus(password)}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start and wait until it answers."""
        durability = "on" if self._durable else "off"
        self._process = subprocess.Popen(
            [
                str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port),
                "-c", "listen_addresses=127.0.0.1", "-k", str(self._home), "-c", "max_connections=100",
                "-c", f"fsync={durability}", "-c", f"full_page_writes={durability}",
                "-c", "shared_buffers=64MB",
            ],
            stdout=subprocess.DEVNULL, stderr=(self._home / "log").open("ab"), user=self._owner, cwd="/",
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._home / "log").read_text(encoding="utf-8", errors="replace")[-2000:])
            time.sleep(0.05)

    def _answers(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT at once and in order, SIGQUIT as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """Stop and delete everything."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._home, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True, stdout=subprocess.DEVNULL, user=self._owner, cwd="/",
        )  # fmt: skip
