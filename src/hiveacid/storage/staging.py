"""Staging: writers fill a hidden directory below the table; publishing gives its files their final names.

Only compactions at layout level hive3 depend on atomic directory renames. Nothing published is visible before its write
id commits.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from hiveacid.core.format.names import ACID_VERSION_FILE, parse_number
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import OWN_PREFIX, FileEntry
from hiveacid.errors import MissingDirectoryError, StorageError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.arrow_file_system import blocks

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


@dataclass(frozen=True)
class FinalNames:
    """Gives files their final names, which no reader sees before the commit. Several threads may share it.

    On local disks a file gets its new tail and is moved. Elsewhere (object stores, HDFS) the file system finishes it, and
    the staged file is deleted with its directory. No name is used twice, because an object store would replace the first
    file.
    """

    fs: FileSystem
    _taken: dict[str, set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def finish(self, source: str, target: str, start: int, tail: bytes) -> int:
        """Give a file a new tail and its final name; return its size. Raises StorageError.

        Old bytes after ``start`` may remain before the tail, and count.
        """
        if self.fs.replaces_tail_in_place(target):
            self.fs.replace_tail(source, start, tail)
            self.fs.move_file(source, target)
            return start + len(tail)
        self._take(target)
        return self.fs.finish_file(source, target, start, tail)

    def join(self, parts: Sequence[tuple[str, int]], tail: bytes, target: str) -> int:
        """Make one file of parts (paths and lengths) and a tail; return its size. Raises StorageError.

        Several parts are copied, block by block. Old bytes of a single one may remain before the tail, as in `finish`.
        """
        if len(parts) == 1:
            ((source, size),) = parts
            return self.finish(source, target, size, tail)
        self._take(target)
        data = chain.from_iterable(blocks(self.fs, source, 0, size) for source, size in parts)
        self.fs.write_pieces(target, chain(data, [tail]))
        return sum(size for _, size in parts) + len(tail)

    def _take(self, target: str) -> None:
        folder, _, name = target.rpartition("/")
        with self._lock:
            if folder not in self._taken:
                try:
                    self._taken[folder] = {entry.path for entry in self.fs.list_directory(folder)}
                except MissingDirectoryError:
                    self._taken[folder] = set()
            if name in self._taken[folder]:
                raise StorageError(f"cannot write {target}: the file exists")
            self._taken[folder].add(name)


def stage_version_file(fs: FileSystem, staging: str) -> None:
    """Write the version file for `mark_directory` into a staging directory, which DROP TABLE deletes.

    Call it before `Transaction.open_check`: a file that is written later could lie in a table dropped and made again.
    """
    fs.write_bytes(f"{staging}/{ACID_VERSION_FILE}", b"2")


def mark_directory(fs: FileSystem, directory: str, staging: str) -> None:
    """Put the staged version file into a directory of a full ACID table."""
    fs.link_file(f"{staging}/{ACID_VERSION_FILE}", f"{directory}/{ACID_VERSION_FILE}")
