"""Staged ORC file that Arrow writes: its stripes are appended as they come, and publishing gives it its footer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hiveacid.orc.writing import HEADER, PlacedStripes, StripeBlock, merged_tail, place_stripes
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.write.staged_files import StagedFile, StagedKind
from hiveacid.table.partitions import PartitionValues


@dataclass
class StripeFile:
    """Stripes of one file in a hidden staging directory. ``size``: bytes written so far; ``rows``: rows in them."""

    fs: FileSystem
    path: str
    size: int = 0
    rows: int = 0
    _parts: list[tuple[str, int]] = field(default_factory=list)  # staged files, and their lengths
    _stripes: list[PlacedStripes] = field(default_factory=list)

    def append(self, blocks: Iterable[StripeBlock]) -> None:
        """Write stripes at the end of the file, or into another one where no file grows."""
        start = self.size or len(HEADER)
        bodies: list[bytes] = []
        end = start
        for block in blocks:
            self._stripes.append(place_stripes(block, end))
            bodies.append(block.body)
            end += len(block.body)
            self.rows += block.rows
        if not bodies:
            return
        data = b"".join(bodies)
        if self._parts and self.fs.replaces_tail_in_place(self.path):
            self.fs.replace_tail(self.path, start, data)
            self._parts = [(self.path, end)]
        else:
            path = f"{self.path}-{len(self._parts)}" if self._parts else self.path
            part = data if self._parts else HEADER + data
            self.fs.write_bytes(path, part, durable=False)
            self._parts.append((path, len(part)))
        self.size = end

    def staged(self, kind: StagedKind, values: PartitionValues, bucket: int) -> StagedFile:
        """Return the file for `publish`, with the footer over all stripes, which is in memory only."""
        footer = merged_tail(self._stripes, self.size, self.path)
        return StagedFile(self.path, self.size, kind, values, bucket, tuple(self._parts), footer)


def stage_file(
    fs: FileSystem,
    block: StripeBlock,
    path: str,
    kind: StagedKind,
    values: PartitionValues = (),
    bucket: int = 0,
) -> StagedFile:
    """Write the stripes of one file to ``path``."""
    file = StripeFile(fs, path)
    file.append([block])
    return file.staged(kind, values, bucket)
