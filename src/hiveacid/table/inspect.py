"""Looking inside a table: files, deltas, partitions, as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.core.model import TableKind
from hiveacid.core.names import BaseName, DeltaName, parse_directory
from hiveacid.table.layout import partition_name
from hiveacid.table.read import locate, partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.storage.listing import Location
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

_FILES = "partition string, directory string, file string, kind string, bytes bigint"
_DELTAS = (
    "partition string, directory string, kind string, min_write_id bigint, max_write_id bigint, "
    "statement_id int, visibility_txn_id bigint, state string, files int, bytes bigint"
)
_PARTITIONS = "partition string, location string, files int, bytes bigint"


@dataclass(frozen=True)
class Inspect:
    """Views of a table's directories at the present snapshot."""

    context: Context
    name: TableName
    joined: Transaction | None = None

    def files(self) -> DataFrame:
        """Return the files that the snapshot reads."""
        rows = [(place, *row) for place, location in self._locations() for row in _file_rows(location)]
        return self._frame(rows, _FILES)

    def deltas(self) -> DataFrame:
        """Return ACID directories by state: used, obsolete or aborted; not those of writers that are at work.

        ``files`` and ``bytes`` are those that the snapshot reads: 0 for what is obsolete or aborted.
        """
        rows = [(place, *row) for place, location in self._locations() for row in _directory_rows(location)]
        return self._frame(rows, _DELTAS)

    def partitions(self) -> DataFrame:
        """Return the partitions with the size of what the snapshot reads."""
        rows = []
        for place, location in self._locations():
            sizes = [size for *_, size in _file_rows(location)]
            rows.append((place, location.root, len(sizes), sum(sizes)))
        return self._frame(rows, _PARTITIONS)

    def _frame(self, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        return self.context.facts.spark.createDataFrame(rows, schema)

    def _locations(self) -> list[tuple[str | None, Location]]:
        context = self.context
        table = context.require(self.name)
        with context.snapshots.taken(context.settings) as reader:
            txn = self.joined or reader
            partitions = partitions_of(context, table, txn)
            write_ids = txn.valid_write_ids(table.name)
            found = locate(context, table, partitions, write_ids, txn)
        if table.kind is TableKind.PLAIN and partitions is None:
            return [(None, at) for at in found]
        return [(partition_name(table, at.partition.values) if at.partition else None, at) for at in found]


def _file_rows(location: Location) -> Iterator[tuple[str, str, str, int]]:
    state = location.state
    kinds = [("base", state.base)] if state.base else []
    kinds += [("delta", d) for d in state.deltas] + [("delete_delta", d) for d in state.delete_deltas]
    for kind, directory in kinds:
        for file in directory.files:
            yield directory.path, f"{location.root}/{file.path}", kind, file.size
    for file in state.originals:
        yield "", f"{location.root}/{file.path}", "original", file.size


def _directory_rows(location: Location) -> Iterator[tuple[object, ...]]:
    state = location.state
    used = {d.path: d for d in (*((state.base,) if state.base else ()), *state.deltas, *state.delete_deltas)}
    states = dict.fromkeys(used, "used") | dict.fromkeys(state.obsolete, "obsolete")
    states |= dict.fromkeys(state.aborted, "aborted")
    for path, what in sorted(states.items()):
        files = used[path].files if path in used else ()
        size = sum(file.size for file in files)
        yield path, *_name_columns(path), what, len(files), size


def _name_columns(path: str) -> tuple[str, int | None, int | None, int | None, int | None]:
    name = parse_directory(path)
    if isinstance(name, BaseName):
        return "base", None, int(name.write_id), None, int(name.visibility_txn_id) or None
    if isinstance(name, DeltaName):
        kind = "delete_delta" if name.is_delete else "delta"
        visible = int(name.visibility_txn_id) or None
        return kind, int(name.min_write_id), int(name.max_write_id), name.statement_id, visible
    return "other", None, None, None, None
