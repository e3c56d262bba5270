"""Checks of names, side files and footers, which need no Spark.

A check raises nothing for damaged files: it reports them. Findings and their severity are defined in
``core.snapshot.check_findings``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from hiveacid.core.format.names import ACID_VERSION_FILE, ends_below, parse_bucket_file
from hiveacid.core.model import Partition, TableDefinition, TableKind
from hiveacid.core.schema.partitions import require_partitions
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot.check_findings import (
    CheckedFile,
    Finding,
    FindingKind,
    check_events,
    check_flush_length,
    check_layout,
    check_version_files,
    sorted_findings,
)
from hiveacid.core.snapshot.classify_entries import FileItem, ItemState
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.file_records import first_difference, listed_entries
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, select
from hiveacid.errors import FormatError, StorageError, UnsupportedFeatureError
from hiveacid.orc.acid_footer import check_footer, event_facts_of_footer, has_acid_columns
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.ports.store import own_store
from hiveacid.storage.snapshot_locations import map_in_threads
from hiveacid.table.read.flush_length_files import read_flush_length
from hiveacid.table.read.inventory import LocationInventory, TableAccess, TableInventory, inventory_of

_MAGIC = {FileKind.PARQUET: (b"PAR1", b"PAR1"), FileKind.AVRO: (b"Obj\x01", b"")}  # first and last bytes


@dataclass(frozen=True)
class UsedFile:
    """A data file of the snapshot. ``limit``: readable bytes; ``event``: set for a file with row ids.

    ``limited``: the file is streamed and has a side file with its readable length.
    """

    path: str  # absolute
    place: LocationInventory
    file: DataFile
    limit: int
    event: CheckedFile | None = None
    limited: bool = False


@dataclass
class FileChecks:
    """Findings so far, footers by absolute path, and unreadable files."""

    findings: list[Finding] = field(default_factory=list)
    tails: dict[str, OrcTail] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    used: list[UsedFile] = field(default_factory=list)


def check_files(access: TableAccess, inventory: TableInventory) -> FileChecks:
    """Check every location of a table, and the footer of every file of the snapshot."""
    checks = FileChecks()
    table = inventory.table
    for path in inventory.unknown:
        message = "readers ignore it"
        checks.findings.append(Finding(FindingKind.UNKNOWN_PARTITION, f"{table.location}/{path}", message))
    for location in inventory.locations:
        if location.inventory is None:
            message = "the directory does not exist"
            checks.findings.append(
                Finding(FindingKind.MISSING_DIRECTORY, location.root, message, location.name)
            )
            continue
        write_ids = inventory.snapshot.write_ids
        checks.findings += check_layout(
            location.inventory, write_ids, table.kind, location.root, location.name
        )
        checks.used += _used_files(access, table.kind, location, checks)
    checks.findings += _check_records(access, inventory)
    checks.findings += _check_outside_partitions(inventory)
    if table.kind is TableKind.FULL_ACID:
        for texts in map_in_threads(partial(_version_files, access), inventory.locations, table.location):
            checks.findings += texts
    for used, tail, findings in map_in_threads(
        partial(_check_file, access, inventory), checks.used, table.location
    ):
        checks.findings += findings
        if tail is not None:
            checks.tails[used.path] = tail
        if any(finding.kind in _UNREADABLE for finding in findings):
            checks.bad.add(used.path)
    return checks


def check_quick(
    access: TableAccess,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    partition: Mapping[str, str | None] | None = None,
) -> tuple[Finding, ...]:
    """Check names, side files and footers; no row is read, no Spark is needed.

    ``partition``: a (partial) partition spec, as for `inventory_of_partitions`.
    """
    return sorted_findings(
        check_files(access, inventory_of_partitions(access, table, partitions, partition)).findings
    )


def inventory_of_partitions(
    access: TableAccess,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    partition: Mapping[str, str | None] | None = None,
) -> TableInventory:
    """Return the inventory of all partitions, or of those of a (partial) spec. Raises NoSuchPartitionError."""
    if not partition:
        return inventory_of(access, table, partitions)
    return inventory_of(access, table, require_partitions(table, partitions or (), partition), whole=False)


_UNREADABLE = (
    FindingKind.UNREADABLE_FILE,
    FindingKind.NOT_ACID,
    FindingKind.ACID_ORIGINAL,
    FindingKind.SHORT_FILE,
)


def _check_outside_partitions(inventory: TableInventory) -> Iterator[Finding]:
    folders: dict[str, FileItem] = {}
    for item in inventory.beside:
        if not any(item.path.startswith(f"{path}/") for path in inventory.unknown):
            folders.setdefault(item.directory or item.path, item)
    kinds = {ItemState.STAGING: FindingKind.STAGING, ItemState.FOREIGN: FindingKind.FOREIGN_FILE}
    for folder, item in folders.items():
        kind = kinds.get(item.state, FindingKind.LEFTOVER if item.directory else None)
        if kind is not None:
            yield Finding(kind, f"{inventory.table.location}/{folder}", item.reason)


def _check_records(access: TableAccess, inventory: TableInventory) -> Iterator[Finding]:
    """Compare what the snapshot reads by the listing and by the records of commits, if these are complete."""
    table, snapshot = inventory.table, inventory.snapshot
    if table.kind is TableKind.PLAIN or not access.store.maintained_by_hiveacid():
        return
    records = own_store(access.store).recorded_files(table.name, inventory.partitions)
    # a partition that was dropped meanwhile has files, perhaps, and no records
    if records is None or access.catalog.get_table(table.name) != table:
        return
    partitions = inventory.partitions or [None] * len(inventory.locations)
    for location, partition in zip(inventory.locations, partitions, strict=True):
        listed = location.inventory.state if location.inventory else None
        if listed is None:
            continue
        key, lowest = ((), 0) if partition is None else (partition.key, partition.min_write_id)
        directories = [one for one in records[key] if not ends_below(one.name, lowest)]
        row_ids = table.kind is TableKind.FULL_ACID
        recorded = select(
            listed_entries(directories), snapshot.write_ids, snapshot.txns, row_ids=row_ids, history_kept=True
        )
        difference = first_difference(listed, recorded)
        if difference is not None:
            path, message = difference
            yield Finding(
                FindingKind.WRONG_RECORD, f"{location.root}/{path}".rstrip("/"), message, location.name
            )


def _used_files(
    access: TableAccess, kind: TableKind, location: LocationInventory, checks: FileChecks
) -> Iterator[UsedFile]:
    state = location.inventory.state if location.inventory else None
    if kind is TableKind.PLAIN:
        for item in location.files:
            if item.state is ItemState.USED:
                yield UsedFile(
                    f"{location.root}/{item.path}", location, DataFile(item.path, item.bytes), item.bytes
                )
        return
    for directory, file in read_files(state, kind):
        path = f"{location.root}/{file.path}"
        limit = file.size
        if file.flush_length_path is not None:
            flush_length = read_flush_length(
                access.fs, path, f"{location.root}/{file.flush_length_path}", file.size
            )
            if flush_length.side_file is not None:
                checks.findings += check_flush_length(
                    path, flush_length.size, flush_length.side_file, location.name
                )
            limit = min(flush_length.size, flush_length.length)
        event = None
        bucket = parse_bucket_file(file.name)
        if directory is not None and bucket is not None and kind is TableKind.FULL_ACID:
            event = CheckedFile(path, directory.name, bucket.bucket, location.name)
        if limit > 0:
            yield UsedFile(path, location, file, limit, event, file.flush_length_path is not None)


def read_files(state: AcidState | None, kind: TableKind) -> Iterator[tuple[AcidDirectory | None, DataFile]]:
    """Yield the files that a snapshot reads, each with its directory of the layout (None: the root)."""
    if state is None:
        return
    for file in state.originals:
        yield None, file
    for directory in state.directories_to_read:
        files: Iterable[DataFile] = directory.files
        if kind is TableKind.FULL_ACID:
            files = (*directory.acid_files, *directory.loaded_files)
        yield from ((directory, file) for file in files)


def _version_files(access: TableAccess, location: LocationInventory) -> list[Finding]:
    state = location.inventory.state if location.inventory else None
    if state is None:
        return []
    present = {entry.path for entry in location.entries}
    texts: dict[str, bytes | None] = {}
    for directory in state.directories_to_read:
        path = f"{directory.path}/{ACID_VERSION_FILE}"
        if path in present:
            texts[directory.path] = access.fs.read_bytes(f"{location.root}/{path}", 0, 64)
        elif directory.acid_files:
            texts[directory.path] = None
    return list(check_version_files(texts, location.root, location.name))


def _check_file(
    access: TableAccess, inventory: TableInventory, used: UsedFile
) -> tuple[UsedFile, OrcTail | None, list[Finding]]:
    """Check a file by its footer or its first and last bytes, without reading its rows."""
    kind = file_kind(inventory.table.storage)
    name = used.place.name
    try:
        if kind in _MAGIC:
            first, last = _MAGIC[kind]
            start, end = access.fs.read_bytes(used.path, 0, 4), access.fs.read_bytes(used.path, -4)
            is_valid = start == first and (not last or end == last)
            text = f"it does not begin and end like a file of the format {kind}" if not is_valid else ""
            return used, None, [Finding(FindingKind.UNREADABLE_FILE, used.path, text, name)] if text else []
        if kind is not FileKind.ORC:
            return used, None, []
        tail = read_tail(access.fs, used.path, used.limit)
    except (FormatError, StorageError) as error:
        return used, None, [Finding(FindingKind.UNREADABLE_FILE, used.path, str(error), name)]
    except UnsupportedFeatureError as error:
        return used, None, [Finding(FindingKind.NOT_CHECKED, used.path, str(error), name)]
    return used, tail, list(_footer(inventory, used, tail))


def _footer(inventory: TableInventory, used: UsedFile, tail: OrcTail) -> Iterator[Finding]:
    if inventory.table.kind is not TableKind.FULL_ACID:
        return
    if used.event is None:
        if has_acid_columns(tail):
            message = "Hive 3.1 and hiveacid fail on it"
            yield Finding(FindingKind.ACID_ORIGINAL, used.path, message, used.place.name)
        return
    if not has_acid_columns(tail):
        columns = ", ".join(tail.types[0].names[:6]) if tail.types else ""
        yield used.event.finding(FindingKind.NOT_ACID, f"its columns are {columns or 'none'}")
        return
    yield from check_footer(tail, used.event)
    yield from check_events(used.event, event_facts_of_footer(tail), inventory.snapshot.write_ids)


_SCHEME = re.compile(r"^file:/+")


def plain_path(uri: str) -> str:
    """Return the path as in `UsedFile` from a URI of Spark whose escapes are already decoded."""
    return _SCHEME.sub("/", uri)
