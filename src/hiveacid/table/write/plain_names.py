"""Names of new files in a table that is not transactional: Hive's ``000000_0``, then ``000000_0_copy_1`` and so on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hiveacid.spark.write.publish import StagedFile

if TYPE_CHECKING:
    from hiveacid.table.context import Context


class PlainFileNames:
    """Gives files of a plain table Hive's names, ``000000_0`` or the next ``000000_0_copy_N`` that is free."""

    def __init__(self, context: Context, place: Callable[[StagedFile], str]) -> None:
        """``place``: the directory that a file goes to."""
        self._context = context
        self._place = place
        self._taken: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, number: int, file: StagedFile) -> str:
        """Return the name of a file."""
        where = self._place(file)
        with self._lock:
            if where not in self._taken:
                self._taken[where] = existing_names(self._context, where)
            return free_name(f"{number:06d}_0", self._taken[where])


def existing_names(context: Context, directory: str) -> set[str]:
    """Return the names in a directory; none where it is not there."""
    if not context.fs.exists(directory):
        return set()
    return {entry.path.partition("/")[0] for entry in context.fs.list_tree(directory)}


def free_name(name: str, taken: set[str]) -> str:
    """Return a name, or the first ``_copy_N`` of it that is not taken (before the extension), and take it."""
    stem, dot, extension = name.rpartition(".") if "." in name else (name, "", "")
    copy, free = 0, name
    while free in taken:
        copy += 1
        free = f"{stem}_copy_{copy}{dot}{extension}"
    taken.add(free)
    return free
