"""Staging: writers fill a hidden directory below the table; publishing moves the files to their final names.

Nothing depends on atomic directory renames, and nothing published is visible before its write id commits.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable

from hiveacid.core.format.names import parse_number
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import OWN_PREFIX, FileEntry
from hiveacid.errors import StorageError
from hiveacid.ports.file_system import FileSystem

logger = logging.getLogger(__name__)

WRITE_PREFIX = f"{OWN_PREFIX}write-"
"""Staging prefix of ``df.write.format("hiveacid")``, before a transaction begins: one directory per job."""
STREAM_PREFIX = f"{OWN_PREFIX}stream-"
"""Staging prefix of ``writeStream.format("hiveacid")``: one directory per query."""
_PREFIX = f"{OWN_PREFIX}staging-"
_NAME = re.compile(re.escape(_PREFIX) + r"([0-9]+)-[0-9a-f]+")


def new_staging_directory(location: str, txn_id: TxnId) -> str:
    """Return the path of a new staging directory of a transaction below a table's location (not created)."""
    return f"{location.rstrip('/')}/{staging_name(txn_id, secrets.token_hex(6))}"


def delete_staging(fs: FileSystem, directory: str) -> None:
    """Delete a staging directory, or leave it to the cleaner if the file system cannot be reached.

    A StorageError is only logged: the files are published or useless by now, and it must not hide the statement's own error.
    """
    try:
        fs.delete_tree(directory)
    except StorageError as error:
        logger.warning("staging directory %s is left to the cleaner: %s", directory, error)


def staging_name(txn_id: TxnId, token: str) -> str:
    """Return the directory name; ``token`` (hexadecimal) tells a transaction's statements apart."""
    return f"{_PREFIX}{txn_id}-{token}"


def staging_txn_id(name: str) -> TxnId | None:
    """Return the transaction that a staging directory belongs to; None for any other name."""
    match = _NAME.fullmatch(name)
    txn_id = None if match is None else parse_number(match[1])
    return None if txn_id is None else TxnId(txn_id)


def abandoned_staging(entries: Iterable[FileEntry], is_open: Callable[[TxnId], bool]) -> tuple[str, ...]:
    """Return the staging directories in a listing (relative paths) whose transactions have ended.

    Writers stage below the table. Compactions stage below the partition, because moving the result as one directory needs
    one file system.
    """
    found = []
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        txn_id = staging_txn_id(name) if entry.is_dir else None
        if any(part.startswith((".", "_")) for part in above.split("/")):
            continue  # in a hidden directory: a user's copy, or a part of another staging directory
        if txn_id is not None and not is_open(txn_id):
            found.append(entry.path)
    return tuple(found)


def expired_staging(entries: Iterable[FileEntry], before: int) -> tuple[str, ...]:
    """Return the staging directories of jobs and streaming queries in a listing, unchanged since ``before`` (ms).

    They belong to no transaction, so only their age shows that the job has died. A job that is still alive finds its
    files missing and fails; it never commits only a part of its rows.
    """
    latest: dict[str, int] = {}
    for entry in entries:
        top = entry.path.partition("/")[0]
        if top.startswith((WRITE_PREFIX, STREAM_PREFIX)):
            latest[top] = max(latest.get(top, 0), entry.modified)
    return tuple(top for top, modified in latest.items() if modified < before)
