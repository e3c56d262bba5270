"""A Kerberos server of MIT's (Debian: krb5-kdc, krb5-admin-server), a process on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from support.servers.databases import free_port

REALM = "INTEROP.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")


def missing_programs() -> list[str]:
    return [name for name in _PROGRAMS if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Kdc:
    """A realm with its server; ``environment`` is what programs need to know to use it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port = free_port()
        (place / "krb5.conf").write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_canonicalize_hostname = false\n"
            f"rdns = false\nudp_preference_limit = 1\n[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{self.port}\n}}\n",
            encoding="utf-8",
        )
        (place / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{self.port}\nkdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n{REALM} = {{\ndatabase_name = {place}/principal\nkey_stash_file = {place}/stash\n"
            "supported_enctypes = aes256-cts:normal aes128-cts:normal\n}\n",
            encoding="utf-8",
        )
        self.environment = {
            "KRB5_CONFIG": str(place / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(place / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{place}/tickets",
        }
        self._run("kdb5_util", "create", "-s", "-P", "interop", "-r", REALM)
        self._process = subprocess.Popen(
            [str(_program("krb5kdc")), "-n", "-r", REALM],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while not self._is_open():
            assert self._process.poll() is None, "krb5kdc did not start"
            assert time.monotonic() < deadline, "krb5kdc takes no connections"
            time.sleep(0.05)

    def keytab(self, principal: str) -> Path:
        """Make a principal; return its keys."""
        path = self.place / f"{principal.replace('/', '_')}.keytab"
        self._run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        return path

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(15)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(_program(program)), *arguments],
            env={**os.environ, **self.environment},
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _is_open(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0
