"""Pack a directory of tables written by real engines into ``tests/golden/tables.tar.xz``.

``python tools/pack_golden.py DIRECTORY``; DIRECTORY is laid out as ``tests/golden/README.md`` says. Empty
directories survive: those on disk and those that a ``meta.json`` lists under ``empty_dirs``. The same input
gives the same archive, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "tests" / "golden" / "tables.tar.xz"
ENGINES = ("hive-*", "trino-*")


def members(source: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield names in the archive, sorted, with the file to take (None for a directory)."""
    found: dict[str, Path | None] = {}
    for engine in ENGINES:
        for path in source.glob(f"{engine}/**/*"):
            name = path.relative_to(source).as_posix()
            found[name] = None if path.is_dir() else path
            if path.name == "meta.json":
                table = path.parent / "table"
                for empty in json.loads(path.read_text(encoding="utf-8"))["empty_dirs"]:
                    found[(table / empty).relative_to(source).as_posix()] = None
    yield from sorted(found.items())


def pack(source: Path, target: Path) -> int:
    """Write the archive; return the number of its members."""
    count = 0
    with (
        lzma.open(target, "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in members(source):
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if path is None else 0o644
            entry.type = tarfile.DIRTYPE if path is None else tarfile.REGTYPE
            if path is None:
                archive.addfile(entry)
            else:
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            count += 1
    return count


def main() -> None:
    """Pack the directory named on the command line."""
    parser = argparse.ArgumentParser(description="Pack tables of real engines for the tests.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", type=Path, default=TARGET)
    arguments = parser.parse_args()
    count = pack(arguments.directory, arguments.target)
    print(f"{arguments.target}: {count} entries, {arguments.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
