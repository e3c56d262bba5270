"""A file system on which staged files change before the driver looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid.core.snapshot.directory_listing import FileEntry
    from hiveacid.ports.file_system import FileSystem


class Altered:
    """A file system on which something happens to a staging directory before the driver lists it."""

    def __init__(self, inner: FileSystem, change: Callable[[list[Path]], object]) -> None:
        self._inner, self._change = inner, change

    def __getattr__(self, name: str) -> Any:
        """Return what the file system itself has."""
        return getattr(self._inner, name)

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        staged = sorted(Path(root).rglob("part-*"), reverse=True)  # partition 1 first
        if staged:
            self._change(staged)
        return self._inner.list_tree(root)
