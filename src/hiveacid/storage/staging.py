"""Staging: writers fill a hidden directory below the table; publishing moves the files to their final names.

Nothing depends on atomic directory renames, and nothing published is visible before its write id commits.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hiveacid.core.model import TxnId
from hiveacid.core.names import ACID_VERSION_FILE
from hiveacid.errors import BadFileError
from hiveacid.ports import FileEntry, FileSystem

ACID_VERSION = b"2"
"""Content of ``_orc_acid_version``: one byte, no newline (``AcidUtils.OrcAcidVersion``)."""

_PREFIX = ".hiveacid-staging-"
_NAME = re.compile(re.escape(_PREFIX) + r"([0-9]+)-[0-9a-f]+")


def new_staging_directory(location: str, txn_id: TxnId) -> str:
    """Return the path of a new staging directory of a transaction below a table's location (not created)."""
    return f"{location.rstrip('/')}/{staging_name(txn_id, secrets.token_hex(6))}"


def staging_name(txn_id: TxnId, token: str) -> str:
    """Return the directory name; ``token`` (hexadecimal) tells a transaction's statements apart."""
    return f"{_PREFIX}{txn_id}-{token}"


def staging_txn_id(name: str) -> TxnId | None:
    """Return the transaction that a staging directory belongs to; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else TxnId(int(match[1]))


def abandoned(entries: Iterable[FileEntry], is_open: Callable[[TxnId], bool]) -> tuple[str, ...]:
    """Return the staging directories in a table's listing (relative paths) whose transactions have ended."""
    found = []
    for entry in entries:
        txn_id = staging_txn_id(entry.path) if entry.is_dir else None
        if txn_id is not None and not is_open(txn_id):
            found.append(entry.path)
    return tuple(found)


@dataclass(frozen=True)
class Move:
    """A staged file and its final name, both absolute."""

    source: str
    target: str


@dataclass(frozen=True)
class PublishPlan:
    """What publishing does: moves, then one version file in each of the directories."""

    moves: tuple[Move, ...] = ()
    version_directories: tuple[str, ...] = ()


def plan_publish(moves: Sequence[Move], *, full_acid: bool, keep: Sequence[str] = ()) -> PublishPlan:
    """Plan the publishing of staged files.

    ``full_acid``: every directory gets its ``_orc_acid_version`` (insert-only directories have none).
    ``keep``: directories that must exist even if no file goes there (an empty base). Raises BadFileError
    when two files claim one name.
    """
    taken: set[str] = set()
    for move in moves:
        if move.target in taken:
            raise BadFileError("two staged files claim one name", path=move.target)
        taken.add(move.target)
    directories = {target.rpartition("/")[0] for target in taken} | set(keep)
    return PublishPlan(tuple(moves), tuple(sorted(directories)) if full_acid else ())


def publish(fs: FileSystem, plan: PublishPlan) -> None:
    """Carry out a plan. Raises StorageError, also where a target exists already; what was moved stays moved."""
    for directory in plan.version_directories:
        fs.make_directory(directory)
    for move in plan.moves:
        fs.move_file(move.source, move.target)
    for directory in plan.version_directories:
        fs.write_bytes(f"{directory}/{ACID_VERSION_FILE}", ACID_VERSION)
