"""Streamed files: only the part that their side file ``_flush_length`` vouches for may be read.

A writer that is still at work, or died, leaves more bytes behind that part: Spark would look for the footer at
their end. Such a part is copied aside, for the reading transaction alone, and read there.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hiveacid.core.listing import last_flush_length
from hiveacid.core.model import TxnId
from hiveacid.errors import BadFileError, MissingDirectoryError
from hiveacid.table.context import STORE_DIRECTORY

if TYPE_CHECKING:
    from hiveacid.core.listing import DataFile
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction


def readable(context: Context, txn: Transaction, path: str, file: DataFile) -> tuple[int, str | None]:
    """Return how many bytes of a file count and, where that is not all of it, the copy to read.

    Raises BadFileError for a file that is shorter than its side file says: rows of it are lost.
    """
    if file.flush_length_path is None:
        return file.size, None
    root = path.removesuffix(file.path)
    length = last_flush_length(context.fs.read_bytes(root + file.flush_length_path))
    if length > file.size:
        msg = f"{length} bytes were flushed, but only {file.size} are there: the rest is lost"
        raise BadFileError(msg, path=path)
    if length in (0, file.size):
        return length, None
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    copy = f"{_directory(context)}/{int(txn.txn_id)}/{name}-{length}"
    if not context.fs.exists(copy):
        context.fs.copy_file(path, copy, length)
    return length, copy


def forget(context: Context) -> None:
    """Delete the copies of transactions that have ended."""
    min_open = context.store.min_open_txn_id()
    try:
        entries = context.fs.list_tree(_directory(context))
    except MissingDirectoryError:
        return
    for entry in entries:
        if entry.is_dir and TxnId(int(entry.path)) < min_open:
            context.fs.delete_tree(f"{_directory(context)}/{entry.path}")


def _directory(context: Context) -> str:
    return f"{context.warehouse}/{STORE_DIRECTORY}/flushed"
