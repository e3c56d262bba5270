"""ORC files to read: Spark's flat files (``tools/make_flat_orc.py``) and small ones made on the spot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyorc
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from orc_files import DATA, FLAT, Key


@pytest.fixture
def spark_file(tmp_path: Path) -> Callable[[str], Path]:
    """Copy one of Spark's files to a place where it may be changed."""

    def copy(name: str) -> Path:
        target = tmp_path / name
        target.write_bytes((DATA / name).read_bytes())
        return target

    return copy


@pytest.fixture
def flat_file(tmp_path: Path) -> Callable[..., Path]:
    """Make a flat file of events with pyorc: one user column c0, every list of keys a stripe of its own."""

    def make(
        stripes: Sequence[Sequence[Key]],
        *,
        deletes: bool = False,
        operation: int | None = None,
        row: Sequence[bool | None] = (),
        compression: pyorc.CompressionKind = pyorc.CompressionKind.ZLIB,
    ) -> Path:
        path = tmp_path / "flat.orc"
        code = operation if operation is not None else 2 if deletes else 0
        given = iter(row)
        with path.open("wb") as file:
            writer = pyorc.Writer(file, f"struct<{FLAT},c0:int>", compression=compression, batch_size=1)
            for number, keys in enumerate(stripes):
                if number:
                    writer.write_intermediate_footer()
                for key in keys:
                    mark = next(given, None if deletes else True)
                    writer.write((code, *key, 9, mark, None if deletes else key[2]))
            writer.close()
        return path

    return make
