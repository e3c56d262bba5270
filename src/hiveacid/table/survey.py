"""What the files of a snapshot are: each footer read once, several at a time.

A footer tells what the listing cannot: whether a file without a bucket's name holds rows with ids, how its columns
lie to the table's, how many rows come before another original file, where delete events' keys lie, and whether
ACID v1 left its update events there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.evolution import Recipe, matching, recipe
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.originals import OriginalRows, number_originals
from hiveacid.core.storage_formats import FileKind, file_kind
from hiveacid.core.types import Struct
from hiveacid.errors import BadFileError, FormatError
from hiveacid.orc.summary import FileSummary, Seen, summarize
from hiveacid.orc.tail import read_tail
from hiveacid.spark.deletes import DeleteBounds, measure
from hiveacid.spark.originals import Numbered
from hiveacid.spark.paths import FileFacts
from hiveacid.spark.scan import data_directories, flat_files
from hiveacid.table.flushed import readable

if TYPE_CHECKING:
    from hiveacid.core.listing import DataFile
    from hiveacid.core.snapshot import AcidDirectory
    from hiveacid.storage.listing import Location
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

_THREADS = 16


@dataclass(frozen=True)
class Survey:
    """Facts of ORC files by absolute path; row ids of files without; the delete events' bounds.

    ``old``: a file with rows may hold update and delete events as well (ACID v1).
    """

    files: Mapping[str, FileFacts] = field(default_factory=dict)
    numbered: Numbered = field(default_factory=dict)
    bounds: DeleteBounds | None = None
    old: bool = False


def survey(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Survey:
    """Look at the files of listed locations. Raises BadFileError, naming the file."""
    if table.kind is not TableKind.FULL_ACID:
        if file_kind(table.storage) is not FileKind.ORC:
            return Survey()
        paths = [_Path.of(at, file) for at in locations for file in flat_files(at)]
        return Survey(_facts(context, table, paths, summaries(context, paths)))
    events = [_Path.of(at, file) for at in locations for file in _files(at.state.delete_deltas)]
    data = [_Path.of(at, file) for at in locations for file in _files(data_directories(at))]
    raw = {at.root: list(_raw(at)) for at in locations}
    originals = [_Path.of(at, file) for at in locations for _, files in raw[at.root] for file in files]
    paths = [*_flushed(context, table.name, txn, data), *events, *originals]
    found = summaries(context, paths)
    _require_kinds(found, acid=[path.own for path in (*data, *events)], raw=[path.own for path in originals])
    bounds = measure([found[path.own] for path in events], context.settings.get(keys.BROADCAST_DELETE_EVENTS))
    old = any(found[path.own].has_events for path in data)
    return Survey(_facts(context, table, paths, found), _numbered(raw, found), bounds, old)


@dataclass(frozen=True)
class _Path:
    """A file to look at: its absolute path, how much of it counts, and where that part lies if not there."""

    own: str
    file: DataFile
    size: int
    copy: str | None = None

    @classmethod
    def of(cls, at: Location, file: DataFile) -> _Path:
        return cls(f"{at.root}/{file.path}", file, file.size)

    @property
    def key(self) -> Seen:
        """What the summary is remembered by."""
        return self.own, self.size, self.file.modified


def _files(directories: Iterable[AcidDirectory]) -> Iterator[DataFile]:
    for directory in directories:
        yield from directory.acid_files


def _raw(at: Location) -> Iterator[tuple[AcidDirectory | None, Sequence[DataFile]]]:
    """Yield files without row ids, directory by directory; None is the root."""
    yield None, at.state.originals
    for directory in at.state.row_directories:
        if directory.raw is not False:
            yield directory, directory.raw_files


def summaries(context: Context, paths: Sequence[_Path]) -> dict[str, FileSummary]:
    """Read footers, several at a time; those seen before are remembered by path, size and time."""

    def read(path: _Path) -> FileSummary:
        return context.summaries.put(path.key, summarize(read_tail(context.fs, path.own, path.size)))

    known = {path.own: context.summaries.get(path.key) for path in paths}
    new = [path for path in paths if known[path.own] is None]
    found = {own: summary for own, summary in known.items() if summary is not None}
    if new:
        with ThreadPoolExecutor(min(_THREADS, len(new))) as pool:
            found.update(zip((path.own for path in new), pool.map(read, new), strict=True))
    return found


def _facts(
    context: Context, table: TableDefinition, paths: Sequence[_Path], found: Mapping[str, FileSummary]
) -> dict[str, FileFacts]:
    how = matching(table, context.layout_level(table))
    recipes: dict[int, Recipe] = {}  # by identity: equal schemas are one object (`Summaries`)

    def recipe_of(schema: Struct) -> Recipe:
        if id(schema) not in recipes:
            recipes[id(schema)] = recipe(table.columns, schema, how)
        return recipes[id(schema)]

    return {
        path.own: FileFacts(known.rows, recipe_of(known.schema), known.has_events, path.copy, known.keys)
        for path in paths
        for known in [found[path.own]]
    }


def _require_kinds(found: Mapping[str, FileSummary], *, acid: Iterable[str], raw: Iterable[str]) -> None:
    for path in raw:
        if found[path].is_acid:
            raise BadFileError("a file with row ids under the name of one without", path=path)
    for path in acid:
        if found[path].rows and not found[path].is_acid:
            raise BadFileError("a file without row ids under the name of one with them", path=path)


def _numbered(
    raw: Mapping[str, Sequence[tuple[AcidDirectory | None, Sequence[DataFile]]]],
    found: Mapping[str, FileSummary],
) -> Numbered:
    numbered: Numbered = {}
    for root, directories in raw.items():
        rows: list[OriginalRows] = []
        for directory, files in directories:
            counts = {file.path: found[f"{root}/{file.path}"].rows for file in files}
            try:
                rows += number_originals(files, counts, directory)
            except FormatError as error:
                raise error.below(root) from error
        if rows:
            numbered[root] = tuple(rows)
    return numbered


def _flushed(context: Context, table: TableName, txn: Transaction, paths: Sequence[_Path]) -> Iterator[_Path]:
    """Yield files, streamed ones as far as they were flushed."""
    for path in paths:
        length, copy = readable(context, table, txn, path.own, path.file)
        yield _Path(path.own, path.file, length, copy)
