"""A real directory: OpenLDAP's slapd on free ports of the loopback address, for a test."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers.certificates import Keys, make_keys

_PLACES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/usr/bin"
_PATIENCE = 60.0  # seconds, on a machine that is busy
USER_DN = "uid={user},ou=people,dc=example"


def why_not() -> str | None:
    """Return why no directory can run here, None if it can."""
    programs = ("slapd", "slapadd")
    missing = [name for name in programs if not _program(name)]
    return f"{', '.join(missing)} is not installed" if missing else None


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PLACES)


@dataclass(frozen=True)
class Directory:
    """A running directory. ``authority``: the key that certified its key of ``localhost``."""

    plain_port: int
    tls_port: int
    authority: Keys


@contextmanager
def directory(place: Path, users: dict[str, str]) -> Iterator[Directory]:
    """Run a directory with users and their passwords.

    It allows binds with a name and no password (RFC 4513, 5.1.2), as many directories do.
    """
    authority = make_keys(place, "authority", common="authority")
    keys = make_keys(place, "directory", by=authority)
    (place / "data").mkdir()
    configuration = place / "slapd.conf"
    configuration.write_text(
        f"""include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
allow bind_anon_cred bind_anon_dn
TLSCACertificateFile {authority.certificate}
TLSCertificateFile {keys.certificate}
TLSCertificateKeyFile {keys.secret}
database mdb
suffix "dc=example"
rootdn "cn=root,dc=example"
directory {place / "data"}
""",
        encoding="utf-8",
    )
    entries = ["dn: dc=example\nobjectClass: domain\ndc: example\n"]
    entries.append("dn: ou=people,dc=example\nobjectClass: organizationalUnit\nou: people\n")
    for user, password in users.items():
        escaped = "".join(f"\\{ord(letter):02x}" if letter in ',+"\\<>;=#' else letter for letter in user)
        entries.append(
            f"dn: uid={escaped},ou=people,dc=example\nobjectClass: inetOrgPerson\nuid: {user}\ncn: {user}\nsn: {user}\n"
            f"userPassword: {password}\n"
        )
    load = [str(_program("slapadd")), "-f", str(configuration)]
    subprocess.run(load, input="\n".join(entries), text=True, check=True, capture_output=True)
    ports = _free_port(), _free_port()
    urls = f"ldap://127.0.0.1:{ports[0]} ldaps://127.0.0.1:{ports[1]}"
    command = [str(_program("slapd")), "-f", str(configuration), "-h", urls, "-d", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for port in ports:
                _wait_for(process, port)
            yield Directory(*ports, authority)
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _wait_for(process: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the directory does not start") from error
            time.sleep(0.05)
        else:
            return
