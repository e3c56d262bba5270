"""Files on local disks without Hadoop's checksum files beside them, which nobody reads once ours are published.

Each of them costs a process: Hadoop sets a new file's mode by the command chmod where its native library is not loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hiveacid.storage.paths import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Hadoop has one local file system for all of a process; who comes first takes the checksums away, who is last gives
# them back. What somebody else writes meanwhile lacks them, too.
_writers: set[object] = set()
_lock = threading.Lock()
_LOCAL = "file:///"


@contextmanager
def without_checksums(frame: DataFrame, directory: str) -> Iterator[None]:
    """Write no checksum files in a block that writes a frame below a local directory; elsewhere there are none.

    Does nothing on Spark Connect, nor on executors of other processes.
    """
    session: Any = frame.sparkSession
    if not is_local(directory) or not hasattr(session, "_jsc"):
        yield
        return
    conf = session._jsc.hadoopConfiguration()  # noqa: SLF001
    me = object()
    files = session._jvm.org.apache.hadoop.fs.Path(_LOCAL).getFileSystem(conf)  # noqa: SLF001
    try:
        with _lock:
            _writers.add(me)
            files.setWriteChecksum(False)
        yield
    finally:
        with _lock:
            _writers.discard(me)
            if not _writers:
                files.setWriteChecksum(True)
