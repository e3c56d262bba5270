"""Files of Hive's streams, of which readers read only the length that the side file ``_flush_length`` records.

A running or crashed writer leaves more bytes after that part, and Spark would search the footer at the end of the file.
The readable part is therefore copied to a file of the reading transaction.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hiveacid.core.format.names import DeltaName, parse_directory
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.schema.location_overlap import STORE_DIRECTORY
from hiveacid.core.snapshot.directory_listing import DataFile, last_flush_length
from hiveacid.errors import BadFileError, MissingDirectoryError, StorageError
from hiveacid.ports.file_system import FileSystem
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class FlushLength:
    """Committed bytes of a file, its size in bytes, and the content of its side file (None: removed)."""

    length: int
    size: int
    side_file: bytes | None


def read_flush_length(fs: FileSystem, path: str, side_file: str, listed_size: int) -> FlushLength:
    """Read the committed length of a file that a listing showed with ``listed_size`` bytes and a side file.

    Raises StorageError, also if neither of the two is there any more: its rows are not read as none.
    """
    try:
        data = fs.read_bytes(side_file)
    except StorageError:
        if fs.exists(side_file):
            raise
        size = _size(fs, path)
        return FlushLength(size, size, None)
    length = last_flush_length(data)
    return FlushLength(length, listed_size if length <= listed_size else _size(fs, path), data)


def _size(fs: FileSystem, path: str) -> int:
    folder, _, name = path.rpartition("/")
    size = next((entry.size for entry in fs.list_directory(folder) if entry.path == name), None)
    if size is None:
        raise StorageError(f"cannot read {path}: it was there when its directory was listed, and is gone")
    return size


def prepare_readable_part(
    context: Context, table: TableName, txn: Transaction, path: str, file: DataFile
) -> tuple[int, str | None]:
    """Return the readable length of a file and, if the file itself must not be read, the path of the copy.

    A file that may still grow is always copied, because Spark searches the footer at its end only when the query runs.
    Raises BadFileError for a file that is shorter than its side file says; it has lost rows.
    """
    if file.flush_length_path is None:
        return file.size, None
    flush_length = require_flush_length(context.fs, path, file)
    length, size = flush_length.length, flush_length.size
    if flush_length.side_file is None:
        return size, None  # its writer ended it since the listing
    if length == 0 or (length == size and not _may_grow(table, txn, path)):
        return length, None
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    copy = f"{_directory(context)}/{int(txn.txn_id)}/{name}-{length}"
    if not context.fs.exists(copy):
        try:
            context.fs.copy_file(path, copy, length)
        except StorageError:
            if not context.fs.exists(copy):
                raise  # else another thread has made the same copy meanwhile
    return length, copy


def readable_length(fs: FileSystem, path: str, file: DataFile) -> int:
    """Return the bytes of a file that may be read: of a streamed one, those that its writer has flushed.

    Raises BadFileError as `require_flush_length`.
    """
    return file.size if file.flush_length_path is None else require_flush_length(fs, path, file).length


def require_flush_length(fs: FileSystem, path: str, file: DataFile) -> FlushLength:
    """Return the flushed length of a file with a side file.

    Raises BadFileError for a file that is shorter than its side file says; it has lost rows.
    """
    flush_length = read_flush_length(
        fs, path, f"{path.removesuffix(file.path)}{file.flush_length_path}", file.size
    )
    if flush_length.side_file is not None and flush_length.length > flush_length.size:
        msg = f"{flush_length.length} bytes were flushed, but only {flush_length.size} are there: the rest is lost"
        raise BadFileError(msg, path=path)
    return flush_length


def _may_grow(table: TableName, txn: Transaction, path: str) -> bool:
    """Tell whether a transaction that writes to the file may still be open, according to the snapshot."""
    delta = parse_directory(path.split("/")[-2])
    if not isinstance(delta, DeltaName):
        return True
    write_ids = txn.valid_write_ids(table)
    low, high = delta.min_write_id, delta.max_write_id
    return high > write_ids.high_watermark or write_ids.has_open(low, high)


def delete_copies(context: Context) -> None:
    """Delete the copies of transactions that have ended."""
    min_open = context.store.min_open_txn_id()
    try:
        entries = context.fs.list_tree(_directory(context))
    except MissingDirectoryError:
        return
    for entry in entries:
        if entry.is_dir and entry.path.isdecimal() and TxnId(int(entry.path)) < min_open:
            context.fs.delete_tree(f"{_directory(context)}/{entry.path}")


def _directory(context: Context) -> str:
    return f"{context.warehouse}/{STORE_DIRECTORY}/flushed"
