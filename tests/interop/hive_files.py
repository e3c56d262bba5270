"""Files that LOAD DATA takes: two columns, id and v, in the formats that tables have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc


def write_file(path: Path, stored: str, rows: Sequence[tuple[int, str]]) -> None:
    """Write rows as ``stored`` says: ORC, PARQUET or TEXTFILE."""
    if stored == "TEXTFILE":
        path.write_text("".join(f"{key}\x01{text}\n" for key, text in rows), encoding="utf-8")
        return
    table = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int32()),
            "v": pa.array([row[1] for row in rows], pa.string()),
        }
    )
    if stored == "PARQUET":
        pq.write_table(table, path)
    else:
        orc.write_table(table, path, compression="zlib")
