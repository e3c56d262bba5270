"""Row ids of files without ACID columns: written before a table's conversion, by LOAD DATA, or by Trino's CTAS.

Rules: ``OrcRawRecordMerger.OriginalReaderPair``, ``AcidUtils`` (internals §3.4): the write id is 0 in the
table's or partition's root, the directory's id inside of a base or delta; the bucket comes from the file's
name; row ids run on through all files of one bucket, those in HIVE_UNION_SUBDIR_n included, in the order of
their paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hiveacid.core.buckets import MAX_BUCKET, BucketProperty
from hiveacid.core.listing import DataFile
from hiveacid.core.model import WriteId
from hiveacid.core.names import BaseName, DeltaName, parse_original_file
from hiveacid.core.snapshot import AcidDirectory
from hiveacid.errors import BadFileError


@dataclass(frozen=True)
class OriginalRows:
    """A file whose row ``n`` (from 0) has the id (``write_id``, ``bucket_property``, ``first_row_id + n``)."""

    file: DataFile
    write_id: WriteId
    bucket_property: int
    first_row_id: int


def number_originals(
    files: Sequence[DataFile], rows: Mapping[str, int], directory: AcidDirectory | None = None
) -> tuple[OriginalRows, ...]:
    """Give every row of the files its id. ``rows``: number of rows by path; ``directory``: where they lie in.

    A file whose name tells no bucket counts as bucket 0 (Hive says -1 and cannot delete from it). Raises
    BadFileError, with the path given, for a bucket above 4095: no row id can name it, nor can Hive's.
    """
    write_id, statement = _ids(directory)
    seen: dict[int, int] = defaultdict(int)
    numbered = []
    for file in sorted(files, key=lambda one: one.path):
        parsed = parse_original_file(file.name)
        bucket = parsed.bucket if parsed is not None else 0
        if bucket > MAX_BUCKET:
            msg = f"bucket {bucket}: row ids have room for bucket {MAX_BUCKET} at most"
            raise BadFileError(msg, path=file.path)
        numbered.append(
            OriginalRows(file, write_id, BucketProperty(1, bucket, statement).encode(), seen[bucket])
        )
        seen[bucket] += rows[file.path]
    return tuple(numbered)


def _ids(directory: AcidDirectory | None) -> tuple[WriteId, int]:
    if directory is None:
        return WriteId(0), 0
    if isinstance(directory.name, BaseName):
        return directory.name.write_id, 0
    assert isinstance(directory.name, DeltaName)  # noqa: S101 - the only other kind
    return directory.name.min_write_id, directory.name.statement_id or 0
