"""A standalone Spark cluster on this machine, for tests and benchmarks: one master, two workers, no process left behind.

Each daemon runs in a session and process group of its own, together with a shell that waits for the end of its standard input. The
test holds the other end of that pipe: when the test closes it, or dies, the shell kills the group. Executors belong to
the group of their worker.

With ``private`` each worker has its own, empty file system mounted over that directory (mount namespaces, Linux, root
only): what its executors write there nobody else sees, as on machines that do not share a disk.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from support.servers.class_archive import java_options

ZONE = "America/New_York"
"""Of the workers' machines: executors inherit it."""
_PATIENCE = 120.0  # seconds until a daemon must have started
_GUARD = '"$@" & read -r _; kill -KILL 0'
_PRIVATE = 'mount -t tmpfs none "$0" && exec "$@"'
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER = re.compile(r"Successfully registered with (master)")


def can_mount() -> bool:
    """Tell whether this process may mount file systems in a namespace of its own."""
    command = ["unshare", "--mount", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@dataclass(frozen=True)
class Cluster:
    """The address that a driver takes as its master, and the sessions and process groups of the workers."""

    address: str
    workers: tuple[int, ...]

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as the loss of its machine does."""
        os.killpg(self.workers[number], signal.SIGKILL)


@contextmanager
def cluster(
    scratch: Path, private: Path | None = None, *, memory: str = "600M", zone: str | None = ZONE
) -> Iterator[Cluster]:
    """Run a master and two workers for the length of the block.

    ``memory``: of each worker. ``zone``: of their machines; None: the zone of this one.
    """
    with ExitStack() as running:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"]
        address, _ = running.enter_context(
            _daemon([*master, "--webui-port", "0"], scratch / "master.log", _MASTER, zone)
        )
        workers = []
        mounted = [] if private is None else ["unshare", "--mount", "sh", "-c", _PRIVATE, str(private)]
        for number in range(2):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            worker += [
                "--cores",
                "1",
                "--memory",
                memory,
                "--work-dir",
                str(scratch / f"work-{number}"),
                address,
            ]
            log = scratch / f"worker-{number}.log"
            workers.append(running.enter_context(_daemon(worker, log, _WORKER, zone, mounted))[1])
        yield Cluster(address, tuple(workers))


@contextmanager
def _daemon(
    words: Sequence[str], log: Path, ready: re.Pattern[str], zone: str | None, before: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Run a daemon for the length of the block; yield what ``ready`` finds in its log, and its process group."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = ["sh", "-c", _GUARD, "sh", *before, str(program), *words]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | ({} if zone is None else {"TZ": zone}),
        start_new_session=True,
    )
    found: list[str] = []
    started = threading.Event()

    def follow() -> None:
        assert process.stdout is not None
        with log.open("w") as out:
            for line in process.stdout:
                out.write(line)
                out.flush()
                match = ready.search(line)
                if match and not found:
                    found.append(match[1])
                    started.set()
        started.set()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        if not started.wait(_PATIENCE) or not found:
            raise RuntimeError(f"{words[0]} does not start:\n{log.read_text()[-2000:]}")
        yield found[0], process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()


def environment() -> dict[str, str]:
    """Return the environment of daemons and drivers: Python workers are the machine's own, which knows no hiveacid."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))
    }
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "192m", "PYSPARK_PYTHON": "python3"}
    return kept | own | dict.fromkeys(("SPARK_DAEMON_JAVA_OPTS", "SPARK_SUBMIT_OPTS"), java_options())
