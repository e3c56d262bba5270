"""Row ids of files without ACID columns: written before a table's conversion, by LOAD DATA, or by Trino's CTAS.

Rules: ``OrcRawRecordMerger.OriginalReaderPair``, ``AcidUtils``. The write id is 0 in the root of a table or partition,
and the directory's id in a base or delta. The bucket comes from the file's name. Row ids continue through all files of
one bucket in the order of their paths, those in HIVE_UNION_SUBDIR_n included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hiveacid.core.format.acid_columns import MAX_BUCKET, BucketProperty
from hiveacid.core.format.names import BaseName, DeltaName, parse_original_file
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidDirectory
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
    """Give every row of the files its id. ``rows``: number of rows by path; ``directory``: directory of the files.

    A file without a bucket number in its name counts as bucket 0 (Hive assumes -1 and cannot delete from it). Raises
    BadFileError, with the path, for a bucket above 4095, which fits into no row id, not even in Hive.
    """
    write_id, statement = _ids(directory)
    row_counts: dict[int, int] = defaultdict(int)
    numbered = []
    for file in sorted(files, key=lambda original: original.path):
        parsed = parse_original_file(file.name)
        bucket = parsed.bucket if parsed is not None else 0
        if bucket > MAX_BUCKET:
            msg = f"bucket {bucket}: row ids have room for bucket {MAX_BUCKET} at most"
            raise BadFileError(msg, path=file.path)
        numbered.append(
            OriginalRows(file, write_id, BucketProperty(1, bucket, statement).encode(), row_counts[bucket])
        )
        row_counts[bucket] += rows[file.path]
    return tuple(numbered)


def _ids(directory: AcidDirectory | None) -> tuple[WriteId, int]:
    if directory is None:
        return WriteId(0), 0
    if isinstance(directory.name, BaseName):
        return directory.name.write_id, 0
    assert isinstance(directory.name, DeltaName)  # noqa: S101 - the only other kind
    return directory.name.min_write_id, directory.name.statement_id or 0
