"""Fetch a MySQL server as Debian packages, for tests: python tests/support/servers/mysql_debs.py.

Only Debian's suite ``sid`` has one. Its packages are never installed: with their own C library they are unpacked to a
cache outside the tree (60 MB to fetch, 300 MB there), from the mirror that this machine's apt uses. Safe to repeat.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_PACKAGE = "mysql-server-core"
_PATIENCE = 300  # seconds


def home() -> Path:
    """Return where the unpacked packages are, or go."""
    root = os.environ.get("HIVEACID_MYSQL_HOME") or Path.home() / ".cache" / "hiveacid-mysql"
    return Path(root).expanduser()


def server(root: Path | None = None) -> list[str]:
    """Return the command of the server, by the loader that came with it, or nothing: this machine's C library may be older."""
    root = root or home()
    loaders = sorted(root.glob("usr/lib/*/ld-linux*.so.*"))
    program = root / "usr" / "sbin" / "mysqld"
    if not loaders or not program.exists():
        return []
    return [str(loaders[0]), "--library-path", str(loaders[0].parent), str(program)]


def fetch() -> None:
    """Fetch and unpack, all or nothing, unless it is there."""
    if server():
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise SystemExit("this machine has no apt-get")
    home().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home().parent) as scratch:
        there = Path(scratch)
        apt = _private_apt(there)
        _run(*apt, "update")
        # For apt nothing is installed here, so that it brings every library.
        _run(*apt, "install", "--yes", "--download-only", "--no-install-recommends", _PACKAGE)
        for package in sorted((there / "archives").glob("*.deb")):
            if not package.name.startswith(("perl", "libperl")):
                _run("dpkg", "-x", str(package), str(there / "root"))
        _run(*server(there / "root"), "--version")
        shutil.rmtree(home(), ignore_errors=True)
        (there / "root").rename(home())


def _private_apt(there: Path) -> list[str]:
    """Return apt-get with a state of its own in ``there``, and the suite sid of the machine's mirror."""
    for name in ("lists/partial", "archives/partial"):
        (there / name).mkdir(parents=True)
    (there / "status").touch()
    sources = _run("apt-get", "indextargets", "--format", "$(REPO_URI)")
    mirror = next((line for line in sources.splitlines() if re.search("/debian/?$", line)), None)
    if mirror is None:
        raise SystemExit("apt-get knows no mirror of Debian")
    (there / "sources.list").write_text(f"deb {mirror} sid main\n", encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": there / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": there,
        "Dir::State::lists": there / "lists",
        "Dir::State::status": there / "status",
        "Dir::Cache": there,
        "Dir::Log": there,
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        "Debug::NoLocking": "1",
        "Acquire::Languages": "none",
    }
    return [
        "apt-get",
        "-qq",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{command[0]} took longer than {_PATIENCE} seconds") from None
    except OSError as error:
        raise SystemExit(str(error)) from None
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        fetch()
    except SystemExit as error:
        sys.stderr.write(f"== no MySQL server: {error}\n")  # its tests are skipped and say so
