"""A limit for the memory of a test process: beyond it the process shows where its threads are, and ends.

The kernel would end it without a word, or one of its neighbours.
"""

from __future__ import annotations

import faulthandler
import os
import threading
from pathlib import Path
from typing import TextIO

BYTES = 6 << 30  # four times what a process of `make test-all` holds at its end
_STATM = Path("/proc/self/statm")


def watch_memory(limit: int = BYTES, seconds: float = 1) -> None:
    """Look at this process's memory again and again, in a thread of its own; do nothing where there is no /proc."""
    if _STATM.exists():
        stderr = os.fdopen(
            os.dup(2), "w", encoding="utf-8"
        )  # pytest later puts a file of its own in its place
        threading.Thread(
            target=_watch, args=(stderr, limit, seconds), name="memory limit", daemon=True
        ).start()


def resident_bytes() -> int:
    """Return how much memory this process holds, without what was written to swap."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _watch(stderr: TextIO, limit: int, seconds: float) -> None:
    never = threading.Event()
    while (held := resident_bytes()) <= limit:
        never.wait(seconds)
    stderr.write(f"\n{held >> 20} MB in process {os.getpid()}: more than tests may hold. Its threads:\n")
    stderr.flush()
    faulthandler.dump_traceback(stderr, all_threads=True)
    os._exit(1)
