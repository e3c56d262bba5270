"""Stamps of local directories, which show whether a listing is still right.

Creating, deleting or renaming an entry changes the times of its directory. A stamp holds the times and identity of every
directory of a listing. A stamp is made only where the times are sure to reveal every later change:

- The file system is local. On network file systems the client caches the times.
- No directory changed in the last seconds. Another change within the clock's resolution would leave the same times.
- There are no symbolic links. Their targets may change while the times of their directory stay.

A change inside a file does not show in its directory: `core.snapshot.selection.is_final` excludes files that may change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem, local_path
from hiveacid.storage.paths import is_local

_MOUNTS = Path("/proc/self/mountinfo")
_LOCAL_TYPES = frozenset({"ext4", "xfs", "btrfs", "tmpfs", "zfs", "f2fs", "overlay"})
_UNSETTLED = 3_000_000_000
"""Nanoseconds in which a directory may change again with the same times; the coarsest clock ticks every 2 s."""

_Facts = tuple[int, int, int, int]


@dataclass(frozen=True)
class DirectoryStamp:
    """Identity and times of the directories of a listing, in nanoseconds."""

    paths: tuple[str, ...]
    facts: tuple[_Facts, ...]

    def is_current(self) -> bool:
        """Tell whether no directory has changed since the listing."""
        try:
            return all(
                _facts(os.stat(path)) == facts  # noqa: PTH116 - a hundred thousand of them
                for path, facts in zip(self.paths, self.facts, strict=True)
            )
        except OSError:
            return False


@dataclass(frozen=True)
class StampedListings:
    """Listings with stamps, made from a moment on.

    ``devices``: numbers of the local file systems. ``since``: the moment, in nanoseconds.
    """

    fs: LocalFileSystem
    devices: frozenset[int]
    since: int

    @classmethod
    def begin(cls, fs: FileSystem, now: int) -> StampedListings | None:
        """Return listings that begin ``now`` (ms since the epoch); None where no directory can have a stamp."""
        local = fs.local if isinstance(fs, AnyFileSystem) else fs
        devices = _local_devices() if isinstance(local, LocalFileSystem) else frozenset()
        return (
            cls(local, devices, now * 1_000_000) if isinstance(local, LocalFileSystem) and devices else None
        )

    def list(self, root: str) -> tuple[tuple[FileEntry, ...], DirectoryStamp | None]:
        """List everything below a local directory, as `LocalFileSystem.list_tree`; the stamp is None if it has none."""
        entries, directories = self.fs.list_with_status(root)
        return entries, None if directories is None else self._stamp(local_path(root), directories)

    def _stamp(self, top: str, directories: Mapping[str, os.stat_result]) -> DirectoryStamp | None:
        # Each status is older than the listing of its directory: a change in between shows when the stamp is compared.
        paths = tuple(f"{top}/{path}" for path in directories)
        facts = tuple(map(_facts, directories.values()))
        latest = self.since - _UNSETTLED
        if any(
            device not in self.devices or max(modified, changed) > latest
            for device, _, modified, changed in facts
        ):
            return None
        return DirectoryStamp(paths, facts)


def is_on_local_disk(path: str) -> bool:
    """Tell whether a path lies on a file system of this machine, and not on one of a network."""
    try:
        return is_local(path) and os.stat(local_path(path)).st_dev in _local_devices()  # noqa: PTH116 - as below
    except OSError:
        return False


def _facts(status: os.stat_result) -> _Facts:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _local_devices() -> frozenset[int]:
    """Return the device numbers of mounted local file systems; empty if the mounts cannot be read."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return frozenset()
    found = set()
    for line in lines:
        mount, _, source = line.partition(" - ")
        if source.split(" ")[0] in _LOCAL_TYPES:
            major, _, minor = mount.split(" ")[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)
