"""Number of tasks and files of a change, within the 4,096 buckets of Hive.

Each task that writes new rows of a table without buckets writes one bucket, and each file is one bucket of its
directory. Two files of one bucket would hold the same row ids.
"""

from __future__ import annotations

from hiveacid.core.format.acid_columns import MAX_BUCKET

MAX_TASKS = MAX_BUCKET + 1
"""Most tasks that may write one directory."""
MIN_GROUPS = 64
"""Lowest number of groups for the new rows of a partition; Spark joins small groups again."""
DEFAULT_FILE_SIZE = 256 << 20
"""Bytes that a file of new rows should have, if no setting says otherwise."""
_SHUFFLED_PER_STORED = 2
"""Lowest number of bytes of shuffled rows (LZ4) that become one byte of an ORC file."""


def decide_row_groups(size: int | None, target: int, shuffle_tasks: int, *, partitioned: bool) -> int:
    """Return the number of groups that the new rows of a changed partition are divided into.

    One task writes a group. A table without partitions counts as one partition. ``size``: bytes of the files that hold
    the rows, None if unknown. ``target``: bytes that a file should have. ``shuffle_tasks``: most tasks of a shuffle.
    The result is a power of two, because Java compiles the plan again for another number. If the size is unknown, a
    table without partitions gets a group for each task. A partitioned one gets ``MIN_GROUPS``: more groups would make
    many files in each partition.
    """
    unknown = MIN_GROUPS if partitioned else shuffle_tasks
    groups = unknown if size is None else -(-size // max(1, target))
    return min(MAX_TASKS, max(MIN_GROUPS, 1 << max(0, groups - 1).bit_length()))


def shuffled_size(target: int) -> int:
    """Return the bytes of shuffled rows that make a file of about ``target`` bytes."""
    return max(1, min(target, 1 << 40)) * _SHUFFLED_PER_STORED


def buckets_by_group(shuffle_tasks: int) -> bool:
    """Tell whether a new row's bucket must be its group, because more tasks may write than there are buckets."""
    return shuffle_tasks > MAX_TASKS
