"""Write local files without Hadoop's checksum files, which no reader uses after publishing.

Each checksum file costs a process: without its native library, Hadoop sets the mode of a new file by the command chmod.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hiveacid.storage.paths import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Hadoop has one local file system for each process. The first writer turns checksums off, the last one turns them on
# again. Files that other threads write in between lack checksums, too.
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
    writer = object()
    files = session._jvm.org.apache.hadoop.fs.Path(_LOCAL).getFileSystem(conf)  # noqa: SLF001
    try:
        with _lock:
            _writers.add(writer)
            files.setWriteChecksum(False)
        yield
    finally:
        with _lock:
            _writers.discard(writer)
            if not _writers:
                files.setWriteChecksum(True)
