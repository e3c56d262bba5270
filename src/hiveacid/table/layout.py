"""Where a statement's files go: staging place, partition locations, directory names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.commits import NewFiles
from hiveacid.core.model import Partition, TableDefinition, TxnId, WriteId
from hiveacid.core.names import BaseName, DeltaName, is_hidden, parse_directory
from hiveacid.core.partitions import format_partition, is_canonical, parse_partition_values
from hiveacid.errors import BadDirectoryNameError, UnsupportedFeatureError, WriteConflictError
from hiveacid.ports import NewPartition, Operation, Written
from hiveacid.spark.write import Kind
from hiveacid.storage.staging import new_staging_directory
from hiveacid.table.read import partitions_of

if TYPE_CHECKING:
    from hiveacid.spark.publish import Published
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

Values = tuple[str | None, ...]


@contextmanager
def staging(context: Context, table: TableDefinition, txn: Transaction) -> Iterator[str]:
    """Give a hidden directory below the table and remove it afterwards, whatever happened."""
    directory = new_staging_directory(table.location, txn.txn_id)
    try:
        yield directory
    finally:
        context.fs.delete_tree(directory)


def partition_name(table: TableDefinition, values: Values) -> str | None:
    """Return Hive's name ``p=1/q=2`` of a partition, None for an unpartitioned table."""
    return format_partition([c.name for c in table.partition_columns], values) if values else None


def partitions_on_disk(context: Context, table: TableDefinition) -> list[Partition]:
    """Find partitions by their directories ``p=1/q=2`` below the table."""
    depth = len(table.partition_columns)
    if not depth:
        return []
    names = [c.name for c in table.partition_columns]
    found = []
    for entry in context.fs.list_tree(table.location):
        parts = entry.path.split("/")
        if not entry.is_dir or len(parts) != depth or any(is_hidden(part) for part in parts):
            continue
        try:
            values = parse_partition_values(names, entry.path)
        except BadDirectoryNameError:
            continue
        found.append(Partition(values, f"{table.location}/{entry.path}"))
    return found


def known_partitions(context: Context, table: TableDefinition, txn: Transaction) -> dict[Values, Partition]:
    """Return the partitions that rows may be written to, by value.

    Raises UnsupportedFeatureError where one has a name that its own value would not get (taken over from
    another engine): rows of it would go elsewhere.
    """
    known = {partition.values: partition for partition in partitions_of(context, table, txn) or ()}
    for values in known:
        for value, column in zip(values, table.partition_columns, strict=True):
            if value is not None and not is_canonical(value, column.type):
                raise UnsupportedFeatureError(
                    f"{table.name} has a partition {column.name}={value}, but writes {column.type} values otherwise: "
                    "it can be read, not changed; insert its rows into a new table"
                )
    return known


@dataclass
class Places:
    """Directories of one statement, by row kind and partition; remembers partitions that are new."""

    context: Context
    table: TableDefinition
    txn: Transaction
    known: dict[Values, Partition]
    write_id: WriteId
    statements: dict[Kind, int]
    overwrite: bool = False
    used: dict[Values, str] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    def location(self, values: Values) -> str:
        """Return the location of a partition (the table itself for ``()``), new ones below the table."""
        if not values:
            return self.table.location
        partition = self.known.get(values)
        where = (
            partition.location if partition else f"{self.table.location}/{partition_name(self.table, values)}"
        )
        self.used[values] = where
        return where

    def directory(self, kind: Kind, values: Values) -> str:
        """Return the directory that rows of a kind go to.

        Raises UnsupportedFeatureError where the same transaction has overwritten the partition.
        """
        self.txn.require_not_overwritten(self.table.name, [values])
        if self.overwrite:
            name = BaseName(self.write_id, TxnId(0)).format()
        else:
            is_delete = kind is Kind.DELETE
            name = DeltaName(
                is_delete, self.write_id, self.write_id, self.statements[kind], TxnId(0)
            ).format()
        directory = f"{self.location(values)}/{name}"
        self.directories.add(directory)
        return directory

    def require_not_overtaken(self) -> None:
        """Check all places that were used (:func:`require_not_overtaken`)."""
        used = [self.table.location] if not self.table.partition_columns else list(self.used.values())
        require_not_overtaken(self.context, self.table, self.txn, self.write_id, used)

    def remove(self) -> None:
        """Delete what an aborted statement published (invisible to everybody, but it takes space).

        Not where the table was dropped and made anew since: its write ids begin at 1 again, so that directories of
        the new one may have the same names.
        """
        now = self.context.catalog.get_table(self.table.name)
        if now is not None and now.created_at != self.table.created_at:
            return
        for directory in self.directories:
            self.context.fs.delete_tree(directory)

    def new_partitions(self) -> list[NewPartition]:
        """Return the partitions written to that the catalog does not know."""
        return [
            NewPartition(self.table.name, Partition(values, location))
            for values, location in self.used.items()
            if values not in self.known
        ]


def require_not_overtaken(
    context: Context, table: TableDefinition, txn: Transaction, write_id: WriteId, locations: Iterable[str]
) -> None:
    """Refuse rows that nobody would ever read: below a base of somebody who got a write id after this one.

    A transaction of several statements has its write id from the first of them, and one on a metastore has it
    before its lock. Before it gets the lock, a place may have been overwritten (INSERT OVERWRITE, TRUNCATE), and
    whoever reads the new base passes over smaller write ids. Under the lock no such base can follow. Raises
    WriteConflictError.
    """
    if not (txn.explicit or txn.was_passed(table.name)):
        return  # its write id is younger than its lock, or nobody got one in between and committed
    for location in locations:
        above = [one for one in _bases(context, location) if one.write_id > write_id]
        if not above:
            continue
        now = context.store.valid_write_ids(context.store.valid_txns(), [table.name])[table.name]
        if any(now.is_valid(one.write_id) for one in above):
            raise WriteConflictError(
                f"{table.name}: another transaction overwrote {location} since this one began to write to the "
                "table, and rows written there now would be lost; run the transaction again"
            )


def _bases(context: Context, location: str) -> list[BaseName]:
    """Return the bases of a location that no compaction made (those stop below every open write id)."""
    if not context.fs.exists(location):
        return []
    tops = {entry.path for entry in context.fs.list_tree(location) if entry.is_dir and "/" not in entry.path}
    names = (parse_directory(top) for top in tops if not is_hidden(top))
    return [name for name in names if isinstance(name, BaseName) and not name.visibility_txn_id]


def written(table: TableDefinition, published: Published, operations: dict[Kind, Operation]) -> list[Written]:
    """Say what was written where, for the store's conflict detection."""
    return sorted(
        {
            Written(table.name, partition_name(table, values), operations[kind])
            for kind, values in published.rows
        },
        key=str,
    )


def new_files(
    table: TableDefinition, published: Published, fixed: Values = (), *, replaced: bool = False
) -> list[NewFiles]:
    """Say which files came where; ``fixed``: the values of the one partition of a statement that names it."""
    return [
        NewFiles(table.name, values or fixed, paths, replaced) for values, paths in published.paths.items()
    ]
