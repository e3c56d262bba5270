"""Migration of tables from one store to another: it moves definitions, write ids and the progress of streams.

No file changes. The progress of streams stays behind where one of the stores is a metastore.

Only one store owns a table at any time. During the move the table is locked exclusively in both stores and marked in
both. It is created in the new store and only then removed from the old one. Other clients refuse a table with the mark.
After an interruption the same call completes the migration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

from hiveacid import errors
from hiveacid.catalog.opening import create_database_if_missing
from hiveacid.config import Settings
from hiveacid.config.property_definitions import (
    ADOPTED_INVALID,
    ADOPTED_TXN,
    CONVERSION,
    HISTORY_FROM,
    LAYOUT_LEVEL,
    MIGRATED_FROM,
    MIGRATION,
    TAGS,
)
from hiveacid.core.format.names import LayoutLevel, ends_below
from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import (
    ConstraintKind,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot.change_feed import lost_history
from hiveacid.core.snapshot.tags import TagName, parse_tags
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.orc.tail import read_tail
from hiveacid.orc.wire_format import Compression
from hiveacid.ports.clock import Clock
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import WarehouseStore, own_store
from hiveacid.ports.transactions import current_write_ids_of, is_stand_in
from hiveacid.storage.snapshot_locations import id_property, list_layout, read_location
from hiveacid.table.context import table_names
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.transaction import Transaction, Transactions, this_client

_BEAT = 60.0  # seconds between two heartbeats
_MAX_IDS_SHOWN = 5  # transactions in a message


@dataclass(frozen=True)
class MigrationStore:
    """Source or target of a migration; ``name``: its name in messages, without a password."""

    store: WarehouseStore
    name: str

    @property
    def is_hive3(self) -> bool:
        """Tell whether the store is a metastore whose Hive reads only names of layout level hive3."""
        return self.store.layout_level() == "hive3"


@dataclass(frozen=True)
class MigratedTable:
    """A table that was moved, or that could be moved (``dry_run``), with the state that a move must preserve."""

    table: TableDefinition
    partitions: tuple[Partition, ...]
    high_watermark: WriteId = field(default_factory=lambda: WriteId(0))
    aborted: tuple[WriteId, ...] = ()
    visible: tuple[int, ...] = ()  # visibility transaction ids of directories that compactions made
    invalid: tuple[int, ...] = ()  # those of them that did not commit
    hidden: tuple[str, ...] = ()  # directories that end below the `Partition.min_write_id`
    outside: tuple[str, ...] = ()  # files outside directories of the layout
    history_from: int = 0


@dataclass(frozen=True)
class Migration:
    """Migration between two stores with the same clock and the same files.

    ``watch``: called with a table, what is done with its directories (``listed``, ``read for ZSTD``), to how many
    already, and how many there are; with no directories once only the stores have work.
    """

    source: MigrationStore
    target: MigrationStore
    fs: FileSystem
    clock: Clock
    watch: Callable[[TableName, str, int, int], object] = lambda *_: None

    def tables(self) -> list[TableName]:
        """Return all tables of the source, by name."""
        return table_names(self.source.store)

    def views(self, databases: Collection[str]) -> list[TableName]:
        """Return the source's views in some databases."""
        store = self.source.store
        existing = [database for database in store.list_databases() if database in databases]
        return [TableName(database, name) for database in existing for name in store.list_views(database)]

    def move(self, name: TableName, *, dry_run: bool = False) -> MigratedTable | None:
        """Move a table; return None if an earlier call has moved it. ``dry_run``: only check.

        Raises TransactionStateError while transactions are open, LockTimeoutError if the table is in use,
        AlreadyExistsError, NoSuchTableError, and UnsupportedFeatureError for a table that the target cannot hold. In
        all these cases nothing has changed. Raises CatalogError if another migration of the table was interrupted, or if
        the target's table was written to after an interrupted move.
        """
        old, new = self.source.store.get_table(name), self.target.store.get_table(name)
        if old is None:
            self._finish_interrupted_move(name, new, dry_run=dry_run)
            return None
        mark = MIGRATION.of(old)
        if mark not in (None, self._mark_in_source):  # else two stores would own it
            raise errors.CatalogError(
                f"{old.name} in {self.source.name} is part of an interrupted migration {mark}: complete that one first"
            )
        if new is not None:
            self._require_created_by_migration(new)
            # created in the source after an earlier one of its name was moved
            if MIGRATION.of(old) is None and old.location != new.location and not is_stand_in(new):
                raise errors.AlreadyExistsError(
                    f"{self.target.name} has a table {new.name} at {new.location}, whose migration was interrupted just before "
                    f"its end; {self.source.name} has another table of that name: rename that one, and migrate {new.name} again"
                )
        with ExitStack() as stack:
            held = [stack.enter_context(self._locked(side, name)) for side in (self.source, self.target)]
            own = held[0].txn_id
            self._require_no_other_txns(own)
            state = self._read_state(name)
            self._require_movable(state)
            if not dry_run:
                self._carry_over(state, held, begun=new is not None)
            return state

    def _finish_interrupted_move(
        self, name: TableName, new: TableDefinition | None, *, dry_run: bool
    ) -> None:
        """Remove the mark from a table whose migration was interrupted before its last step."""
        if new is None:
            raise errors.NoSuchTableError(
                f"table {name} is neither in {self.source.name} nor in {self.target.name}"
            )
        if MIGRATION.of(new) is None:
            return
        self._require_created_by_migration(new)
        if not dry_run:
            self.target.store.alter_table(name, new.without_properties(MIGRATION.name))

    @property
    def _mark_in_source(self) -> str:
        return f"to {self.target.name}"

    @property
    def _mark_in_target(self) -> str:
        return f"from {self.source.name}"

    def _require_created_by_migration(self, there: TableDefinition) -> None:
        """Refuse a table of the target that was not created by an earlier call of this migration."""
        mark = MIGRATION.of(there)
        if mark == self._mark_in_target:
            return
        message = f"{self.target.name} has a table {there.name} already"
        if mark is not None:
            message += f", which is part of a migration {mark}: complete that migration first"
        raise errors.AlreadyExistsError(message)

    @contextmanager
    def _locked(self, side: MigrationStore, name: TableName) -> Iterator[Transaction]:
        """Lock a table, or the name of a future one, exclusively, without waiting."""
        beats = Heartbeats(side.store, _BEAT)
        transactions = Transactions(side.store, beats, self.clock, this_client())
        try:
            with transactions.scope(Settings()) as txn:
                try:
                    lock = LockComponent(LockType.EXCLUSIVE, name.database, name.name)
                    txn.lock([lock], zero_wait=True)
                except errors.LockTimeoutError as error:
                    raise errors.LockTimeoutError(f"{name} is in use in {side.name}: {error}") from None
                yield txn
        finally:
            beats.close()

    def _require_no_other_txns(self, own: TxnId) -> None:
        """Refuse while other transactions are open: the new store's cleaner would not know of their snapshots."""
        others = [txn_id for txn_id in self.source.store.valid_txns().open if txn_id != own]
        if others:
            raise errors.TransactionStateError(
                f"{len(others)} transactions are open in {self.source.name} "
                f"({', '.join(map(str, others[:_MAX_IDS_SHOWN]))}{', …' if len(others) > _MAX_IDS_SHOWN else ''}): wait until they "
                "end; SHOW TRANSACTIONS says whose they are"
            )

    # --- state of the source ---------------------------------------------------------------------
    def _read_state(self, name: TableName) -> MigratedTable:
        store = self.source.store
        table = store.get_table(name)
        if table is None:
            raise errors.NoSuchTableError(f"table {name} was dropped meanwhile")
        partitions = store.list_partitions(name) if table.partition_columns else ()
        if table.kind is TableKind.PLAIN:
            return MigratedTable(table, partitions)
        txns = store.valid_txns()
        ids = store.valid_write_ids(txns, [name])[name]
        if ids.open:
            raise errors.TransactionStateError(
                f"writers of {name} are still active (write ids {ids.open[:_MAX_IDS_SHOWN]}): wait until they end"
            )
        places = {p.location: p.min_write_id for p in partitions} or {table.location: 0}
        visible, hidden, outside, history_from = self._on_disk(
            name, places, row_ids=table.kind is TableKind.FULL_ACID
        )
        invalid = tuple(sorted(txn_id for txn_id in visible if not _was_committed(table, txns, txn_id)))
        shown = tuple(sorted(visible))
        return MigratedTable(
            table, partitions, ids.high_watermark, ids.aborted, shown, invalid, hidden, outside, history_from
        )

    def _on_disk(
        self, table: TableName, places: Mapping[str, int], *, row_ids: bool
    ) -> tuple[set[int], tuple[str, ...], tuple[str, ...], int]:
        """``places``: lowest write ids (`Partition.min_write_id`) by location."""
        visible: set[int] = set()
        hidden: list[str] = []
        outside: list[str] = []
        history_from = 0
        for number, (root, lowest) in enumerate(places.items()):
            self.watch(table, "listed", number, len(places))
            if "://" in root:
                raise errors.UnsupportedFeatureError(
                    f"{root}: only tables in local directories can be migrated"
                )
            try:
                listing = list_layout(self.fs, root)
            except errors.MissingDirectoryError:
                continue
            outside += [f"{root}/{file.path}" for file in listing.originals]
            for directory in listing.directories:
                name = directory.name
                if ends_below(directory.path, lowest):
                    hidden.append(f"{root}/{directory.path}")
                history_from = max(history_from, lost_history(name, row_ids=row_ids))
                if name.visibility_txn_id:
                    visible.add(int(name.visibility_txn_id))
        return visible, tuple(hidden), tuple(outside), history_from

    def _require_movable(self, state: MigratedTable) -> None:
        """Refuse a table that the target cannot hold, before anything is changed."""
        table = state.table
        if CONVERSION.of(table) is not None and (table.kind is TableKind.PLAIN or state.outside):
            raise errors.UnsupportedFeatureError(
                f"{table.name} is being converted: wait until that ends, or repeat an interrupted ALTER TABLE"
                if table.kind is TableKind.PLAIN
                else f"{state.outside[0]} was left by the conversion of {table.name}, which has its rows in a delta: move it away"
            )
        if self.target.store.maintained_by_hiveacid():
            return
        tag = next(iter(parse_tags(TAGS.of(table))), None)
        if tag is not None:
            raise errors.UnsupportedFeatureError(
                f"{table.name} has the {TagName(tag)}, and Hive's cleaner would not keep its files: ALTER TABLE {table.name} DROP TAG "
                f"IF EXISTS {tag} first"
            )
        if state.invalid:
            raise errors.UnsupportedFeatureError(
                f"{table.name} has directories of compactions that did not commit (transactions {state.invalid[:_MAX_IDS_SHOWN]}), "
                "which a metastore would treat as committed: run the cleaner first (acid.clean())"
            )
        if state.hidden:
            raise errors.UnsupportedFeatureError(
                f"{state.hidden[0]} is older than its partition: it holds rows that were dropped, or of an aborted transaction, "
                "which a metastore would show: run the cleaner first (acid.clean())"
            )
        if self.target.is_hive3 and state.visible:
            raise errors.UnsupportedFeatureError(
                f"{table.name} has directories that Hive 3 cannot read (compacted at layout level hive4): write its rows "
                "into a new table there"
            )
        if self.target.is_hive3 and file_kind(table.storage) is FileKind.ORC:
            self._require_no_zstd(state)

    def _require_no_zstd(self, state: MigratedTable) -> None:
        """Refuse a table if a snapshot reads a file with ZSTD, which Hive 3.1 cannot read."""
        table, store = state.table, self.source.store
        txns = store.valid_txns()
        ids = store.valid_write_ids(txns, [table.name])[table.name]
        places: Sequence[Partition | None] = state.partitions or (None,)
        for number, partition in enumerate(places):
            self.watch(table.name, "read for ZSTD", number, len(places))
            root = partition.location if partition else table.location
            try:
                read = read_location(self.fs, table, root, partition, ids, txns).state
            except errors.MissingDirectoryError:
                continue
            for file in (*(file for one in read.directories_to_read for file in one.files), *read.originals):
                path = f"{root}/{file.path}"
                length = readable_length(self.fs, path, file)
                if read_tail(self.fs, path, length).compression is Compression.ZSTD:
                    raise errors.UnsupportedFeatureError(
                        f"{table.name} has files with the codec ZSTD, which Hive 3 cannot read ({path}): set its property "
                        f"{LAYOUT_LEVEL.name} to hive3, rewrite its rows (INSERT OVERWRITE), and try again"
                    )

    # --- changes of both stores ------------------------------------------------------------------
    def _carry_over(self, state: MigratedTable, held: Sequence[Transaction], *, begun: bool) -> None:
        """Create the table in the target, then drop it in the source; ``held``: the transactions with its locks.

        If one has timed out, as in a pause of the process, others may have written since the state was read. The target would
        not have their rows, and the source is not dropped.
        """
        name, source, target = state.table.name, self.source.store, self.target.store
        self.watch(name, "", 0, 0)
        if begun:  # an earlier call was interrupted; its table in the target cannot have been used
            self._require_unused(state)
            self._drop_created_table(name)
        marked = state.table.with_properties({MIGRATION.name: self._mark_in_source})
        source.alter_table(name, marked, seen=state.table)
        try:
            # a reader may have begun before it could see the mark
            self._require_no_other_txns(held[0].txn_id)
            self._make_database(name.database)
            definition = self._translated(state)
            target.restart_write_ids(definition, (MIGRATION.name, self._mark_in_target))
            target.create_table(definition)
            self._add_partitions_and_write_ids(state)
            # without it, a restarted query would write its last batch a second time
            if source.maintained_by_hiveacid() and target.maintained_by_hiveacid():
                own_store(target).restore_streams(name, own_store(source).list_streams(name))
            for txn in held:
                txn.require_open_in_store()
        except BaseException:
            with suppress(errors.HiveAcidError):
                self._drop_created_table(name)
            source.alter_table(name, state.table.without_properties(MIGRATION.name))
            raise
        source.drop_table(name, state.table)
        target.alter_table(name, definition.without_properties(MIGRATION.name))

    def _drop_created_table(self, name: TableName) -> None:
        """Drop the table that this migration created in the target, if it has the migration's mark.

        Hive's CREATE TABLE ignores hiveacid's locks, so there may be another table of that name.
        """
        definition = self.target.store.get_table(name)
        if definition is not None and MIGRATION.of(definition) == self._mark_in_target:
            self.target.store.drop_table(name)

    def _require_unused(self, state: MigratedTable) -> None:
        name, store = state.table.name, self.target.store
        existing = store.get_table(name)
        if state.table.kind is TableKind.PLAIN or existing is None or is_stand_in(existing):
            return
        ids = current_write_ids_of(store, name)
        if ids.high_watermark > state.high_watermark:
            raise errors.CatalogError(
                f"{name} was written to in {self.target.name} while it was being moved there (write id "
                f"{ids.high_watermark}); the table in {self.source.name} lacks that write: decide which one to drop"
            )

    def _make_database(self, name: str) -> None:
        if self.target.store.get_database(name) is None:
            definition = self.source.store.get_database(name) or DatabaseDefinition(name, "")
            create_database_if_missing(self.target.store, definition)

    def _translated(self, state: MigratedTable) -> TableDefinition:
        """Return the definition for the target, with the migration's mark."""
        known_as = [name for name in (MIGRATED_FROM.of(state.table), state.table.incarnation) if name]
        changed = {MIGRATION.name: self._mark_in_target, MIGRATED_FROM.name: ",".join(known_as)}
        if self.source.is_hive3 and LAYOUT_LEVEL.of(state.table) is None:
            changed[LAYOUT_LEVEL.name] = LayoutLevel.HIVE3.value  # so that it can go back there
        if not self.source.store.maintained_by_hiveacid() and state.history_from:
            # Hive's cleaner does not record what it removed
            changed[HISTORY_FROM.name] = str(state.history_from)
        # also 0: a table that was adopted may hold update events of ACID v1
        if (state.visible or ADOPTED_TXN.of(state.table)) and self.target.store.maintained_by_hiveacid():
            changed[ADOPTED_TXN.name] = str(max(state.visible, default=0))
            if state.invalid:
                changed[ADOPTED_INVALID.name] = ",".join(map(str, state.invalid))
        marks = ADOPTED_TXN, ADOPTED_INVALID, MIGRATION, CONVERSION
        unmarked = state.table.without_properties(*(mark.name for mark in marks))
        constraints = self.source.store.constraints(state.table, keys=True)
        # it knows a foreign key only beside the other table
        if not self.target.store.maintained_by_hiveacid():
            constraints = tuple(one for one in constraints if one.kind is not ConstraintKind.FOREIGN_KEY)
        return replace(unmarked.with_properties(changed), incarnation="", constraints=constraints)

    def _add_partitions_and_write_ids(self, state: MigratedTable) -> None:
        name, target = state.table.name, self.target.store
        if state.partitions:
            target.add_partitions(name, state.partitions)
        if state.table.kind is TableKind.PLAIN:
            return
        if state.visible:
            target.seed_txns(TxnId(state.visible[-1]))
            if not target.maintained_by_hiveacid():
                txns = self.target.store.valid_txns()
                lost = [txn_id for txn_id in state.visible if not txns.is_valid(TxnId(txn_id))]
                if lost:
                    raise errors.UnsupportedFeatureError(
                        f"{state.table.name} was compacted under transaction ids {lost[:_MAX_IDS_SHOWN]}, which are open or aborted "
                        f"transactions in {self.target.name}: compact it once more, clean, and try again"
                    )
        if state.high_watermark:
            target.seed_write_ids(name, state.high_watermark, state.aborted)


def _was_committed(table: TableDefinition, txns: ValidTxnList, txn_id: int) -> bool:
    adopted = id_property(table, ADOPTED_TXN)
    if txn_id <= adopted:
        return str(txn_id) not in (ADOPTED_INVALID.of(table) or "").split(",")
    return txns.is_valid(TxnId(txn_id))
