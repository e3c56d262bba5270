"""From a table's directories to what a snapshot reads: list, look at side files, let ``core.snapshot`` decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from hiveacid.core.listing import DataFile, metadata_paths
from hiveacid.core.model import Partition, TableDefinition, TableKind, TxnId, WriteId
from hiveacid.core.names import DeltaName, is_hidden, parse_directory
from hiveacid.core.snapshot import AcidState, select
from hiveacid.core.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.errors import FormatError
from hiveacid.ports import FileEntry, FileSystem

ADOPTED_TXN = "hiveacid.adopted.txn"
ADOPTED_INVALID = "hiveacid.adopted.invalid.txns"
HISTORY_FROM = "hiveacid.history.from"
"""Table property: snapshots before this write id are not whole any more (the cleaner took their files)."""
HISTORY_RETENTION = "hiveacid.history.retention"
"""Table property: for how long (``7d``, a number of seconds) what a compaction replaced is kept for time travel and
change feeds."""
CONVERSION = "hiveacid.conversion"
"""Table property: the write id under which a plain table's files move into a delta directory. A plain table's
readers pass over that directory, those of a transactional one over files that still lie beside it."""
MIGRATION = "hiveacid.migration"
"""Table property: the other store of a table that is on its way from one to another; nobody uses it meanwhile."""
RESERVED_PROPERTIES = frozenset({ADOPTED_TXN, ADOPTED_INVALID, HISTORY_FROM, CONVERSION, MIGRATION})
_THREADS = 16
_COPYING = "._COPYING_"
"""End of names that Hadoop gives to files while they are put there; Spark reads none of them."""

T = TypeVar("T")


@dataclass(frozen=True)
class Location:
    """A table's or partition's directory and what a snapshot sees in it."""

    root: str
    state: AcidState
    partition: Partition | None = None


def list_locations(
    fs: FileSystem,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    history_kept: bool = False,
) -> tuple[Location, ...]:
    """List and select every partition (or the table itself where ``partitions`` is None).

    ``history_kept`` as in `core.snapshot.select`.

    Raises MissingDirectoryError naming the directory that is not there.
    """

    def look(root: str, partition: Partition | None) -> Location:
        return read_location(fs, table, root, partition, write_ids, txns, history_kept=history_kept)

    return at_each(table, partitions, look)


def at_each(
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    look: Callable[[str, Partition | None], T],
) -> tuple[T, ...]:
    """Look at every partition (or the table itself where ``partitions`` is None), several at a time."""
    if partitions is None:
        return (look(table.location, None),)
    if not partitions:
        return ()
    if len(partitions) == 1:
        return (look(partitions[0].location, partitions[0]),)
    with ThreadPoolExecutor(min(_THREADS, len(partitions))) as pool:
        return tuple(pool.map(lambda one: look(one.location, one), partitions))


def read_location(
    fs: FileSystem,
    table: TableDefinition,
    root: str,
    partition: Partition | None,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    history_kept: bool = False,
) -> Location:
    """List one directory and select what the snapshot reads of it. Errors name the whole path."""
    entries = list_adopted(fs, table, root)
    if table.kind is TableKind.PLAIN:
        return Location(root, AcidState(None, (), (), tuple(plain_files(entries, table))), partition)
    try:
        metadata = read_metadata(fs, root, entries)
        state = select(
            entries,
            write_ids,
            txns,
            metadata,
            adopted_txn_id=adopted_txn_id(table),
            row_ids=table.kind is TableKind.FULL_ACID,
            history_kept=history_kept,
        )
    except FormatError as error:
        raise error.below(root) from error
    return Location(root, without_moved(table, state), partition)


def without_moved(table: TableDefinition, state: AcidState) -> AcidState:
    """Return the state without original files that a conversion has linked into a delta directory."""
    if table.property(CONVERSION) is None or not state.originals:
        return state
    moved = tuple(file.path for file in state.originals)
    return replace(state, originals=(), obsolete=tuple(sorted({*state.obsolete, *moved})))


def list_adopted(fs: FileSystem, table: TableDefinition, root: str) -> tuple[FileEntry, ...]:
    """List a location without what compactions left that had not committed when the table was adopted."""
    entries = fs.list_tree(root)
    invalid = lost_txn_ids(table)
    if not invalid:
        return entries
    return tuple(entry for entry in entries if visibility(entry.path) not in invalid)


def lost_txn_ids(table: TableDefinition) -> frozenset[int]:
    """Return visibility transaction ids of compactions that had not committed when the table was adopted."""
    texts = (table.property(ADOPTED_INVALID) or "").split(",")
    return frozenset(int(txn_id) for txn_id in texts if txn_id)


def visibility(path: str) -> int:
    """Return the visibility transaction id in the name of the directory that a path begins with, 0 if none."""
    top = path.partition("/")[0]
    name = None if is_hidden(top) else parse_directory(top)
    return 0 if name is None else int(name.visibility_txn_id)


def read_metadata(fs: FileSystem, root: str, entries: Sequence[FileEntry]) -> dict[str, str]:
    """Return the texts of ``_metadata_acid`` files by their directory."""
    return {
        path.rpartition("/")[0]: fs.read_bytes(f"{root}/{path}").decode("utf-8", "replace")
        for path in metadata_paths(entries)
    }


def adopted_txn_id(table: TableDefinition) -> TxnId:
    """Return the highest visibility transaction id that another engine left when the table was adopted."""
    return TxnId(int(table.property(ADOPTED_TXN) or 0))


def plain_files(entries: Iterable[FileEntry], table: TableDefinition) -> Iterable[DataFile]:
    """Return the data files of a table that knows no transactions: everything that is not hidden, or being copied there."""
    write_id = WriteId(int(table.property(CONVERSION) or 0))
    moving = DeltaName(is_delete=False, min_write_id=write_id, max_write_id=write_id, statement_id=0).format()
    for entry in entries:
        parts = entry.path.split("/")
        hidden = any(is_hidden(part) for part in parts) or parts[-1].endswith(_COPYING)
        if not entry.is_dir and not hidden and parts[0] != moving:
            yield DataFile(entry.path, entry.size, modified=entry.modified)
