"""Names of directories, files, virtual and staged columns, parsed and formatted.

Rules: Hive's ``AcidConstants``, ``AcidUtils.ParsedBaseLight`` and ``ParsedDeltaLight``.
``format`` pads numbers to a minimum width; the parser accepts any width, and reads ``_v0`` as no suffix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from hiveacid.core.model import LAST_ID, TxnId, WriteId
from hiveacid.errors import BadDirectoryNameError

ACID_VERSION_FILE = "_orc_acid_version"
"""Side file of every full-ACID directory; holds the single byte ``2``."""
METADATA_FILE = "_metadata_acid"
"""JSON side file: a base that Hive 3 compacted, or the empty base of TRUNCATE or DROP PARTITION."""
PAIR_FILE = "_hiveacid_pair"
"""Our own side file, at layout level hive3, in a delta and in the delete delta of the same range.

Both are the result of one compaction, and readers ignore one without the other. Holds the compaction's transaction id.
"""
FLUSH_LENGTH_SUFFIX = "_flush_length"
"""Suffix of the side file of a streamed ``bucket_N``; it tells how much of the bucket file may be read."""
UNION_DIRECTORY = re.compile(r"HIVE_UNION_SUBDIR_[0-9]+")
"""Sub-directory that UNION ALL writes below a delta or a plain table's root; its files belong to that parent."""

PRE_ACID_WRITE_ID = -(1 << 63)
"""The write id of a base that an old Hive compacted from original files only."""
NO_VISIBILITY = TxnId(0)
"""The visibility txn id of a directory without ``_v`` suffix."""

_BASE = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?")
_DELTA = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?")
_BUCKET = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?")
_ORIGINAL = re.compile(r"([0-9]+)_[0-9]+(?:_copy_([0-9]+))?")
_LAST_INT = (1 << 31) - 1  # Hive keeps buckets, copies and statement ids as Java's int
_SURE_DIGITS = 18  # every number with this many digits is below LAST_ID
_PREFIXES = ("base_", "delta_", "delete_delta_")

ROW_ID = "ROW__ID"
FILE_NAME = "INPUT__FILE__NAME"
ROW_IS_DELETED = "ROW__IS__DELETED"
"""Hive 4's column of reads that show deleted rows, too."""
RESERVED_NAMES = frozenset(
    name.lower() for name in (ROW_ID, FILE_NAME, "BLOCK__OFFSET__INSIDE__FILE", "_metadata")
)
"""Names that no column of a table may have, in lower case as a table has them.

``_metadata`` is Spark's column of the path of a row's file, which a column of the table would hide.
"""


class LayoutLevel(StrEnum):
    """Hive version whose readers must understand the names: HIVE3 knows no visibility suffix, HIVE4 does."""

    HIVE3 = "hive3"
    HIVE4 = "hive4"


@dataclass(frozen=True)
class BaseName:
    """``base_N[_vT]``: all rows up to a write id, or an INSERT OVERWRITE. T is 0 without the suffix."""

    write_id: WriteId
    visibility_txn_id: TxnId = NO_VISIBILITY

    def format(self, level: LayoutLevel = LayoutLevel.HIVE4) -> str:
        """Return the directory name at a layout level."""
        return f"base_{self.write_id:07d}" + _visibility(self.visibility_txn_id, level)

    @property
    def span(self) -> tuple[WriteId, WriteId]:
        """Return the lowest and the highest write id in the name."""
        return self.write_id, self.write_id


@dataclass(frozen=True)
class DeltaName:
    """``delta_A_B[_S][_vT]`` or ``delete_delta_…``: rows that write ids A to B (statement S) added or deleted."""

    is_delete: bool
    min_write_id: WriteId
    max_write_id: WriteId
    statement_id: int | None
    visibility_txn_id: TxnId = NO_VISIBILITY

    def format(self, level: LayoutLevel = LayoutLevel.HIVE4) -> str:
        """Return the directory name at a layout level."""
        kind = "delete_delta" if self.is_delete else "delta"
        statement = "" if self.statement_id is None else f"_{self.statement_id:04d}"
        visibility = _visibility(self.visibility_txn_id, level)
        return f"{kind}_{self.min_write_id:07d}_{self.max_write_id:07d}{statement}{visibility}"

    @property
    def span(self) -> tuple[WriteId, WriteId]:
        """Return the lowest and the highest write id in the name."""
        return self.min_write_id, self.max_write_id


@dataclass(frozen=True)
class BucketFile:
    """``bucket_NNNNN[_A]``; A is the task attempt that Hive 4 appends."""

    bucket: int
    attempt: int | None = None


@dataclass(frozen=True)
class OriginalFile:
    """``NNNNNN_M[_copy_K]``: a file without ACID columns; ``copy`` is K, 0 for the first."""

    bucket: int
    copy: int = 0


@lru_cache(maxsize=10_000)  # the partitions of a table have directories of the same names
def parse_directory(name: str) -> BaseName | DeltaName | None:
    """Read the last component of a directory's path; None when it is not named like an ACID directory.

    Raises BadDirectoryNameError for a name that begins like one and does not parse, or has an id above
    ``LAST_ID``. A partition directory (``delta_x=1``) is not such a name.
    """
    if not name.startswith(_PREFIXES) or "=" in name:
        return None
    base = _BASE.fullmatch(name)
    if base is not None:
        return BaseName(WriteId(_id(base[1], name)), TxnId(_id(base[2] or "0", name)))
    delta = _DELTA.fullmatch(name)
    if delta is None or _id(delta[2], name) > _id(delta[3], name):
        msg = "not a name of the ACID layout (base_N, delta_A_B[_S], delete_delta_A_B[_S], each with [_vT])"
        raise BadDirectoryNameError(msg, path=name)
    return DeltaName(
        is_delete=delta[1] is not None,
        min_write_id=WriteId(int(delta[2])),
        max_write_id=WriteId(int(delta[3])),
        statement_id=None if delta[4] is None else _id(delta[4], name, _LAST_INT),
        visibility_txn_id=TxnId(_id(delta[5] or "0", name)),
    )


def may_be_compacted(name: BaseName | DeltaName) -> bool:
    """Tell whether a compaction at layout level hive3 may have made a directory, which readers then read before its commit."""
    return not name.visibility_txn_id and (
        isinstance(name, BaseName) or name.min_write_id < name.max_write_id
    )


def parse_number(text: str, highest: int = LAST_ID) -> int | None:
    """Return a decimal number; None for one above ``highest`` or below Java's long."""
    if len(text) > _SURE_DIGITS and len(text.lstrip("-0")) > _SURE_DIGITS + 1:
        return None  # Python refuses to read a number of thousands of digits
    number = int(text) if len(text) <= _SURE_DIGITS else int(text.replace("-", "").lstrip("0") or "0")
    if text.startswith("-") and number > 0:
        number = -number
    return number if PRE_ACID_WRITE_ID <= number <= highest else None


def _id(text: str, name: str, highest: int = LAST_ID) -> int:
    number = parse_number(text, highest)
    if number is None:
        msg = f"the number {text[:40]} is outside the valid range (at most {highest}): move this directory out of the table"
        raise BadDirectoryNameError(msg, path=name)
    return number


def layout_name(name: str) -> BaseName | DeltaName | None:
    """Return what `parse_directory` does; None also for a name that it raises an error for."""
    try:
        return parse_directory(name)
    except BadDirectoryNameError:
        return None


@lru_cache(maxsize=10_000)  # as above
def parse_bucket_file(name: str) -> BucketFile | None:
    """Read a file name of a full-ACID directory; None for any other name."""
    match = _BUCKET.fullmatch(name)
    if match is None:
        return None
    bucket, attempt = parse_number(match[1], _LAST_INT), parse_number(match[2] or "0")
    if bucket is None or attempt is None:
        return None
    return BucketFile(bucket, None if match[2] is None else attempt)


def format_bucket_file(bucket: int) -> str:
    """Return ``bucket_NNNNN``, the form that every engine reads."""
    return f"bucket_{bucket:05d}"


def parse_original_file(name: str) -> OriginalFile | None:
    """Read the name of a file without ACID columns; None for any other name (Hive's bucket is then -1)."""
    match = _ORIGINAL.fullmatch(name)
    if match is None:
        return None
    bucket, copy = parse_number(match[1], _LAST_INT), parse_number(match[2] or "0", _LAST_INT)
    return None if bucket is None or copy is None else OriginalFile(bucket, copy)


def format_original_file(number: int) -> str:
    """Return ``NNNNNN_0``, the name of a file without ACID columns."""
    return f"{number:06d}_0"


def staged_column(index: int) -> str:
    """Return the name of a table's column in staged ORC files; publishing puts the real names into their footers."""
    return f"c{index}"


def is_hidden(name: str) -> bool:
    """Tell whether Hive ignores a file or directory of this name; it reads the two ACID side files."""
    return has_hidden_prefix(name) and name not in (METADATA_FILE, ACID_VERSION_FILE)


def has_hidden_prefix(name: str) -> bool:
    """Tell whether a name begins as those do that Hadoop's listings of files leave out, the side files among them."""
    return name.startswith(("_", "."))


def _visibility(txn_id: TxnId, level: LayoutLevel) -> str:
    return f"_v{txn_id:07d}" if txn_id and level is LayoutLevel.HIVE4 else ""


def ends_below(path: str, min_write_id: int) -> bool:
    """Tell whether a directory of the layout has only write ids below `Partition.min_write_id`, so that no reader reads it."""
    directory = None if min_write_id <= 1 or is_hidden(path) else parse_directory(path)
    return directory is not None and directory.span[1] < min_write_id
