"""One error tree for everything that hiveacid raises.

    HiveAcidError
      ConfigError                         a setting or argument makes no sense
      UnsupportedFeatureError             this Spark, store or table kind cannot do it
      StatementError                      SQL text is refused
        ParseError                        outside the grammar
          StatementTooLargeError          more characters, words or nested parentheses than a statement may have
        OutputTwiceError                  10087: two legs of a multi-insert write to the same place
      CatalogError
        NoSuchDatabaseError   NoSuchTableError   NoSuchColumnError   NoSuchPartitionError
        AlreadyExistsError
        NotTransactionalError             10297: UPDATE or DELETE on a plain table
        InsertOnlyError                   10414: UPDATE or DELETE on an insert-only table
        SchemaMismatchError               columns or types do not fit
        InvalidPathError                  10027      FileFormatMismatchError   30019
        AcidFileLoadError                 10413: LOAD DATA of a file with ACID events
      FormatError                         what lies on disk is not what it should be; carries the path
        BadDirectoryNameError   BadFileError   MissingDirectoryError
        NotEnoughHistoryError             10327: the snapshot asked for is gone
      StorageError                        the file system refused (read-only, full, no rights)
      TransactionError
        NoSuchTransactionError   TransactionAbortedError   TransactionStateError
        FailedTransactionError            a statement of the transaction failed: it can only roll back
        WriteConflictError (retryable)    first committer won
        StreamFencedError                 another copy of a streaming query has taken over
        StreamReplayedError               a batch of a stream is in the table already
        StreamCheckpointError             a stream's batch ids begin again, without restart=True
        LockTimeoutError   (retryable)    10307
        StatementCancelledError           its user cancelled it (hiveacid shell: Ctrl-C)
      ClientProtocolError                 a client of hiveacid serve sent what the protocol does not allow
      MergeCardinalityError               a target row matches more than one source row
      DataError                           a value does not fit its column; the statement wrote nothing
        ConstraintViolationError          a new row violates an enabled constraint of its table
        BadRecordError                    a record of a stream does not fit; carries number and content
      CompactionError
        CompactionRefusedError            10432
      StoreError
        StoreUnavailableError (retryable)   StoreVersionError   StorePermissionError   CommitStateUnknownError
        MisplacedStoreError               the store was copied or moved: hiveacid relocate

Every class has a stable ``code`` (Hive's number where Hive has one) and ``retryable``;
the message says what happened and what to do. ``line`` and ``column`` (from 1) point into the statement's text when known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any


class HiveAcidError(Exception):
    """Base of all errors of this project."""

    code: str = "HIVEACID"
    retryable: bool = False

    def __init__(self, *message: object, line: int | None = None, column: int | None = None) -> None:
        """Keep the message and the position apart; the error's text has both."""
        super().__init__(*message)
        self.line = line
        self.column = column

    @property
    def message(self) -> str:
        """The message without the position."""
        return super().__str__()

    def __str__(self) -> str:
        """Return the message, with the position if it is known."""
        return (
            self.message if self.line is None else f"{self.message} (line {self.line}, column {self.column})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error without its constructor, whose parameters may be other ones than the message."""
        return _unpickle, (type(self), self.args, self.__dict__)

    def getCondition(self) -> str:  # noqa: N802 - Spark's name
        """Return ``HIVEACID_<code>``, where PySpark's errors return their condition."""
        return f"HIVEACID_{self.code}"

    def getErrorClass(self) -> str:  # noqa: N802 - the name before Spark 4
        """Return the same as `getCondition`."""
        return self.getCondition()


def _unpickle(
    kind: type[HiveAcidError], args: tuple[object, ...], fields: dict[str, object]
) -> HiveAcidError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigError(HiveAcidError):
    """A setting or an argument makes no sense."""

    code = "CONFIG"


class UnsupportedFeatureError(HiveAcidError):
    """This Spark version, session, store or kind of table cannot do what was asked."""

    code = "UNSUPPORTED"


class StatementError(HiveAcidError):
    """A SQL statement is refused; ``line`` and ``column`` (from 1) point into its text when known."""

    code = "STATEMENT"


class ParseError(StatementError):
    """The text is not a statement of the grammar; nothing was changed."""

    code = "40000"


class StatementTooLargeError(ParseError):
    """The text has more characters, words, levels or grouping sets than a statement may have (docs/sql.md)."""

    code = "STATEMENT_TOO_LARGE"


class OutputTwiceError(StatementError):
    """Two legs of a multi-insert name the same table or static partition."""

    code = "10087"


class CatalogError(HiveAcidError):
    """A database, table, partition or column is missing, doubled or of the wrong kind."""

    code = "CATALOG"


class NoSuchDatabaseError(CatalogError):
    """The database does not exist."""

    code = "10072"


class NoSuchTableError(CatalogError):
    """The table does not exist."""

    code = "10001"


class NoSuchColumnError(CatalogError):
    """The column does not exist."""

    code = "10002"


class NoSuchPartitionError(CatalogError):
    """The partition does not exist."""

    code = "10006"


class AlreadyExistsError(CatalogError):
    """The database, table or partition exists already."""

    code = "10073"


class NotTransactionalError(CatalogError):
    """UPDATE, DELETE, MERGE or COMPACT on a table that is not transactional."""

    code = "10297"


class InsertOnlyError(CatalogError):
    """UPDATE, DELETE or MERGE on an insert-only transactional table."""

    code = "10414"


class SchemaMismatchError(CatalogError):
    """Columns or their types do not fit the table."""

    code = "10044"


class InvalidPathError(CatalogError):
    """The path of LOAD DATA names no file that can be taken."""

    code = "10027"


class FileFormatMismatchError(CatalogError):
    """A file to be loaded is not of the table's format."""

    code = "30019"


class AcidFileLoadError(CatalogError):
    """A file to be loaded holds ACID events: it belongs to a transactional table."""

    code = "10413"


class FormatError(HiveAcidError):
    """Something on disk is not what the ACID layout allows; ``path`` names it."""

    code = "FORMAT"

    def __init__(self, message: str, *, path: str | None = None) -> None:
        """Append the path to the message unless it is in there."""
        self.path = path
        super().__init__(message if path is None or path in message else f"{message}: {path}")

    def below(self, root: str) -> FormatError:
        """Return the same error with its path, which is relative, below ``root``."""
        if self.path is None:
            return type(self)(str(self), path=root)
        return type(self)(str(self).removesuffix(f": {self.path}"), path=f"{root}/{self.path}")


class BadDirectoryNameError(FormatError):
    """A directory or file name begins like one of the ACID layout but does not parse."""

    code = "BAD_NAME"


class BadFileError(FormatError):
    """A data file is damaged or of another format."""

    code = "BAD_FILE"


class MissingDirectoryError(FormatError):
    """The directory of a table or partition is not there."""

    code = "MISSING_DIRECTORY"


class NotEnoughHistoryError(FormatError):
    """The snapshot asked for was compacted away (Hive 10327)."""

    code = "10327"
    earliest: int | None = None
    """The earliest write id that can still be read, where it is known."""
    since: datetime | None = None
    """The moment since which the table can be read, where it is known."""

    @classmethod
    def before(cls, message: str, earliest: int) -> NotEnoughHistoryError:
        """Return the error with the earliest write id that can still be read, and the way to keep later states."""
        error = cls(
            f"{message}; TBLPROPERTIES ('hiveacid.history.retention'='7d') keeps later states for a week"
        )
        error.earliest = earliest
        return error


class StorageError(HiveAcidError):
    """The file system refused: read-only, full, no rights."""

    code = "STORAGE"


class TransactionError(HiveAcidError):
    """Something is wrong with a transaction."""

    code = "10260"


class NoSuchTransactionError(TransactionError):
    """The transaction id is not known (never opened, or long forgotten)."""

    code = "10262"


class TransactionAbortedError(TransactionError):
    """The transaction was aborted: by a timeout, by ABORT TRANSACTIONS, or by a conflict."""

    code = "10263"


class TransactionStateError(TransactionError):
    """The verb is not allowed in the transaction's state."""

    code = "10264"


class FailedTransactionError(TransactionStateError):
    """A statement of the transaction failed, so all of it was rolled back: ROLLBACK, then begin again.

    ``failure``: the statement (its first characters) and its error.
    """

    code = "TXN_FAILED"

    def __init__(self, txn_id: int, failure: str) -> None:
        """Say which transaction, and what failed in it."""
        self.failure = failure
        super().__init__(
            f"transaction {txn_id} was rolled back, because a statement in it failed: {failure}; "
            "ROLLBACK ends it, then begin it again"
        )


class WriteConflictError(TransactionAbortedError):
    """Another transaction changed the same table or partition and committed first."""

    code = "50003"
    retryable = True


class StreamFencedError(TransactionAbortedError):
    """Another copy of a streaming query registered later: this one may not write any more."""

    code = "STREAM_FENCED"


class StreamReplayedError(TransactionAbortedError):
    """A batch of a stream was committed before; nothing was written again."""

    code = "STREAM_REPLAYED"


class StreamCheckpointError(TransactionError):
    """A stream comes with another checkpoint than before: its batch ids mean other rows."""

    code = "STREAM_CHECKPOINT"


class LockTimeoutError(TransactionError):
    """A lock was not granted in time."""

    code = "10307"
    retryable = True


class StatementCancelledError(TransactionError):
    """The user cancelled the statement; its transaction was aborted, and nothing of it is visible.

    One begun by START TRANSACTION accepts only ROLLBACK then.
    """

    code = "CANCELLED"


class ClientProtocolError(HiveAcidError):
    """A client of ``hiveacid serve`` sent what the protocol, its limits or its authentication do not allow."""

    code = "CLIENT_PROTOCOL"


class MergeCardinalityError(HiveAcidError):
    """A target row of a MERGE matches more than one source row (Hive's cardinality_violation)."""

    code = "10404"


class DataError(HiveAcidError):
    """A value does not fit the column it should go to; nothing was written."""

    code = "DATA"


class ConstraintViolationError(DataError):
    """A new row violates an enabled constraint of its table (Hive's DataConstraintViolationError); nothing was written."""

    code = "CONSTRAINT"


class BadRecordError(DataError):
    """A record of a stream does not fit its table; ``number`` counts from 1, ``record`` is its text."""

    code = "RECORD"

    def __init__(self, number: int, record: str, message: str) -> None:
        """Keep which record it was."""
        self.number = number
        self.record = record
        super().__init__(message)


class CompactionError(HiveAcidError):
    """A compaction failed."""

    code = "10282"


class CompactionRefusedError(CompactionError):
    """There is nothing to compact, or the same compaction is under way."""

    code = "10432"


class StoreError(HiveAcidError):
    """The transaction store failed."""

    code = "STORE"


class StoreUnavailableError(StoreError):
    """The transaction store cannot be reached or is locked."""

    code = "STORE_UNAVAILABLE"
    retryable = True


class StorePermissionError(StoreError):
    """The database role of the store's URL lacks a privilege; docs/security.md lists what readers and writers need."""

    code = "STORE_PERMISSION"


class StoreVersionError(StoreError):
    """The store was made by a newer version of hiveacid."""

    code = "STORE_VERSION"


class CommitStateUnknownError(StoreError):
    """The answer to a commit was lost; ask the store before trying again."""

    code = "COMMIT_UNKNOWN"


class MisplacedStoreError(StoreError):
    """The store is a file that was copied or moved here; ``hiveacid relocate`` makes it independent of the original."""

    code = "STORE_MISPLACED"


# The ends of messages, and the errors that several places raise.


def first_few(texts: Collection[str], shown: int = 5) -> str:
    """Return the first texts of a list, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(texts) - shown} more" if len(texts) > shown else ""
    return ", ".join(islice(texts, shown)) + more


_MAX_NAMES, _LONGEST_NAME = 2000, 128  # of a suggestion


def did_you_mean(name: str, names: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return the end of an error message that suggests one of ``names``; empty if none is similar.

    ``similarity``: from 0 to 1, as `difflib` measures it. Long names are not compared, and only the first 2,000 names are.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    spellings = {other.lower(): other for other in islice(names, _MAX_NAMES) if len(other) <= _LONGEST_NAME}
    matches = get_close_matches(name.lower(), spellings, n=1, cutoff=similarity)
    return f"; did you mean {spellings[matches[0]]}?" if matches else ""


def did_you_mean_any(unknown: Iterable[str], missing: Sequence[str]) -> str:
    """Return the suggestion of `did_you_mean` for the first unknown name that has one."""
    return next(filter(None, (did_you_mean(name, missing) for name in unknown)), "")


def already_exists(kind: str, name: object, remedy: str = "") -> AlreadyExistsError:
    """Return the error for a second database, table or view of one name."""
    return AlreadyExistsError(f"{kind} {name} exists already{remedy and f': {remedy}'}")


def no_such_column(
    owner: object,
    name: str,
    columns: Collection[str],
    *,
    kind: str = "column",
    purpose: str = "",
    line: int | None = None,
    column: int | None = None,
) -> NoSuchColumnError:
    """Return the error that a table or query has no such column; it lists those it has, and suggests a similar one.

    ``kind``: what the column would be. ``purpose``: what it was needed for, `` to insert into``.
    """
    return NoSuchColumnError(
        f"{owner} has no {kind} {name}{purpose}; it has {', '.join(columns) or 'none'}{did_you_mean(name, columns)}",
        line=line,
        column=column,
    )


def no_such_database(name: str, databases: Iterable[str] = ()) -> NoSuchDatabaseError:
    """Return the error that a database does not exist; it suggests a similar one."""
    return NoSuchDatabaseError(
        f"database {name} does not exist: see SHOW DATABASES{did_you_mean(name, databases)}"
    )


def acid_v1(subject: object) -> UnsupportedFeatureError:
    """Return the error for a table or file with update events of ACID v1 where they cannot be read or added to."""
    return UnsupportedFeatureError(
        f"{subject} holds update events of Hive 2 or older (ACID v1): run ALTER TABLE ... COMPACT 'major' first, "
        "which rewrites the rows"
    )
