"""LOAD DATA [LOCAL] INPATH … [OVERWRITE] INTO TABLE: adds files unchanged, in a new delta or base.

The rules are those of Hive 4.0.1. In a full ACID table files are renamed ``000000_0``, ``000001_0`` … in the order of
their names, which determines their row ids. In other tables they keep their names. LOCAL copies files. Otherwise files
are moved: they are linked before the commit, and the old names are removed after it. For bucketed tables, partitioned
tables without a PARTITION clause, and directories with sub-directories, the rows are read and inserted instead. Their
files stay.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hiveacid import errors
from hiveacid.core.format.acid_columns import MAX_BUCKET
from hiveacid.core.format.names import format_original_file
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.evolution import map_columns, matching
from hiveacid.core.schema.location_overlap import may_lie_in
from hiveacid.core.schema.storage_formats import FileKind, supported_file_kind
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.file_records import RecordedFile
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.orc.footer_summary import FileSummary, facts_of, summarize
from hiveacid.orc.tail import read_tail
from hiveacid.ports.file_system import FileVersion
from hiveacid.ports.transactions import Start
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.spark.write.staged_files import StagedKind
from hiveacid.storage.paths import SourceFile, Sources, absolute, find_sources, real_path, real_paths
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.cleaning.remove_files import delete_plain_files
from hiveacid.table.context import Context
from hiveacid.table.definition import lock_of_location
from hiveacid.table.partitions import static_values
from hiveacid.table.read.table_snapshot import scan_locations
from hiveacid.table.write import insert
from hiveacid.table.write.constraints import constrain_insert, limits_rows
from hiveacid.table.write.output_directories import (
    existing_names,
    known_partitions,
    new_output_directories,
    record_written,
    staging,
    take_free_name,
)
from hiveacid.table.write.publish import PublishedFiles, WriteReport
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

# First bytes of files; hiveacid does not load the formats without a kind.
_MAGIC_BYTES = {
    b"PAR1": FileKind.PARQUET,
    b"ORC": FileKind.ORC,
    b"Obj\x01": FileKind.AVRO,
    b"SEQ": None,
    b"RCF": None,
}


@dataclass(frozen=True)
class _Checked:
    """A source that was looked at: the summary of an ORC file, and the version of the file that it is of."""

    summary: FileSummary | None
    version: FileVersion | None


_CheckedFiles = Mapping[SourceFile, _Checked]


@dataclass(frozen=True)
class LoadOptions:
    """Options of LOAD DATA. ``local``: copy the sources instead of moving them. ``partition`` as in InsertOptions."""

    local: bool = False
    overwrite: bool = False
    partition: Mapping[str, object] | None = None


def load(
    context: Context, name: TableName, path: str, options: LoadOptions, joined: Transaction | None
) -> WriteReport:
    """Load the files of a path. Before the commit no row is visible and no source file is removed.

    Raises InvalidPathError, FileFormatMismatchError, AcidFileLoadError, SchemaMismatchError.
    """
    table = context.require(name)
    static = static_values(context, table, options.partition)
    kind = supported_file_kind(table)
    sources, checked = _find_files(context, table, path, kind, {})
    reads_rows = _reads_rows(context, table, static, sources)
    locks = [insert.insert_lock(context, table, static, overwrite=options.overwrite)]
    if not options.local and not reads_rows:
        _require_movable(context, sources.files)
        locks.append(lock_of_location(sources.files[0].path.rpartition("/")[0]))
    changed_tables = () if table.kind is TableKind.PLAIN else (name,)
    with context.transactions.scope(context.settings, joined, Start(tuple(locks), changed_tables)) as txn:
        # while it waited, another table may have got the name, another LOAD DATA the files, and their producer replaced them
        table = context.require(name)
        static, expected = static_values(context, table, options.partition), kind
        kind = supported_file_kind(table)
        sources, checked = _find_files(context, table, path, kind, checked if kind is expected else {})
        _require_not_loaded(sources.files, txn)
        reads_rows = reads_rows or _reads_rows(context, table, static, sources)
        if reads_rows or limits_rows(context, table):
            return _insert(context, table, sources.files, static, options, txn)
        if table.kind is TableKind.FULL_ACID or kind is FileKind.ORC:
            _require_columns(context, table, checked)
        return _load_files(context, table, sources.files, checked, static, options, txn)


def _reads_rows(
    context: Context, table: TableDefinition, static: Mapping[str, str | None], sources: Sources
) -> bool:
    """Tell whether rows are inserted instead of files moved or copied."""
    if sources.nested or table.bucketing is not None or len(static) < len(table.partition_columns):
        return True
    # Each file becomes a bucket of its own; a row id has room for no more buckets.
    max_files = 1 if context.single_bucket(table) else MAX_BUCKET + 1
    return table.kind is TableKind.FULL_ACID and len(sources.files) > max_files


def _find_files(
    context: Context, table: TableDefinition, path: str, kind: FileKind, known: _CheckedFiles
) -> tuple[Sources, _CheckedFiles]:
    """Find the files and read what is not ``known`` of their formats."""
    sources = find_sources(context.fs, absolute(path))
    return sources, {
        file: known[file] if file in known else _check_format(context, table, file, kind)
        for file in sources.files
    }


def _check_format(context: Context, table: TableDefinition, file: SourceFile, kind: FileKind) -> _Checked:
    """Return the summary of an ORC file, None for other formats, with the version that the file had before.

    Raises FileFormatMismatchError for a file of another format than the table's, AcidFileLoadError for one with ACID events.
    """
    version = context.fs.file_version(file.path)
    if not file.size:
        return _Checked(None, version)
    head = context.fs.read_bytes(file.path, 0, 4)
    actual_kind = next(
        (value for magic, value in _MAGIC_BYTES.items() if head.startswith(magic)), FileKind.TEXTFILE
    )
    if actual_kind is not kind:
        advice = ": LOAD DATA takes files as they are"
        if actual_kind is FileKind.TEXTFILE:
            advice += (
                "; INSERT INTO … SELECT * FROM csv.`/path` WITH (header = true) and hiveacid ingest read text"
            )
        raise errors.FileFormatMismatchError(
            f"{file.path} does not match the file format of the destination table {table.name} ({kind}){advice}"
        )
    if kind is not FileKind.ORC:
        return _Checked(None, version)
    try:
        summary = summarize(read_tail(context.fs, file.path, file.size))
    except errors.BadFileError as error:
        raise errors.FileFormatMismatchError(f"{file.path} is not a complete ORC file: {error}") from error
    if summary.is_acid:
        raise errors.AcidFileLoadError(
            f"{file.path} was created by an ACID write: it cannot be loaded into another table; INSERT … SELECT from "
            "its own table"
        )
    return _Checked(summary, version)


def _require_columns(context: Context, table: TableDefinition, checked: _CheckedFiles) -> None:
    rule = matching(table, context.layout_level(table))
    for file, found in checked.items():
        summary = found.summary
        sources = map_columns(table.columns, summary.schema, rule).columns if summary is not None else ()
        problem = next((source.problem for source in sources if source.problem), None)
        if problem:
            raise errors.SchemaMismatchError(f"{file.path}: {problem}")


def _require_movable(context: Context, files: Sequence[SourceFile]) -> None:
    """Refuse files that belong to a transactional table, and directories from which files cannot be removed."""
    paths = [real_path(file.path) for file in files]
    resolve = real_paths()
    for place in context.catalog.places():
        if place.table is None:
            continue
        location = resolve(place.location)
        if not any(may_lie_in(path, location) for path in paths):
            continue
        owner = context.catalog.get_table(place.table)
        if owner is not None and owner.kind is not TableKind.PLAIN:
            raise errors.InvalidPathError(
                f"{files[0].path} belongs to the table {owner.name}: INSERT … SELECT from it"
            )
    for folder in sorted({file.path.rpartition("/")[0] for file in files}):
        probe = f"{folder}/.hiveacid-{secrets.token_hex(4)}"
        try:
            context.fs.write_bytes(probe, b"")
            context.fs.delete_tree(probe)
        except errors.StorageError as error:
            raise errors.InvalidPathError(
                f"files cannot be moved out of {folder}: copy them by LOAD DATA LOCAL"
            ) from error


def _require_not_loaded(files: Sequence[SourceFile], txn: Transaction) -> None:
    """Refuse files that the transaction has moved into a table; until its commit they have their old names, too."""
    again = next((file.path for file in files if real_path(file.path) in txn.pending.loaded), None)
    if again is not None:
        raise errors.InvalidPathError(
            f"{again} was loaded earlier in this transaction, whose commit removes it: a file goes into one table, once"
        )


def _insert(
    context: Context,
    table: TableDefinition,
    files: Sequence[SourceFile],
    static: Mapping[str, str | None],
    options: LoadOptions,
    txn: Transaction,
) -> WriteReport:
    """Read the files as those of a plain table whose last columns are the dynamic partition columns; insert the rows."""
    dynamic = tuple(c for c in table.partition_columns if c.name not in static)
    root = _common_root(files)
    plain = replace(
        table,
        columns=(*table.columns, *dynamic),
        partition_columns=(),
        bucketing=None,
        location=root,
        properties=(),
    )
    data_files = tuple(DataFile(file.path.removeprefix(f"{root}/"), file.size) for file in files)
    location = Location(root, AcidState(None, (), (), data_files))
    with translate_errors():
        frame = scan_locations(context, plain, [location], txn.valid_write_ids(table.name), txn)
        rows = fit_columns(
            table, frame.select(*[quote_name(c.name) for c in plain.columns]), static, None, by_name=False
        )
    rows = constrain_insert(context, table, rows, static)
    insert_options = insert.InsertOptions(overwrite=options.overwrite, history_verb="LOAD")
    return insert.write_rows(context, table, rows, static, insert_options, txn)


def _common_root(files: Sequence[SourceFile]) -> str:
    folders = [file.path.split("/")[:-1] for file in files]
    common = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def _load_files(
    context: Context,
    table: TableDefinition,
    files: Sequence[SourceFile],
    checked: _CheckedFiles,
    static: Mapping[str, str | None],
    options: LoadOptions,
    txn: Transaction,
) -> WriteReport:
    insert_options = insert.InsertOptions(overwrite=options.overwrite)
    insert.require_writable(context, table, insert_options, txn)
    if not options.overwrite:
        insert.require_no_acid_v1_events(context, table, txn)
    partitions = known_partitions(context, table, txn)
    values = partitions.values_of(tuple(static[c.name] for c in table.partition_columns))
    outputs = new_output_directories(context, table, txn, partitions, overwrite=options.overwrite)
    transactional = table.kind is not TableKind.PLAIN
    with staging(context, table, txn) as staged:
        # DROP TABLE deletes the staged files of a paused writer; object stores would copy each file twice
        staged_first = context.fs.replaces_tail_in_place(staged)
        linked = {}
        for number, file in enumerate(files if staged_first else ()):
            linked[file.path] = _take(context, file.path, f"{staged}/{number}", options)
        check = outputs.begin_publishing(staged)
        check()
        if not transactional:  # its files cannot be taken back
            _require_present(context, linked, txn)
        directory = (
            outputs.directory(StagedKind.INSERTED, values) if transactional else outputs.location(values)
        )
        if not transactional and options.overwrite:
            _require_outside(files, directory)
            delete_plain_files(context, [directory], check)
        names = set() if transactional else existing_names(context, directory)
        placed, recorded = [], []
        for number, file in enumerate(files):
            is_acid = table.kind is TableKind.FULL_ACID
            name = format_original_file(number) if is_acid else take_free_name(file.name, names)
            placed.append((file, f"{directory}/{name}"))
            summary = checked[file].summary
            recorded.append(RecordedFile(name, file.size, None if summary is None else facts_of(summary)))
        for number, (file, target) in enumerate(placed):
            check()
            if staged_first:
                context.fs.move_file(f"{staged}/{number}", target)
            else:
                linked[file.path] = _take(context, file.path, target, options)
    if transactional:
        loaded = {one.name: file for (file, _), one in zip(placed, recorded, strict=True)}
        _require_unchanged(context, directory, loaded, {file: linked[file.path] for file in files}, checked)
        txn.pending.before_commit.append(lambda: _require_present(context, linked, txn))
    txn.pending.loaded.update(real_path(path) for path, version in linked.items() if version is not None)
    txn.pending.on_commit.append(lambda: _remove(context, linked))
    if supported_file_kind(table) is FileKind.ORC:
        rows = sum(found.summary.rows for found in checked.values() if found.summary is not None)
    else:
        rows = insert.count_flat_rows(context, table, [target for file, target in placed if file.size])
    published = PublishedFiles(
        {(StagedKind.INSERTED, ()): rows},
        (directory,),
        len(files),
        sum(f.size for f in files),
        {(): tuple(target for _, target in placed)},
        {directory: tuple(recorded)},
    )
    return record_written(outputs, published, rows, "LOAD")


def _take(context: Context, source: str, target: str, options: LoadOptions) -> FileVersion | None:
    """Link a file that is to be moved, and return its version; copy a file that is to stay."""
    if not options.local:
        return context.fs.link_file(source, target)
    context.fs.copy_file(source, target)
    return None


def _require_unchanged(
    context: Context,
    directory: str,
    loaded: Mapping[str, SourceFile],
    linked: Mapping[SourceFile, FileVersion | None],
    checked: _CheckedFiles,
) -> None:
    """Raise InvalidPathError if a file is not the one that was checked: readers rely on what the commit records of it."""
    sizes = {entry.path: entry.size for entry in context.fs.list_tree(directory)}
    changed = [
        (file, f"{file.size} bytes before, {sizes.get(name)} now")
        for name, file in loaded.items()
        if sizes.get(name) != file.size
    ]
    changed += [
        (file, "another file has its name")
        for file, version in linked.items()
        if (version or context.fs.file_version(file.path))
        != checked[file].version  # a copied one may have changed before
    ]
    if changed:
        file, how = changed[0]
        raise errors.InvalidPathError(
            f"{file.path} was changed while it was loaded ({how}), so nothing was loaded: load it once its writer has closed it"
        )


def _require_present(context: Context, linked: Mapping[str, FileVersion | None], txn: Transaction) -> None:
    """Abort if a source is gone: another LOAD DATA, which had committed before, was still removing what it had taken."""
    gone = [path for path, version in linked.items() if version and context.fs.file_version(path) is None]
    if gone:
        reason = f"{gone[0]} is gone, perhaps into a table by another LOAD DATA: nothing was loaded"
        txn.abort(reason[:200])
        raise errors.InvalidPathError(reason)


def _require_outside(files: Sequence[SourceFile], directory: str) -> None:
    """Refuse sources in a directory whose files an OVERWRITE deletes before it adds the sources."""
    root = real_path(directory)
    for file in files:
        folder, _, _ = file.path.rpartition("/")
        # The file itself, and a symbolic link in the directory to a file elsewhere.
        if may_lie_in(real_path(file.path), root) or may_lie_in(real_path(folder), root):
            raise errors.InvalidPathError(
                f"{file.path} lies in {directory}, whose files the OVERWRITE deletes first: copy it to another directory "
                "and load it from there"
            )


def _remove(context: Context, linked: Mapping[str, FileVersion | None]) -> None:
    """Delete the loaded sources, but not a file that a producer has delivered under the same name meanwhile."""
    for path, version in linked.items():
        if version is None:
            continue
        now = context.fs.file_version(path)
        if now == version:
            context.fs.delete_tree(path)
        elif now is not None:
            logger.warning(
                "kept %s: it was replaced or changed after LOAD DATA had taken it; load a new file by another LOAD DATA",
                path,
            )
