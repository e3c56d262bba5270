"""Files of the ACID layout written with pyorc alone, as Hive writes them or spoilt on purpose."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyorc

Event = tuple[int, int, int, int, int, Any]
"""operation, originalTransaction, bucket, rowId, currentTransaction, row (a tuple, or None)."""

_FIXED = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"


def bucket_property(bucket: int, statement: int = 0) -> int:
    """Return the bucket property of codec version 1."""
    return 1 << 29 | bucket << 16 | statement


def inserts(
    write_id: int, rows: Sequence[Any], bucket: int = 0, statement: int = 0, first: int = 0
) -> list[Event]:
    """Return insert events with consecutive row ids."""
    number = bucket_property(bucket, statement)
    return [(0, write_id, number, first + n, write_id, row) for n, row in enumerate(rows)]


def deletes(write_id: int, keys: Iterable[tuple[int, int, int]]) -> list[Event]:
    """Return delete events of rows (write id, bucket property, row id), sorted."""
    return [(2, *key, write_id, None) for key in sorted(keys)]


def acid_bytes(
    events: Sequence[Event],
    columns: str,
    metadata: dict[str, str] | None = None,
    **options: Any,
) -> bytes:
    """Return a file of events; ``columns``: the row's, as ORC writes them. Hive's metadata unless given."""
    if metadata is None:
        deleted = sum(event[0] == 2 for event in events)
        metadata = {"hive.acid.version": "2", "hive.acid.stats": f"{len(events) - deleted},0,{deleted}"}
        if events:
            last = events[-1]
            metadata["hive.acid.key.index"] = f"{last[1]},{last[2]},{last[3]};"
    return orc_bytes(events, f"struct<{_FIXED},row:struct<{columns}>>", metadata, **options)


def orc_bytes(
    rows: Sequence[Any], schema: str, metadata: dict[str, str] | None = None, **options: Any
) -> bytes:
    """Return an ORC file of rows (tuples)."""
    target = io.BytesIO()
    chosen: dict[str, Any] = {"compression": pyorc.CompressionKind.ZLIB, "timezone": None} | options
    chosen = {key: value for key, value in chosen.items() if value is not None}
    with pyorc.Writer(target, schema, **chosen) as writer:
        for row in rows:
            writer.write(row)
        writer.set_user_metadata(**{key: text.encode() for key, text in (metadata or {}).items()})
    return target.getvalue()


def put(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a directory; a name that ends with '/' is an empty directory."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def flush_lengths(*lengths: int) -> bytes:
    """Return the content of a _flush_length file."""
    return b"".join(struct.pack(">q", length) for length in lengths)
