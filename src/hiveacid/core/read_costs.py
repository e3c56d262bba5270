"""Costs of reading the rows that a statement changes.

The driver reads them, tasks in Python on executors, or a job: whoever needs the least time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Bytes of files in a second, by one processor: an UPDATE of 1 % of 3 million rows with 23 columns (200 MB).
_ARROW_RATE, _JOB_RATE = 85 << 20, 21 << 20
_JOB_START = 0.5  # seconds that a job takes, however little it reads
# A remote file system answers after some time, whoever asks. A small file takes so many requests: length and bytes of its tail,
# of the file and of delete events.
_WAIT = 6 * 0.02
_MOST = 16  # times ``max_bytes``, which the driver never exceeds


class ReadBy(StrEnum):
    """Reader of the rows that a statement changes."""

    DRIVER = "driver"
    EXECUTORS = "executors"
    JOB = "job"


@dataclass(frozen=True)
class ReadSize:
    """Number of files, and the bytes that have to be read of them."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Readers:
    """Limits of what the driver reads, and facts of those who read the rest.

    The driver has processors, too, and Arrow decodes ORC four times as fast as Spark on each of them. A job has those of all
    executors, but takes time to begin. Bytes are those to be read, not those of the table.

    ``max_files``, ``max_bytes``: what the driver always reads itself (0 bytes: nothing). ``threads``: of the driver.
    ``cores``: processors of a job; 0 if they are the driver's own, as with a local master. ``executors``: tasks in
    Python may read. ``remote_files``: that the driver reads at the same time; 0 if files are local.
    """

    max_files: int
    max_bytes: int
    threads: int
    cores: int
    executors: bool = False
    remote_files: int = 0

    @property
    def others(self) -> ReadBy:
        """Return who reads what the driver does not."""
        return ReadBy.EXECUTORS if self.executors and self.max_bytes else ReadBy.JOB

    def choose(self, size: ReadSize) -> ReadBy:
        """Return who reads so much in the least time."""
        if not self.max_bytes or size.files > self.max_files or size.bytes > self.max_bytes * _MOST:
            return self.others
        waits = size.files * _WAIT if self.remote_files else 0.0
        in_driver = waits / max(1, self.remote_files)
        if not self.cores or (size.bytes <= self.max_bytes and in_driver <= _JOB_START):
            return ReadBy.DRIVER
        in_driver += size.bytes / (self.threads * _ARROW_RATE)
        rate = _ARROW_RATE if self.executors else _JOB_RATE
        by_others = _JOB_START + (waits + size.bytes / rate) / self.cores
        return ReadBy.DRIVER if in_driver <= by_others else self.others


def column_bytes(rows: int, on_disk: int | None, file: int) -> int:
    """Return what it takes to read a column of a file, in bytes; at least one for each row, as every value is decoded.

    ``on_disk``: bytes of its streams, by the footer. None if unknown: then no more than the whole ``file``.
    """
    return max(rows, file if on_disk is None else min(on_disk, file))
