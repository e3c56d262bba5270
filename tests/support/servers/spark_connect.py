"""A Spark Connect server of its own process: what a session without a JVM talks to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

import hiveacid
from support.servers.class_archive import java_options
from support.servers.databases import free_port

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": java_options(),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}
_PATIENCE = 300.0  # seconds until it must answer


@contextmanager
def connect_server(scratch: Path) -> Iterator[str]:
    """Run a server on a free port for the length of the block; yield its address (``sc://…``)."""
    port = free_port()
    settings = _SETTINGS | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(program), "--master", "local[2]", "--driver-memory", "2g", *options, "--class"]
    command += ["org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = scratch / "connect-server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=scratch, env=_environment(), stdout=out, stderr=out, start_new_session=True
        )
    try:
        _wait(process, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    """Let the server's Python workers find what this process finds (``format("hiveacid")`` runs in them)."""
    source = str(Path(hiveacid.__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    return kept | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the Connect server does not start:\n{log.read_text(errors='replace')[-2000:]}")
