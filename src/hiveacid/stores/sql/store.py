"""`SqlStore`: one class that inherits the methods of all ports; its home, and the migrations of its schema.

The home of a store that is a file is the place it was made for, so that a copy does not work on the original's files.
Migrations are numbered steps that only go forward. The first one makes the schema of 0.1.0; a later change is a step at the
end. A released step is never changed, because existing stores have run it as it is.
"""

from __future__ import annotations

import json
import os
import posixpath
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import URL, Connection, Table, delete, insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Constraint, TableDefinition, TxnId
from hiveacid.core.schema.location_overlap import STORE_DIRECTORY, STORE_FILE, Place, lies_in
from hiveacid.errors import CatalogError, ConfigError, MisplacedStoreError, StoreVersionError, first_few
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.begin_and_commit import BeginTxn, CommitTxn
from hiveacid.stores.sql.catalog import SqlCatalog
from hiveacid.stores.sql.commit_records import CommitRecords, Streams
from hiveacid.stores.sql.compaction_queue import CompactionQueue
from hiveacid.stores.sql.database import TRIES, Database
from hiveacid.stores.sql.dialects import database_now
from hiveacid.stores.sql.figure_history import FigureHistory
from hiveacid.stores.sql.file_records import FileRecords
from hiveacid.stores.sql.housekeeping import AbortTxns, ChangedPartitions, Housekeeping, ServiceRegister
from hiveacid.stores.sql.schema import (
    StoredLocations,
    all_places,
    databases,
    home,
    partitions,
    placed_partitions,
    remember_paths,
    tables,
)
from hiveacid.stores.sql.snapshots_and_write_ids import Snapshots, WriteIds
from hiveacid.stores.sql.txns_and_locks import LockQueue, OpenTxns


class SqlStore(
    OpenTxns,
    BeginTxn,
    Snapshots,
    WriteIds,
    LockQueue,
    CommitTxn,
    CommitRecords,
    FileRecords,
    FigureHistory,
    Streams,
    AbortTxns,
    Housekeeping,
    CompactionQueue,
    ChangedPartitions,
    ServiceRegister,
    SqlCatalog,
):
    """Implements :class:`hiveacid.ports.store.WarehouseStore` over one database.

    Each base class has the verbs of one module; here are those that need no statement.

    ``url``: ``sqlite:///path``, ``postgresql+psycopg://...`` or ``mysql+pymysql://...`` (MariaDB, MySQL); the schema is created
    or upgraded. ``txn_timeout`` (seconds) overrides that of ``limits``. ``clock`` is the time of an embedded store; a
    server has its own, unless ``server_time`` is False. Raises ConfigError for an impossible URL,
    StoreUnavailableError, StoreVersionError, and MisplacedStoreError for a file that was copied or moved (`require_home`), unless
    it is being ``relocated``. ``real_paths``: as in `StoredLocations`. Every verb may raise StoreError and its kinds.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        txn_timeout: float | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        server_time: bool | None = None,
        real_paths: Callable[[], Callable[[str], str]] = lambda: str,
        relocated: bool = False,
    ) -> None:
        limits = limits or Limits.of(Settings())
        if txn_timeout is not None:
            limits = replace(limits, txn_timeout=txn_timeout)
        clock = clock or SystemClock()
        super().__init__(Database(url, clock, server_time=server_time), limits, clock)
        self._database.dialect.silence = limits.silence
        file = self._database.file
        self._database.locations = StoredLocations(
            file and warehouse_of(file), remember_paths(real_paths, clock)
        )
        try:
            migrate(self._database)
            if file is not None and not relocated:
                require_home(self._database, file)
        except BaseException:
            self._database.close()
            raise
        self._database.tries = TRIES  # it was reached once

    def __repr__(self) -> str:
        """Return the URL without its password."""
        return f"SqlStore({str(self._database)!r})"

    def apply_settings(self, settings: Settings) -> None:
        """Apply the limits of ``settings`` from now on."""
        self._limits = Limits.of(settings)
        self._database.dialect.silence = self._limits.silence

    def layout_level(self) -> str | None:
        """Return None: the settings choose the layout level."""
        return None

    def txn_timeout(self) -> float | None:
        """Return None: each transaction has the timeout of its client."""
        return None

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner waits for open transactions, not for write ids."""

    def require_claimable_jobs(self) -> None:
        """Do nothing: every worker may claim jobs."""

    def maintained_by_hiveacid(self) -> bool:
        """Return True: hiveacid's initiator, workers and cleaner maintain the tables."""
        return True

    def constraints(self, table: TableDefinition, *, keys: bool = False) -> tuple[Constraint, ...]:  # noqa: ARG002 - all
        """Return those of the definition."""
        return table.constraints

    def put_constraints(self, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
        """Change the definition."""
        self.alter_table(table.name, replace(table, constraints=tuple(constraints)), seen=table)

    def relocate(self, links: Sequence[Place], *, keep_outside: bool) -> Relocation:
        """Make the store independent of the one that it is a copy of, or that was here before."""
        return relocate(self._database, self._database.file or "", links, keep_outside=keep_outside)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def now(self) -> int:
        """Return the current time of the store's clock (ms): the database's, or for an embedded store the client's."""
        own = self._database.now()
        if own is not None:
            return own
        return int(self._database.read(lambda connection: connection.scalar(select(database_now()))) or 0)


@dataclass(frozen=True)
class Home:
    """The identity of a store: a random id, and the real path of its file when it was made or relocated."""

    id: str
    file: str

    @property
    def place(self) -> str:
        """Return the warehouse that the store lies in; for a store elsewhere, its file."""
        return place_of(self.file)


def place_of(file: str) -> str:
    """Return the warehouse of a store's file, or the file itself if it does not lie in one."""
    return warehouse_of(file) or file


def warehouse_of(file: str) -> str | None:
    """Return the warehouse that holds a store's file, ``WAREHOUSE/.hiveacid/store.db``; None for another file."""
    path = Path(file)
    return str(path.parent.parent) if (path.parent.name, path.name) == (STORE_DIRECTORY, STORE_FILE) else None


def read_home(connection: Connection) -> Home | None:
    """Return the recorded home; None before it is recorded."""
    row = connection.execute(select(home.c.id, home.c.location)).first()
    return None if row is None else Home(row.id, row.location)


def record_home(connection: Connection, file: str) -> Home:
    """Record a new home with a new id."""
    new = Home(uuid.uuid4().hex, os.path.realpath(file))
    connection.execute(delete(home))
    connection.execute(insert(home), {"id": new.id, "location": new.file})
    return new


def require_home(database: Database, file: str) -> None:
    """Raise MisplacedStoreError for a store that was copied or moved here; record the place of a new one."""
    recorded = database.read(read_home)
    if recorded is None:
        recorded = database.write(
            lambda connection: read_home(connection) or record_home(connection, file), repeatable=True
        )
    if not is_same_place(recorded.file, file):
        option = f"-w {place_of(file)}" if warehouse_of(file) else f"--store sqlite:///{file}"
        raise MisplacedStoreError(
            f"the store of {place_of(file)} was made for {recorded.place}: the directory was copied or moved, and both would work "
            f"on the same files. Run hiveacid relocate {option}, which makes this one independent, or open {recorded.place}"
        )


def is_same_place(recorded: str, file: str) -> bool:
    """Tell whether two paths name one file in one directory, by whatever links, mounts and spellings.

    The directories are compared, because a copy made of hard links has the same files.
    """
    if os.path.realpath(recorded) == os.path.realpath(file):
        return True
    one, other = Path(recorded), Path(file)
    try:
        return one.name == other.name and one.parent.samefile(other.parent)
    except OSError:  # there is nothing at the recorded place
        return False


@dataclass(frozen=True)
class Relocation:
    """Result of `relocate`: the store's old and new place.

    ``outside``: locations that the original, if it still exists, uses too.
    """

    old: str
    new: str
    outside: tuple[Place, ...]


def relocate(database: Database, file: str, links: Sequence[Place], *, keep_outside: bool) -> Relocation:
    """Make a store that was copied or moved independent: a new id and place; locations below the old place move along.

    ``links``: symbolic links inside the warehouse that lead out of it. Raises ConfigError for a store at its own place, and,
    unless ``keep_outside``, CatalogError for locations outside, which the original, where it still exists, uses, too.
    """
    return database.write(
        lambda connection: _relocate(database, connection, file, links, keep_outside=keep_outside)
    )


def _relocate(
    database: Database, connection: Connection, file: str, links: Sequence[Place], *, keep_outside: bool
) -> Relocation:
    old = read_home(connection)
    if old is None or is_same_place(old.file, file):
        raise ConfigError(f"the store of {place_of(file)} is at its place: there is nothing to relocate")
    old_root = warehouse_of(old.file)
    if old_root is not None and database.locations.root is not None:
        for table in (databases, tables, partitions, placed_partitions):
            _rebase(connection, table, old_root)
    resolve = database.locations.real_paths()
    root = resolve(database.locations.root or f"{file}/")
    places = (*all_places(connection, database.locations), *links)
    outside = tuple(place for place in places if not lies_in(resolve(place.location), root))
    if outside and not keep_outside:
        shown = first_few([f"{place.owner} {place.location}" for place in outside])
        raise CatalogError(
            f"{place_of(file)} has locations outside: {shown}. If {old.place} still exists, here or on another machine, "
            "both would write and delete the same files: make a copy without those tables, or drop them there. If it does not, or if "
            "they are only read: hiveacid relocate --keep-outside"
        )
    record_home(connection, file)
    return Relocation(old.place, place_of(file), outside)


def _rebase(connection: Connection, table: Table, old_root: str) -> None:
    """Make absolute locations below the old warehouse relative, in definitions and beside them."""
    for row in connection.execute(select(table)).all():
        changed = {}
        if "definition" in row._fields:
            fields = json.loads(row.definition)
            if lies_in(fields["location"], old_root):
                fields["location"] = posixpath.relpath(fields["location"], old_root)
                changed["definition"] = json.dumps(fields, separators=(",", ":"))
        if "location" in row._fields and row.location and lies_in(row.location, old_root):
            changed["location"] = posixpath.relpath(row.location, old_root)
        if changed:
            key = [column == getattr(row, column.name) for column in table.primary_key]
            connection.execute(update(table).where(*key).values(changed))


# Words in braces are the dialect's (``Dialect.ddl_terms``).
_SCHEMA = (
    """CREATE TABLE hiveacid_counters (
        name {key} NOT NULL PRIMARY KEY, value BIGINT NOT NULL){options}""",
    "INSERT INTO hiveacid_counters (name, value) VALUES ('commit sequence', 0), ('settled', 0){counters}",
    """CREATE TABLE hiveacid_done (
        mark {key} NOT NULL PRIMARY KEY, at BIGINT NOT NULL){options}""",
    """CREATE TABLE hiveacid_txns (
        id {serial}, kind {key} NOT NULL, state {key} NOT NULL,
        started BIGINT NOT NULL, heartbeat BIGINT NOT NULL, timeout BIGINT NOT NULL, ended BIGINT,
        moment BIGINT NOT NULL, min_open BIGINT NOT NULL, reason {text}, code {key},
        user_name {text} NOT NULL, host {text} NOT NULL, agent {text} NOT NULL, mark {key}){options}""",
    # by its mark a repeated call finds the transactions that it has opened; two attempts cannot both open them
    "CREATE UNIQUE INDEX hiveacid_txns_mark ON hiveacid_txns (mark)",
    "CREATE INDEX hiveacid_txns_open ON hiveacid_txns ({state_then_id}){where_open}",
    "CREATE INDEX hiveacid_txns_aborted ON hiveacid_txns ({id_then_state}){where_aborted}",
    """CREATE TABLE hiveacid_written (
        txn_id BIGINT NOT NULL, database_name {name} NOT NULL, table_name {name} NOT NULL,
        partition_name {text}, operation {key} NOT NULL, commit_sequence BIGINT, write_id BIGINT){options}""",
    "CREATE INDEX hiveacid_written_txn ON hiveacid_written (txn_id)",
    """CREATE INDEX hiveacid_written_place
        ON hiveacid_written (database_name, table_name, commit_sequence)""",
    """CREATE TABLE hiveacid_write_ids (
        database_name {name} NOT NULL, table_name {name} NOT NULL, write_id BIGINT NOT NULL, txn_id BIGINT,
        PRIMARY KEY (database_name, table_name, write_id)){options}""",
    """CREATE UNIQUE INDEX hiveacid_write_ids_once
        ON hiveacid_write_ids (txn_id, database_name, table_name)""",
    """CREATE TABLE hiveacid_next_write_ids (
        database_name {name} NOT NULL, table_name {name} NOT NULL, next_id BIGINT NOT NULL,
        PRIMARY KEY (database_name, table_name)){options}""",
    """CREATE TABLE hiveacid_lock_requests (
        id {serial}, txn_id BIGINT NOT NULL, state {key} NOT NULL, acquired_at BIGINT, blocked_by {key},
        FOREIGN KEY (txn_id) REFERENCES hiveacid_txns (id)){options}""",
    "CREATE INDEX hiveacid_lock_requests_txn ON hiveacid_lock_requests (txn_id)",
    """CREATE TABLE hiveacid_lock_components (
        request_id BIGINT NOT NULL, number INTEGER NOT NULL, txn_id BIGINT NOT NULL, type {key} NOT NULL,
        database_name {name} NOT NULL, table_name {name}, partition_name {text},
        PRIMARY KEY (request_id, number),
        FOREIGN KEY (request_id) REFERENCES hiveacid_lock_requests (id) ON DELETE CASCADE){options}""",
    """CREATE INDEX hiveacid_lock_components_place
        ON hiveacid_lock_components (database_name, type)""",
    """CREATE TABLE hiveacid_compactions (
        id {serial}, database_name {name} NOT NULL, table_name {name} NOT NULL, partition_name {text},
        kind {key} NOT NULL, state {key} NOT NULL, pool {key} NOT NULL, initiator {text}, worker {text},
        enqueued BIGINT, started BIGINT, ended BIGINT, error {text}, txn_id BIGINT, high_watermark BIGINT,
        next_txn_id BIGINT, commit_time BIGINT, priority INTEGER NOT NULL DEFAULT 0, buckets INTEGER, order_by {text},
        properties {text}, reason {text}, details {text}, claims INTEGER NOT NULL DEFAULT 0,
        cleanings INTEGER NOT NULL DEFAULT 0, clean_from BIGINT){options}""",
    "CREATE INDEX hiveacid_compactions_state ON hiveacid_compactions (state, id)",
    """CREATE TABLE hiveacid_changed_places (
        database_name {name} NOT NULL, table_name {name} NOT NULL, partition_name {text},
        changed BIGINT NOT NULL){options}""",
    """CREATE INDEX hiveacid_changed_places_table
        ON hiveacid_changed_places (database_name, table_name)""",
    """CREATE TABLE hiveacid_services (
        name {name} NOT NULL PRIMARY KEY, kind {key} NOT NULL, pool {key}, version {key},
        started BIGINT NOT NULL, last_seen BIGINT NOT NULL){options}""",
    """CREATE TABLE hiveacid_streams (
        database_name {name} NOT NULL, table_name {name} NOT NULL, digest {key} NOT NULL, query {text} NOT NULL,
        checkpoint {text} NOT NULL, epoch BIGINT NOT NULL, batch_id BIGINT NOT NULL, writers {text} NOT NULL,
        PRIMARY KEY (database_name, table_name, digest)){options}""",
    """CREATE TABLE hiveacid_commits (
        database_name {name} NOT NULL, table_name {name} NOT NULL, write_id BIGINT NOT NULL, committed BIGINT NOT NULL,
        txn_id BIGINT, user_name {text}, host {text}, agent {text}, operation_summary {text},
        PRIMARY KEY (database_name, table_name, write_id)){options}""",
    """CREATE INDEX hiveacid_commits_moment
        ON hiveacid_commits (database_name, table_name, committed)""",
    # locations beside the definitions, so that one query compares a new one with all of them
    """CREATE TABLE hiveacid_databases (
        name {name} NOT NULL PRIMARY KEY, definition {text} NOT NULL, location {text}){options}""",
    """CREATE TABLE hiveacid_tables (
        database_name {name} NOT NULL, name {name} NOT NULL, definition {text} NOT NULL, location {text},
        PRIMARY KEY (database_name, name),
        FOREIGN KEY (database_name) REFERENCES hiveacid_databases (name)){options}""",
    """CREATE TABLE hiveacid_partitions (
        database_name {name} NOT NULL, table_name {name} NOT NULL, digest {key} NOT NULL,
        definition {text} NOT NULL,
        PRIMARY KEY (database_name, table_name, digest),
        FOREIGN KEY (database_name, table_name) REFERENCES hiveacid_tables (database_name, name)
            ON DELETE CASCADE ON UPDATE CASCADE){options}""",
    # only partitions outside their tables' directories have rows
    """CREATE TABLE hiveacid_placed_partitions (
        database_name {name} NOT NULL, table_name {name} NOT NULL, digest {key} NOT NULL, location {text} NOT NULL,
        PRIMARY KEY (database_name, table_name, digest),
        FOREIGN KEY (database_name, table_name, digest)
            REFERENCES hiveacid_partitions (database_name, table_name, digest)
            ON DELETE CASCADE ON UPDATE CASCADE){options}""",
    """CREATE TABLE hiveacid_views (
        database_name {name} NOT NULL, name {name} NOT NULL, definition {text} NOT NULL,
        PRIMARY KEY (database_name, name),
        FOREIGN KEY (database_name) REFERENCES hiveacid_databases (name)){options}""",
    # the place of a store that is a file, by which a copy is told from the original
    "CREATE TABLE hiveacid_home (id {key} NOT NULL PRIMARY KEY, location {text} NOT NULL){options}",
)

# Tables of an older store are not marked: its commits have recorded no files.
_FILES = (
    """CREATE TABLE hiveacid_recorded_tables (
        database_name {name} NOT NULL, table_name {name} NOT NULL,
        PRIMARY KEY (database_name, table_name)){options}""",
    """CREATE TABLE hiveacid_files (
        database_name {name} NOT NULL, table_name {name} NOT NULL, place {key} NOT NULL, directory {text} NOT NULL,
        content {text} NOT NULL){options}""",
    "CREATE INDEX hiveacid_files_place ON hiveacid_files (database_name, table_name, place)",
)

_FIGURES = (
    """CREATE TABLE hiveacid_figures (
        database_name {name} NOT NULL, table_name {name} NOT NULL, recorded BIGINT NOT NULL,
        incarnation {key} NOT NULL, content {text} NOT NULL,
        PRIMARY KEY (database_name, table_name, recorded)){options}""",
    "INSERT INTO hiveacid_counters (name, value) VALUES ('figures', 0), ('conflicts', 0)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_SCHEMA, _FILES, _FIGURES)
"""Step n brings a store of version n - 1 to version n."""


def migrate(database: Database, steps: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Upgrade a store to the newest schema version; of several processes that start at once, only one does it.

    Raises StoreVersionError for a store that a newer hiveacid has created or upgraded.
    """
    if _missing(database.read(_version), steps):
        database.write(lambda connection: _apply(database, connection, steps), slow=True)


def _missing(version: int, steps: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    if version > len(steps):
        raise StoreVersionError(
            f"the transaction store has schema version {version}, and this hiveacid knows none above "
            f"{len(steps)}: a newer version of hiveacid made it; update this one"
        )
    return steps[version:]


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table("hiveacid_schema"):
        return 0
    return int(connection.scalar(text("SELECT max(version) FROM hiveacid_schema")) or 0)


def _apply(database: Database, connection: Connection, steps: tuple[tuple[str, ...], ...]) -> None:
    dialect = database.dialect
    dialect.lock_schema(connection)
    try:
        version = _version(connection)
        if version == 0:
            connection.execute(
                text("CREATE TABLE IF NOT EXISTS hiveacid_schema (version INTEGER PRIMARY KEY)")
            )
        for number, step in enumerate(_missing(version, steps), version + 1):
            for statement in step:
                try:
                    connection.execute(text(statement.format(**dialect.ddl_terms)))
                except DBAPIError as error:
                    if not dialect.is_already_applied(error):
                        raise
            connection.execute(
                text("INSERT INTO hiveacid_schema (version) VALUES (:version)"), {"version": number}
            )
    finally:
        dialect.unlock_schema(connection)
