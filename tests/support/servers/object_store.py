"""An S3 store in a thread of the tests (moto's server): buckets, and the requests that were made."""

from __future__ import annotations

import logging
import socket
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hiveacid.storage.file_system_routing import AnyFileSystem, open_arrow
from support.servers.hadoop_jars import s3a_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHY_NOT = None if find_spec("moto") and find_spec("flask_cors") else "moto's server is not installed"


def why_no_s3a() -> str | None:
    """Return why Spark cannot reach such a store here, or None."""
    fetch = "the jars of s3a:// were not fetched: python tests/support/servers/hadoop_jars.py"
    return WHY_NOT or (None if s3a_jars() else fetch)


@dataclass
class S3Server:
    """A running store.

    ``requests``: the method and path of each, and whether Spark's side made it, since they were counted. ``uploads``: path
    and length of each body that was sent, and whether by Spark's side.
    """

    endpoint: str
    requests: list[tuple[str, str, bool]] = field(default_factory=list)
    uploads: list[tuple[str, int, bool]] = field(default_factory=list)
    away: threading.Event = field(default_factory=threading.Event)
    """While it is set, requests get no answer: the connection is closed."""

    @property
    def settings(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "access",
            "fs.s3a.secret.key": "not-a-secret",
        }

    def file_system(self) -> AnyFileSystem:
        """Return a file system that reaches this store."""
        return AnyFileSystem(lambda place: open_arrow(place, self.settings.get))

    def make_bucket(self, name: str) -> str:
        """Make a bucket; return its URI."""
        from pyarrow import fs  # noqa: PLC0415

        options = {"endpoint_override": self.endpoint, "region": "us-east-1", "allow_bucket_creation": True}
        fs.S3FileSystem(access_key="access", secret_key="not-a-secret", **options).create_dir(name)  # noqa: S106
        return f"s3a://{name}"

    def changes_below(self, path: str) -> int:
        """Return how many requests changed something below ``bucket/path`` since they were counted."""
        return sum(
            method in ("PUT", "POST", "DELETE") and where.startswith(f"/{path}")
            for method, where, _ in list(self.requests)
        )

    def counted(self, *, ours: bool = False) -> Counter[str]:
        """Return how many requests of each method were made since the last call; ``ours``: not by Spark's side."""
        made, self.requests[:] = list(self.requests), []
        return Counter(method for method, _, by_spark in made if not (ours and by_spark))


@contextmanager
def reached_by(spark: SparkSession, server: S3Server) -> Iterator[S3Server]:
    """Let a session reach the store for a while."""
    for name, value in server.settings.items():
        spark.conf.set(name, value)
    try:
        yield server
    finally:
        for name in server.settings:
            spark.conf.unset(name)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a store of one's own; it is empty."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    made: list[tuple[str, str, bool]] = []
    uploads: list[tuple[str, int, bool]] = []
    away = threading.Event()

    def counting(environ: dict[str, Any], start: Any) -> Any:
        if away.is_set():
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        by_spark = environ.get("HTTP_USER_AGENT", "").startswith("Hadoop")
        made.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], by_spark))
        if length := int(environ.get("CONTENT_LENGTH") or 0):
            uploads.append((environ["PATH_INFO"], length, by_spark))
        return app(environ, start)

    server = make_server("127.0.0.1", 0, counting, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # moto keeps the objects of all stores of a process in one place
    reset = urllib.request.Request(f"http://127.0.0.1:{server.port}/moto-api/reset", method="POST")
    with urllib.request.urlopen(reset, timeout=10):  # noqa: S310 - our own server
        made.clear()
    try:
        yield S3Server(f"http://127.0.0.1:{server.port}", made, uploads, away)
    finally:
        server.shutdown()
        thread.join()
