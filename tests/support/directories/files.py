"""Random locations (`maker`) as real files, written with pyorc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from support.corpus.acid_files import acid_bytes, flush_lengths, orc_bytes, put
from support.directories.model import AcidRows, Content, Event, Junk, Location

COLUMNS = "v:string"


def write_location(root: Path, location: Location, random: Random, **options: Any) -> Path:
    """Write a location's files; a file that may be read in part has torn bytes behind that part.

    ``options``: of pyorc's writer.
    """
    files: dict[str, bytes] = {f"{path}/": b"" for path in location.directories}
    lengths = {}
    for path, content in location.files.items():
        data = _bytes(content, options)
        if isinstance(content, AcidRows) and content.readable is not None:
            kept = AcidRows(content.events[: content.readable])
            valid = _bytes(kept, options) if content.readable else b""
            lengths[path] = len(valid)
            behind = random.choice((data[: len(data) // 2], data[5:], random.randbytes(40)))
            data = valid + behind
        files[path] = data
    for path, length in lengths.items():
        side = location.files[f"{path}_flush_length"]
        assert isinstance(side, Junk)
        rest = side.data.removeprefix(b"LENGTH")
        files[f"{path}_flush_length"] = flush_lengths(3, length) + rest if length else rest
    return put(root, files)


def _bytes(content: Content, options: Mapping[str, Any]) -> bytes:
    if isinstance(content, Junk):
        return content.data
    if isinstance(content, AcidRows):
        events = [_event(one) for one in content.events]
        return acid_bytes(events, COLUMNS, metadata={"hive.acid.version": "2"}, **options)
    return orc_bytes([(value,) for value in content.values], f"struct<{COLUMNS}>", **options)


def _event(one: Event) -> tuple[int, int, int, int, int, object]:
    operation = 0 if one.value is not None else 2
    return operation, *one.key, one.current, None if one.value is None else (one.value,)
