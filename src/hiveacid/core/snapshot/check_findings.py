"""Findings of a check: kinds with severity and advice, and rules for names and events.

The rules are those of Hive's layout (docs/format.md) and what Hive 3.1.3, 4.0.1 and Trino 476 do with files that
break them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum

from hiveacid.core.format.acid_columns import DELETE_EVENT, INSERT_EVENT, MAX_BUCKET, Range
from hiveacid.core.format.names import FLUSH_LENGTH_SUFFIX, BaseName, DeltaName, parse_original_file
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableKind
from hiveacid.core.snapshot.classify_entries import ROOT, DirectoryItem, Inventory, ItemState
from hiveacid.core.snapshot.directory_listing import last_flush_length
from hiveacid.errors import BadDirectoryNameError, NotEnoughHistoryError


class Severity(StrEnum):
    """DAMAGE: rows are wrong, lost or unreadable. WARNING: another engine returns wrong rows, or rows may be missing.

    NOTE: harmless; a matter of maintenance or of information.
    """

    DAMAGE = "damage"
    WARNING = "warning"
    NOTE = "note"


_D, _W, _N = Severity.DAMAGE, Severity.WARNING, Severity.NOTE
_RESTORE = "restore the file from a backup, or move it out of the table and insert its rows again"
_CLEAN = "nothing: the next compaction or acid.clean() removes it"
_REWRITE = "major compaction rewrites the rows"


class FindingKind(Enum):
    """Kinds of findings: code, severity, what it means, what to do."""

    # fmt: off
    # errors of every read
    BAD_NAME = (
        "bad-name", _D, "the name of a directory begins like one of the ACID layout, but is not valid",
        "move it out of the table: until then no reader can read the table (or partition)",
    )
    BAD_SIDE_FILE = (
        "bad-side-file", _D, "the content of a _metadata_acid file is not what Hive writes",
        _RESTORE,
    )
    HISTORY_LOST = (
        "history-lost", _D, "the only base holds write ids that readers must not see yet",
        "end the open transactions (SHOW TRANSACTIONS, ABORT TRANSACTIONS), then read again",
    )
    MISSING_DIRECTORY = (
        "missing-directory", _D, "the directory of the table or of a partition does not exist",
        "restore it, or drop the partition: every read of it fails",
    )
    UNREADABLE_FILE = (
        "unreadable-file", _D, "a data file is cut off, damaged or of another format",
        _RESTORE,
    )
    NOT_ACID = (
        "not-acid", _D, "a file named bucket_N has no ACID columns",
        _RESTORE,
    )
    ACID_ORIGINAL = (
        "acid-original", _D, "a file with ACID columns has the name of a file without them",
        "rename it to bucket_N (N: the bucket of its rows), or move it out",
    )
    SHORT_FILE = (
        "short-file", _D, "a streamed file is shorter than its _flush_length file says",
        _RESTORE,
    )
    # rules for rows
    WRONG_OPERATION = (
        "wrong-operation", _D, "a delta holds other events than inserts, or a delete delta other events than deletes",
        _RESTORE,
    )
    NULL_KEY = (
        "null-key", _D, "an ACID column is NULL",
        _RESTORE,
    )
    WRITE_ID_OUTSIDE = (
        "write-id-outside", _D, "rows have a write id outside the range of their directory",
        _RESTORE,
    )
    BUCKET_CODEC = (
        "bucket-codec", _D, "a bucket property has a codec version that does not exist",
        _RESTORE,
    )
    FILE_BUCKET = (
        "file-bucket", _D, "rows lie in the file of another bucket: Hive 4 loses their deletes",
        _REWRITE,
    )
    UNSORTED = (
        "unsorted", _D, "rows are not in the order of their ids: Hive's deletes miss them",
        _REWRITE,
    )
    DUPLICATE_ROW_ID = (
        "duplicate-row-id", _D, "several rows have the same id: a DELETE of one deletes all",
        "copy the rows into a new table (CREATE TABLE … AS SELECT), which gives them new ids",
    )
    WRONG_HASH_BUCKET = (
        "wrong-hash-bucket", _D, "rows of a bucketed table lie in the wrong bucket",
        "copy the rows into a new table: joins and filters by bucket (Hive, Trino) miss them",
    )
    WRONG_STATISTICS = (
        "wrong-statistics", _D, "the column statistics of an ACID column do not match its rows: filters lose rows",
        _RESTORE,
    )
    # problems of other engines, and hidden rows
    OTHER_HASH_BUCKET = (
        "other-hash-bucket", _W, "rows of a bucketed table lie in their bucket of the other bucketing version, as after a MERGE of Hive 3.1",
        "copy the rows into a new table: joins and filters by bucket (Hive, Trino) miss them",
    )
    UNKNOWN_PARTITION = (
        "unknown-partition", _W, "a directory named like a partition that the catalog does not know: its rows are not read",
        "ALTER TABLE … ADD PARTITION, or remove it if an aborted statement left it",
    )
    FOREIGN_FILE = (
        "foreign-file", _W, "a file that readers ignore; Trino refuses some of them",
        "move it out; if it holds rows, insert them (LOAD DATA, INSERT)",
    )
    ORIGINAL_NAME = (
        "original-name", _W, "the name of an original file has no bucket number: Hive cannot delete from it",
        _REWRITE,
    )
    BEYOND = (
        "beyond", _W, "a directory above the table's last write id: this store does not know its writer",
        "find the writer: only one side may write (docs/operate.md); or adopt the table again",
    )
    DELETE_BUCKET = (
        "delete-bucket", _W, "delete events lie in the file of another bucket: Hive 4 and Trino ignore them",
        "major compaction applies them",
    )
    ORPHAN_DELETE = (
        "orphan-delete", _W, "delete events of rows that do not exist and that no compaction can have removed",
        "look for a missing delta; if the rows were never there, major compaction drops the events",
    )
    DELETE_STATISTICS = (
        "delete-statistics", _W, "hive.acid.stats of a delete file is missing or wrong: Hive 3.1 fails or ignores the deletes",
        "major compaction applies them",
    )
    KEY_INDEX = (
        "key-index", _W, "hive.acid.key.index is lower than the file's keys: Hive 4 loses deletes",
        _REWRITE,
    )
    VERSION_FILE = (
        "version-file", _W, "_orc_acid_version does not hold 2: Trino refuses to read",
        "write a single 2 into it",
    )
    WRITE_ID_OF_ROW = (
        "write-id-of-row", _W, "inserted rows carry another original write id than the one that wrote them",
        _REWRITE,
    )
    # information
    OLD_DELETE = (
        "old-delete", _N, "delete events of rows that a compaction has removed already",
        "nothing",
    )
    DOUBLE_DELETE = (
        "double-delete", _N, "a row is deleted by several events",
        "nothing: Hive 3.1 lets two statements do that",
    )
    HIDDEN_ROWS = (
        "hidden-rows", _N, "rows of aborted or open write ids in a directory that is read: readers skip them",
        "nothing; major compaction drops those that are aborted",
    )
    ACID_V1_EVENT = (
        "update-event", _N, "events of ACID version 1 (updates, or inserts and deletes in one file)",
        "major compaction writes them as version 2",
    )
    INSERT_METADATA = (
        "insert-metadata", _N, "footer entries hive.acid.* of an insert file are missing or wrong, as in Trino's files; no reader relies on them",
        "nothing",
    )
    NO_VERSION_FILE = (
        "no-version-file", _N, "a directory has no _orc_acid_version file; Trino then asks each file",
        "nothing",
    )
    TORN_FLUSH_LENGTH = (
        "flush-length", _N, "a _flush_length file ends in the middle of a number, or gives less than the length of the file",
        "nothing: readers ignore what a streaming client had not finished",
    )
    OBSOLETE = (
        "obsolete", _N, "a directory that others have replaced, or whose writer had ended before its partition was recorded",
        _CLEAN,
    )
    ABORTED = (
        "aborted", _N, "files of an aborted transaction or compaction",
        _CLEAN,
    )
    OPEN = (
        "open", _N, "a directory of a transaction that has not ended",
        "nothing: its commit makes it visible",
    )
    WRONG_RECORD = (
        "wrong-record", _W, "what a snapshot reads here differs from what commits have recorded",
        "restore a file that is gone; others are not read. If no other program changed files of the table, report it, and set hiveacid.read.file.records to false",
    )
    STAGING = (
        "staging", _N, "a staging directory; its statement is running or has crashed",
        _CLEAN,
    )
    LEFTOVER = (
        "leftover", _N, "a hidden or temporary directory of another program",
        "remove it when that program is gone",
    )
    NOT_CHECKED = (
        "not-checked", _N, "a part of the table could not be checked",
        "see the message",
    )
    # fmt: on

    def __init__(self, code: str, severity: Severity, meaning: str, advice: str) -> None:
        self.code = code
        self.severity = severity
        self.meaning = meaning
        self.advice = advice


@dataclass(frozen=True)
class Finding:
    """A finding: its kind, the path, a message with details, and the partition (None without partitions)."""

    kind: FindingKind
    path: str
    message: str
    partition: str | None = None

    @property
    def severity(self) -> Severity:
        """Return the severity of the kind."""
        return self.kind.severity

    @property
    def advice(self) -> str:
        """Return the advice of the kind."""
        return self.kind.advice


_ORDER = {severity: number for number, severity in enumerate(Severity)}


def sorted_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings without duplicates, the most severe first, then by partition and path."""
    return tuple(
        sorted(
            dict.fromkeys(findings),
            key=lambda finding: (
                _ORDER[finding.severity],
                finding.partition or "",
                finding.path,
                finding.kind.code,
                finding.message,
            ),
        )
    )


_LENGTH = 8  # bytes of a number in a _flush_length file
_KINDS_OF_LEFTOVERS = {
    ItemState.OBSOLETE: FindingKind.OBSOLETE,
    ItemState.ABORTED: FindingKind.ABORTED,
    ItemState.STAGING: FindingKind.STAGING,
    ItemState.HIDDEN: FindingKind.LEFTOVER,
    ItemState.FOREIGN: FindingKind.FOREIGN_FILE,
}


def check_layout(
    found: Inventory, write_ids: ValidWriteIdList, kind: TableKind, root: str, partition: str | None
) -> Iterator[Finding]:
    """Check a location's directories and the names of its files."""
    for error in found.errors:
        finding_kind = FindingKind.BAD_SIDE_FILE
        if isinstance(error, BadDirectoryNameError):
            finding_kind = FindingKind.BAD_NAME
        elif isinstance(error, NotEnoughHistoryError):
            finding_kind = FindingKind.HISTORY_LOST
        path = f"{root}/{error.path}" if error.path else root
        yield Finding(finding_kind, path, str(error), partition)
    for item in found.directories:
        leftover = _leftover_kind(item, write_ids)
        if leftover is not None and item.path != ROOT:
            yield Finding(leftover, f"{root}/{item.path}", item.reason, partition)
    if any(item.path == ROOT and item.state is ItemState.OBSOLETE for item in found.directories):
        reason = next(item.reason for item in found.directories if item.path == ROOT)
        yield Finding(FindingKind.OBSOLETE, root, reason, partition)
    yield from _files(found, kind, root, partition)


def _leftover_kind(item: DirectoryItem, write_ids: ValidWriteIdList) -> FindingKind | None:
    if item.state is not ItemState.OPEN:
        return _KINDS_OF_LEFTOVERS.get(item.state)
    low = 0 if item.name is None else item.name.span[0]
    return FindingKind.BEYOND if low > write_ids.high_watermark else FindingKind.OPEN


def _files(found: Inventory, kind: TableKind, root: str, partition: str | None) -> Iterator[Finding]:
    states = {item.path: item.state for item in found.directories}
    for file in found.files:
        used = states.get(file.directory) is ItemState.USED
        if file.state is ItemState.FOREIGN and used:
            yield Finding(FindingKind.FOREIGN_FILE, f"{root}/{file.path}", file.reason, partition)
        elif kind is TableKind.FULL_ACID and file.kind == "original" and file.state is ItemState.USED:
            name = file.path.rpartition("/")[2]
            if parse_original_file(name) is None:
                message = "named neither NNNNNN_M nor NNNNNN_M_copy_K: its rows count as bucket 0"
                yield Finding(FindingKind.ORIGINAL_NAME, f"{root}/{file.path}", message, partition)


def check_version_files(
    texts: dict[str, bytes | None], root: str, partition: str | None
) -> Iterator[Finding]:
    """Check the contents of ``_orc_acid_version`` files by directory; None: the directory has none."""
    for directory, text in texts.items():
        if text is None:
            message = "Hive's own writers leave one; LOAD DATA and empty bases of Hive 4 have none"
            yield Finding(FindingKind.NO_VERSION_FILE, f"{root}/{directory}", message, partition)
        elif text.strip() != b"2":
            yield Finding(
                FindingKind.VERSION_FILE, f"{root}/{directory}", f"it holds {text[:20]!r}", partition
            )


def check_flush_length(path: str, size: int, side: bytes, partition: str | None) -> Iterator[Finding]:
    """Compare a streamed file of ``size`` bytes with its side file: big-endian numbers, the last whole one counts."""
    if len(side) % _LENGTH:
        message = f"{path}{FLUSH_LENGTH_SUFFIX} has {len(side)} bytes, not a multiple of {_LENGTH}"
        yield Finding(FindingKind.TORN_FLUSH_LENGTH, path, message, partition)
    length = last_flush_length(side)
    if length > size:
        message = f"{length} bytes were written, {size} are there"
        yield Finding(FindingKind.SHORT_FILE, path, message, partition)
    elif length < size:
        message = f"of {size} bytes only {length} are read"
        yield Finding(FindingKind.TORN_FLUSH_LENGTH, path, message, partition)


@dataclass(frozen=True)
class EventFacts:
    """Facts about a file's events. None: unknown (no statistics), or the file has no rows.

    ``bucket``: bucket numbers decoded from the ``properties``; ``nulls``: rows in which an ACID column is NULL;
    ``bad_codec``: rows whose bucket property has an unknown version; ``borrowed``: inserts whose original write
    id differs from the write id that wrote them; ``unsorted``: rows that are not in order. The id of an insert must
    be higher than the one before it; the id of a delete must not be lower.
    """

    rows: int
    operation: Range | None = None
    original: Range | None = None
    current: Range | None = None
    bucket: Range | None = None
    nulls: int = 0
    bad_codec: int = 0
    borrowed: int = 0
    unsorted: int = 0
    properties: Range | None = None
    row_ids: Range | None = None


@dataclass(frozen=True)
class CheckedFile:
    """A file of events: its path, the name of its directory, and the bucket number in its file name."""

    path: str
    directory: BaseName | DeltaName
    bucket: int
    partition: str | None = None

    @property
    def is_delete(self) -> bool:
        """Tell whether the file belongs to a delete delta."""
        return isinstance(self.directory, DeltaName) and self.directory.is_delete

    def finding(self, kind: FindingKind, message: str) -> Finding:
        """Return a finding about this file."""
        return Finding(kind, self.path, message, self.partition)


def check_events(file: CheckedFile, facts: EventFacts, write_ids: ValidWriteIdList) -> Iterator[Finding]:
    """Yield the findings about a file's events; unknown facts give none."""
    if facts.rows == 0:
        return
    if facts.nulls:
        yield file.finding(FindingKind.NULL_KEY, f"in {facts.nulls} of {facts.rows} rows")
    yield from _operations(file, facts.operation)
    yield from _write_ids(file, facts, write_ids)
    yield from _buckets(file, facts)
    if facts.unsorted:
        yield file.finding(
            FindingKind.UNSORTED, f"{facts.unsorted} of {facts.rows} rows follow a row of a higher id"
        )


def _operations(file: CheckedFile, found: Range | None) -> Iterator[Finding]:
    if found is None:
        return
    expected = DELETE_EVENT if file.is_delete else INSERT_EVENT
    if (found.low, found.high) == (expected, expected):
        return
    # inserts and deletes in one file are of version 1, too: since version 2 no writer mixes them
    if (
        not file.is_delete
        and found != Range(DELETE_EVENT, DELETE_EVENT)
        and found.low >= INSERT_EVENT
        and found.high <= DELETE_EVENT
    ):
        yield file.finding(FindingKind.ACID_V1_EVENT, f"operations {found}")
    else:
        yield file.finding(FindingKind.WRONG_OPERATION, f"operation is {found}, expected {expected}")


def _write_ids(file: CheckedFile, facts: EventFacts, write_ids: ValidWriteIdList) -> Iterator[Finding]:
    name = file.directory
    low, high = (
        (None, name.write_id) if isinstance(name, BaseName) else (name.min_write_id, name.max_write_id)
    )
    current, original = facts.current, facts.original
    if current is not None:
        if current.high > high or (low is not None and current.low < low):
            limits = f"up to {high}" if low is None else str(Range(low, high))
            message = f"rows were written by write id {current}; the directory stands for {limits}"
            yield file.finding(FindingKind.WRITE_ID_OUTSIDE, message)
        elif not all(map(write_ids.is_valid, (current.low, current.high))):
            yield file.finding(FindingKind.HIDDEN_ROWS, f"rows of write id {current}")
    if original is not None and current is not None and original.high > current.high:
        message = f"rows of write id {original} in a file written by {current}"
        yield file.finding(FindingKind.WRITE_ID_OUTSIDE, message)
    elif facts.borrowed and not file.is_delete:
        yield file.finding(FindingKind.WRITE_ID_OF_ROW, f"{facts.borrowed} of {facts.rows} rows")


def _buckets(file: CheckedFile, facts: EventFacts) -> Iterator[Finding]:
    if facts.bad_codec:
        yield file.finding(FindingKind.BUCKET_CODEC, f"in {facts.bad_codec} of {facts.rows} rows")
        return
    buckets = facts.bucket
    if buckets is None or buckets in (
        Range(file.bucket, file.bucket),
        Range(*(file.bucket & MAX_BUCKET,) * 2),
    ):
        return
    kind = FindingKind.DELETE_BUCKET if file.is_delete else FindingKind.FILE_BUCKET
    yield file.finding(kind, f"the file is that of bucket {file.bucket}, rows are of bucket {buckets}")
