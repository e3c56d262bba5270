"""File modes of an SQLite store: its files hold SQL texts, and with them values of tables.

Only the owner may read them. An administrator may share the directory with a group by making it group-writable
(``chmod 2770``); then the group's members may read them, too. Only modes of files that belong to this process's user
are changed, and bits are only removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_FILES = ("", "-wal", "-shm", "-journal")
_OTHERS, _GROUP_AND_OTHERS = 0o007, 0o077


def protect_directory(directory: Path, *, is_new: bool) -> None:
    """Give a directory mode 0700; an existing group-writable directory stays accessible to its group."""
    _restrict(directory, stat.S_ISDIR, shared=not is_new)


def protect_file(file: Path) -> None:
    """Create the file of an SQLite database if it is missing; give it and its side files mode 0600 (or 0660).

    SQLite creates the side files with the mode of the database file. The caller gets errors when it opens the file.
    """
    with suppress(OSError):
        mode = 0o660 if _is_shared(file.parent) else 0o600
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        try:
            os.fchmod(descriptor, mode)  # whatever the umask is
        finally:
            os.close(descriptor)
    for suffix in _FILES:
        _restrict(file.with_name(file.name + suffix), stat.S_ISREG, shared=True)


def _is_shared(directory: Path) -> bool:
    """Tell whether a directory is shared by a group: group-writable, but not writable for all users as ``/tmp`` is."""
    return directory.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP


def _restrict(path: Path, is_kind: Callable[[int], bool], *, shared: bool) -> None:
    with suppress(OSError):
        found = path.lstat()
        if found.st_uid != os.geteuid() or not is_kind(found.st_mode):
            return
        is_group_s = shared and found.st_mode & stat.S_IWGRP
        mode = stat.S_IMODE(found.st_mode)
        wanted = mode & ~(_OTHERS if is_group_s else _GROUP_AND_OTHERS)
        if wanted != mode:
            path.chmod(wanted)
