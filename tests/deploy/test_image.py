"""The image of examples/deploy, built by buildah, and what its compose file starts: make image.

No image is pulled. mmdebstrap makes ``debian:bookworm-slim`` of Debian's packages, and PostgreSQL is a server of this
machine. A container is a chroot (buildah's isolation of that name): that needs neither a daemon nor cgroups.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hiveacid.serve.authentication import hash_line
from support.servers.absent import skip_without
from support.servers.certificates import Keys, make_keys
from support.servers.databases import PASSWORD, PostgresServer, free_port
from support.servers.hs2_process import JARS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples/deploy"
PATIENCE = 1200.0  # seconds for a step that fetches packages
PORTS = ("10000", "9101", "9100", "8765")
IMAGE_USER = 1000
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


def why_not() -> str | None:
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        return f"not installed: {' '.join(missing)} (Debian: apt-get install {' '.join(missing)})"
    return (
        PostgresServer.why_not()
        if os.geteuid() == 0
        else "files have to be given to the image's user: needs root"
    )


@dataclass(frozen=True)
class Buildah:
    """buildah with images and containers of its own, below ``home``."""

    home: Path

    def command(self, *words: object) -> list[str]:
        return [
            "buildah",
            "--root",
            str(self.home / "images"),
            "--runroot",
            str(self.home / "run"),
            *map(str, words),
        ]

    def run(self, *words: object) -> str:
        """Run a command; fail with its output if it fails."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def build(self, name: str, file: Path, context: Path, *options: str) -> None:
        self.run(
            "bud",
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--pull-never",
            *options,
            "-t",
            name,
            "-f",
            file,
            context,
        )


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Build the image ``hiveacid`` by examples/deploy/Dockerfile, with a wheel of this tree."""
    skip_without(why_not())
    home = tmp_path_factory.mktemp("image")
    buildah = Buildah(home)
    try:
        base, context = home / "base", home / "context"
        base.mkdir()
        said = ["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", base / "debian.tar"]
        subprocess.run(said, check=True, timeout=PATIENCE)
        (base / "Dockerfile").write_text("FROM scratch\nADD debian.tar /\n", encoding="utf-8")
        buildah.build("docker.io/library/debian:bookworm-slim", base / "Dockerfile", base)
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*wheel, "-w", context / "dist", ROOT], check=True, timeout=PATIENCE)
        # pip inside fetches as pip here does: with its cache, and its authorities.
        cache = subprocess.check_output([sys.executable, "-m", "pip", "cache", "dir"], text=True).strip()
        (home / "pip.conf").write_text(
            "[global]\ncert = /run/authorities.pem\ncache-dir = /cache\n", encoding="utf-8"
        )
        mounts = (
            f"{AUTHORITIES}:/run/authorities.pem:ro",
            f"{home}/pip.conf:/etc/pip.conf:ro",
            f"{cache}:/cache",
        )
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        buildah.build("hiveacid", DEPLOY / "Dockerfile", context, *volumes)
        yield buildah
    finally:
        buildah.run("rm", "--all")
        buildah.run("rmi", "--all", "--force")
        shutil.rmtree(home, ignore_errors=True)


@dataclass
class Stack:
    """The services of the compose file, with other ports, and the store's address instead of the service ``store``."""

    buildah: Buildah
    home: Path
    store: str
    ports: dict[str, int] = field(default_factory=lambda: {port: free_port() for port in PORTS})

    def __post_init__(self) -> None:
        """Read the compose file, and make its volumes."""
        text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
        for port, other in self.ports.items():
            text = text.replace(port, str(other))
        text = re.sub(r"\$\{STORE_PASSWORD:\?[^}]*\}", PASSWORD, text).replace(
            "${HOST_NAME:-localhost}", "localhost"
        )
        self.compose: dict[str, Any] = yaml.safe_load(text)
        self.volumes = {name: self.home / name for name in self.compose["volumes"]}
        for directory in self.volumes.values():
            directory.mkdir()
            os.chown(directory, IMAGE_USER, IMAGE_USER)

    def words(self, service: str) -> tuple[str, list[str]]:
        """Make a container of a service; return it, and the command that runs something in it."""
        told = self.compose["services"][service]
        container = self.buildah.run("from", "--pull-never", told["image"]).strip()
        # Spark looks its host's name up. tini is not the first process here.
        options = [
            "--isolation",
            "chroot",
            "--network",
            "host",
            "--hostname",
            "localhost",
            "--env",
            "TINI_SUBREAPER=1",
        ]
        for name, value in (told["environment"] | {"HIVEACID_STORE": self.store}).items():
            options += ["--env", f"{name}={value}"]
        for volume in told["volumes"]:
            name, _, place = volume.partition(":")
            options += ["--volume", f"{self.volumes[name]}:{place}"]
        for name in told.get("secrets", ()):
            options += [
                "--volume",
                f"{self.home / self.compose['secrets'][name]['file']}:/run/secrets/{name}:ro",
            ]
        return container, self.buildah.command("run", *options, container, "--")

    @contextmanager
    def up(self, service: str) -> Iterator[Path]:
        """Start a service, wait until its health check succeeds, yield its log; stop it as `docker stop` does."""
        told = self.compose["services"][service]
        container, inside = self.words(service)
        entry = json.loads(self.buildah.run("inspect", "--type", "container", container))["OCIv1"]["config"][
            "Entrypoint"
        ]
        log = self.home / f"{service}.log"
        with log.open("wb") as output:
            process = subprocess.Popen([*inside, *entry, *told["command"]], stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + PATIENCE
            while not self._is_ready(service, inside, log):
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(1)
            yield log
        finally:
            children = _descendants(process.pid)
            for child in [child for child, name in children if name == "tini"]:
                os.kill(child, signal.SIGTERM)
            try:
                process.wait(300)
            finally:
                for pid in (process.pid, *(child for child, _ in children)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
        assert process.returncode == 0, log.read_text(encoding="utf-8")

    def _is_ready(self, service: str, inside: list[str], log: Path) -> bool:
        check = self.compose["services"][service].get("healthcheck")
        if check is None:
            return f":{self.ports['8765']}" in log.read_text(encoding="utf-8")
        kind, *words = check["test"]
        assert kind == "CMD"
        return (
            subprocess.run([*inside, *words], capture_output=True, timeout=PATIENCE, check=False).returncode
            == 0
        )


def _descendants(pid: int) -> list[tuple[int, str]]:
    """Return the processes below one, with their names."""
    found = []
    with suppress(FileNotFoundError):  # one that has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():  # buildah starts processes in any of its threads
            for child in (thread / "children").read_text(encoding="utf-8").split():
                name = Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
                found += [(int(child), name), *_descendants(int(child))]
    return found


def beeline(stack: Stack, trusted: Path, statements: str) -> str:
    """Run statements as the user ann; return what beeline shows."""
    script = stack.home / "script.sql"
    script.write_text(statements, encoding="utf-8")
    url = f"jdbc:hive2://localhost:{stack.ports['10000']}/default;ssl=true;sslTrustStore={trusted};trustStorePassword=trusted"
    done = subprocess.run(
        ["java", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine", "-u", url, "-n", "ann", "-p", "tea",
         "--outputformat=csv2", "--silent=true", "-f", script],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_secrets(home: Path) -> tuple[Keys, Path]:
    """Write the files that the first lines of the compose file make; return the keys and a Java store of the certificate."""
    keys = make_keys(home, "certificate")
    keys.secret.rename(home / "key.pem")
    (home / "users").write_text(hash_line("ann", "tea") + "\n", encoding="utf-8")
    for name in ("users", "key.pem"):
        (home / name).chmod(0o600)
        os.chown(home / name, IMAGE_USER, IMAGE_USER)
    trusted = home / "trusted.jks"
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "hiveacid", "-file", keys.certificate, "-keystore", trusted,
         "-storepass", "trusted"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return keys, trusted


def test_the_services_of_the_compose_file_answer_beeline_compact_and_show_pages(
    buildah: Buildah, tmp_path: Path
) -> None:
    keys, trusted = write_secrets(tmp_path)
    page = (ROOT / "examples/beeline.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(sql|text)\n(.*?)```", page, re.DOTALL))
    with ExitStack() as running:
        server = PostgresServer()
        running.callback(server.remove)
        server.start()
        server.make_database("hiveacid")
        stack = Stack(buildah, tmp_path, f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/hiveacid")
        running.enter_context(stack.up("serve"))
        services = running.enter_context(stack.up("services"))
        running.enter_context(stack.up("web"))

        shown = beeline(stack, trusted, blocks["sql"])
        assert f"item,qty\n{blocks['text']}" in shown
        # the server runs no compactions: the other process does, on the same files
        shown = beeline(
            stack,
            trusted,
            "ALTER TABLE sales COMPACT 'major' AND WAIT;\nSHOW COMPACTIONS;\nSELECT * FROM sales;",
        )
        assert "succeeded" in shown
        assert "1,tea,3" in shown
        assert any(path.name.startswith("base_") for path in stack.volumes["warehouse"].rglob("base_*"))
        assert "default.sales" in services.read_text(encoding="utf-8")

        request = urllib.request.Request(f"https://localhost:{stack.ports['8765']}/tables/default/sales.json")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"ann:tea").decode())
        trusting = ssl.create_default_context(cafile=keys.certificate)
        with urllib.request.urlopen(request, context=trusting, timeout=60) as answer:  # noqa: S310
            assert '"sales"' in answer.read().decode()
