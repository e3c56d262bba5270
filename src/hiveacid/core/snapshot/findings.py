"""Findings of a check: kinds with their severity and advice, as data.

The rules are those of Hive's layout (docs/internals.md) and what Hive 3.1.3, 4.0.1 and Trino 476 do with files that
break them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum


class Severity(StrEnum):
    """DAMAGE: rows are wrong, lost or unreadable. WARNING: another engine goes wrong, or rows may be missing.

    NOTE: harmless; upkeep, or worth knowing.
    """

    DAMAGE = "damage"
    WARNING = "warning"
    NOTE = "note"


_D, _W, _N = Severity.DAMAGE, Severity.WARNING, Severity.NOTE
_RESTORE = "restore the file from a backup, or move it out of the table and insert its rows again"
_CLEAN = "nothing: the next compaction or acid.clean() removes it"
_REWRITE = "major compaction writes the rows anew"


class FindingKind(Enum):
    """Kinds of findings: code, severity, what it means, what to do."""

    # what readers stumble over at once
    BAD_NAME = (
        "bad-name", _D, "a directory begins like one of the layout and does not parse",
        "move it out of the table: nobody can read the table (or partition) while it is there",
    )  # fmt: skip
    BAD_SIDE_FILE = ("bad-side-file", _D, "a _metadata_acid file does not say what Hive writes", _RESTORE)
    HISTORY_LOST = (
        "history-lost", _D, "the only base holds write ids that readers must not see yet",
        "end the open transactions (SHOW TRANSACTIONS, ABORT TRANSACTIONS), then read again",
    )  # fmt: skip
    MISSING_DIRECTORY = (
        "missing-directory", _D, "the directory of the table or of a partition is not there",
        "restore it, or drop the partition: every read of it fails",
    )  # fmt: skip
    UNREADABLE_FILE = (
        "unreadable-file",
        _D,
        "a data file is cut off, damaged or of another format",
        _RESTORE,
    )
    NOT_ACID = ("not-acid", _D, "a file named bucket_N has no ACID columns", _RESTORE)
    ACID_ORIGINAL = (
        "acid-original", _D, "a file with ACID columns under the name of one without",
        "rename it to bucket_N (N: the bucket of its rows), or move it out",
    )  # fmt: skip
    SHORT_FILE = ("short-file", _D, "a streamed file is shorter than its _flush_length file says", _RESTORE)
    # what rows must fulfil
    WRONG_OPERATION = (
        "wrong-operation", _D, "an event is neither an insert where inserts belong nor a delete where deletes belong",
        _RESTORE,
    )  # fmt: skip
    NULL_KEY = ("null-key", _D, "an ACID column is NULL", _RESTORE)
    WRITE_ID_OUTSIDE = (
        "write-id-outside",
        _D,
        "rows have a write id that is not of their directory",
        _RESTORE,
    )
    BUCKET_CODEC = ("bucket-codec", _D, "a bucket property has a codec version that does not exist", _RESTORE)
    FILE_BUCKET = (
        "file-bucket", _D, "rows lie in the file of another bucket: Hive 4 loses their deletes",
        _REWRITE,
    )  # fmt: skip
    UNSORTED = ("unsorted", _D, "rows are not in the order of their ids: Hive's deletes miss them", _REWRITE)
    DUPLICATE_ROW_ID = (
        "duplicate-row-id", _D, "several rows have one id: a DELETE of one takes all",
        "copy the rows into a new table (CREATE TABLE … AS SELECT), which gives them new ids",
    )  # fmt: skip
    WRONG_HASH_BUCKET = (
        "wrong-hash-bucket", _D, "rows of a bucketed table lie in a bucket that is not theirs",
        "copy the rows into a new table: joins and filters by bucket (Hive, Trino) miss them",
    )  # fmt: skip
    WRONG_STATISTICS = (
        "wrong-statistics", _D, "the column statistics of an ACID column are not those of its rows: filters lose rows",
        _RESTORE,
    )  # fmt: skip
    # what other engines stumble over, or what hides rows
    OTHER_HASH_BUCKET = (
        "other-hash-bucket", _W, "rows of a bucketed table lie where the other bucketing version has them, as after a MERGE of Hive 3.1",
        "copy the rows into a new table: joins and filters by bucket (Hive, Trino) miss them",
    )  # fmt: skip
    UNKNOWN_PARTITION = (
        "unknown-partition", _W, "a directory named like a partition that the catalog does not know: its rows are not read",
        "ALTER TABLE … ADD PARTITION, or remove it if an aborted statement left it",
    )  # fmt: skip
    FOREIGN_FILE = (
        "foreign-file", _W, "a file that no reader looks at; Trino refuses some of them",
        "move it out; if it holds rows, insert them (LOAD DATA, INSERT)",
    )  # fmt: skip
    ORIGINAL_NAME = (
        "original-name", _W, "the name of an original file tells no bucket: Hive cannot delete from it",
        _REWRITE,
    )  # fmt: skip
    BEYOND = (
        "beyond", _W, "a directory above the table's last write id: written by somebody that this store does not know",
        "find out who writes: one side only may write (docs/operate.md), or adopt the table again",
    )  # fmt: skip
    DELETE_BUCKET = (
        "delete-bucket", _W, "delete events lie in the file of another bucket: Hive 4 and Trino ignore them",
        "major compaction applies them",
    )  # fmt: skip
    ORPHAN_DELETE = (
        "orphan-delete", _W, "delete events of rows that are not there, and no compaction could have removed them",
        "look for a missing delta; if the rows were never there, major compaction drops the events",
    )  # fmt: skip
    DELETE_STATISTICS = (
        "delete-statistics", _W, "hive.acid.stats of a delete file is missing or wrong: Hive 3.1 fails or ignores the deletes",
        "major compaction applies them",
    )  # fmt: skip
    KEY_INDEX = (
        "key-index", _W, "hive.acid.key.index is lower than the file's keys: Hive 4 loses deletes", _REWRITE,
    )  # fmt: skip
    VERSION_FILE = (
        "version-file",
        _W,
        "_orc_acid_version does not hold 2: Trino refuses to read",
        "write a single 2 into it",
    )
    WRITE_ID_OF_ROW = (
        "write-id-of-row", _W, "inserted rows carry another original write id than the one that wrote them", _REWRITE,
    )  # fmt: skip
    # worth knowing
    OLD_DELETE = (
        "old-delete",
        _N,
        "delete events of rows that a compaction has removed already",
        "nothing",
    )
    DOUBLE_DELETE = (
        "double-delete",
        _N,
        "a row is deleted by several events",
        "nothing: Hive 3.1 lets two statements do that",
    )
    HIDDEN_ROWS = (
        "hidden-rows", _N, "rows of aborted or open write ids in a directory that is read: they are passed over",
        "nothing; major compaction drops those that are aborted",
    )  # fmt: skip
    UPDATE_EVENT = (
        "update-event", _N, "events of ACID version 1 (operation 1)", "major compaction writes them as version 2",
    )  # fmt: skip
    INSERT_METADATA = (
        "insert-metadata", _N, "hive.acid.* of an insert file are missing or wrong (Trino writes such); no reader trusts them",
        "nothing",
    )  # fmt: skip
    NO_VERSION_FILE = (
        "no-version-file", _N, "a directory has no _orc_acid_version file; Trino then asks each file", "nothing",
    )  # fmt: skip
    TORN_FLUSH_LENGTH = (
        "flush-length", _N, "a _flush_length file ends in the middle of a number, or says less than the file holds",
        "nothing: what a streaming client had not finished is not read",
    )  # fmt: skip
    OBSOLETE = ("obsolete", _N, "a directory that others have replaced", _CLEAN)
    ABORTED = ("aborted", _N, "what an aborted transaction or compaction left", _CLEAN)
    OPEN = (
        "open",
        _N,
        "a directory of a transaction that has not ended",
        "nothing: its commit makes it visible",
    )
    STAGING = ("staging", _N, "a staging directory; its statement runs, or died", _CLEAN)
    LEFTOVER = (
        "leftover",
        _N,
        "a hidden or temporary directory of another program",
        "remove it when that program is gone",
    )
    NOT_CHECKED = ("not-checked", _N, "something could not be looked at", "see the message")

    def __init__(self, code: str, severity: Severity, meaning: str, advice: str) -> None:
        self.code = code
        self.severity = severity
        self.meaning = meaning
        self.advice = advice


@dataclass(frozen=True)
class Finding:
    """One thing that was found: where (a path; partition None for an unpartitioned table) and what exactly."""

    kind: FindingKind
    path: str
    message: str
    partition: str | None = None

    @property
    def severity(self) -> Severity:
        """Return how bad it is."""
        return self.kind.severity

    @property
    def advice(self) -> str:
        """Return what to do."""
        return self.kind.advice


_ORDER = {severity: number for number, severity in enumerate(Severity)}


def sorted_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, worst first, then by place; the same one only once."""
    return tuple(
        sorted(
            dict.fromkeys(findings),
            key=lambda one: (_ORDER[one.severity], one.partition or "", one.path, one.kind.code, one.message),
        )
    )


def is_damaged(findings: Iterable[Finding]) -> bool:
    """Tell whether one of them is damage."""
    return any(one.severity is Severity.DAMAGE for one in findings)
