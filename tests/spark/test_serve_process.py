"""The process of ``hiveacid serve`` with a JVM that dies or hangs, and at a port in use."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from support.hs2_client import PATIENCE, CallError, Hs2Client


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server process on an empty warehouse until the block ends."""
    (directory / "wh").mkdir()
    command = [sys.executable, "-m", "hiveacid", "serve", "-w", str(directory / "wh"), "--master", "local[1]"]
    process = subprocess.Popen(
        [*command, "--conf", "spark.driver.memory=1g", "--grace", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def children(parent: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except FileNotFoundError:
        return []


def ports(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Return the ports of the server and of its probes, once it serves."""
    assert process.stderr is not None
    probes = next(line for line in process.stderr if "/health" in line)
    serves = next(line for line in process.stderr if "serving on" in line)
    return int(serves.split(":")[-1].split()[0]), int(probes.split("/health")[0].split(":")[-1])


def status(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    found = connection.getresponse().status
    connection.close()
    return found


def test_a_server_whose_jvm_died_ends_with_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--health-port", "0") as process:
        port, probes = ports(process)
        with Hs2Client(port) as client:
            assert client.run("SELECT 1") == [(1,)]
            assert [status(probes, path) for path in ("/live", "/ready")] == [200, 200]
            for child in children(process.pid):
                os.kill(child, signal.SIGKILL)
            assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "the JVM has ended" in process.stderr.read()


@pytest.mark.exhaustive("unit/spark/session/test_jvm_process.py has silence; death stays")
def test_a_server_whose_jvm_hangs_is_not_ready_and_ends_on_a_signal(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--health-port", "0") as process:
        _, probes = ports(process)
        for child in children(process.pid):
            os.kill(child, signal.SIGSTOP)
        end = time.monotonic() + PATIENCE
        while status(probes, "/ready") == 200:
            assert time.monotonic() < end
            time.sleep(0.5)
        assert status(probes, "/live") == 200  # a long garbage collection is no reason to restart
        hanging = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
        assert hanging
        assert not any(Path(f"/proc/{child}/exe").exists() for child in hanging)


def test_a_port_in_use_is_told_before_spark_starts(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        serving(tmp_path, "--port", str(other.getsockname()[1])) as process,
    ):
        while process.poll() is None:
            assert not children(process.pid), "Spark started"
        assert process.returncode == 1
        assert process.stderr is not None
        assert "cannot listen on port" in process.stderr.read()


def test_a_statement_without_enough_memory_fails_alone(tmp_path: Path) -> None:
    """Spark would end the JVM, and with it the server."""
    with serving(tmp_path, "--health-port", "0") as process:
        port, _ = ports(process)
        with Hs2Client(port) as client, Hs2Client(port) as other:
            with pytest.raises(CallError, match=r"memory|heap"):
                client.run("SELECT repeat(CAST(id AS STRING), 300000) FROM range(0, 4096, 1, 1)")
            assert client.run("SELECT 1") == other.run("SELECT 1") == [(1,)]
        assert process.poll() is None
