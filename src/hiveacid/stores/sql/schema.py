"""Schema of the store for SQLAlchemy, and the definitions of the catalog as the store keeps them.

`hiveacid.stores.sql.store.migrate` creates the tables, and a test compares both. The names follow Hive's metastore:

- ``txns``: TXNS; ``written``: TXN_COMPONENTS and WRITE_SET in one
- ``write_ids``: TXN_TO_WRITE_ID; ``next_write_ids``: NEXT_WRITE_ID
- ``lock_requests``, ``lock_components``: HIVE_LOCKS
- ``compactions``: COMPACTION_QUEUE and COMPLETED_COMPACTIONS in one
- ``changed_partitions``: the remaining use of COMPLETED_TXN_COMPONENTS
- ``recorded_tables``, ``files``, ``figures``: Hive has nothing like them

Definitions are JSON texts in ASCII, so that every database keeps every character. Locations are relative inside the
warehouse, and compared with all others in the transaction that records them.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    FromClause,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

from hiveacid.core import model
from hiveacid.core.model import (
    Bucketing,
    Constraint,
    ConstraintKind,
    DatabaseDefinition,
    Partition,
    StorageFormat,
    TableDefinition,
    TableName,
    ViewDefinition,
)
from hiveacid.core.schema.location_overlap import (
    Place,
    first_overlapping_place,
    lies_in,
    place_of_database,
    place_of_partition,
    place_of_table,
)
from hiveacid.core.transactions.locks_and_conflicts import CONFLICTING_OPERATIONS
from hiveacid.ports.clock import Clock
from hiveacid.stores import refusals

METADATA = MetaData()


def _table(name: str, *columns: Iterable[Column[Any]]) -> Table:
    return Table(name, METADATA, *chain(*columns))


def _key(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, primary_key=True) for name in names]


def _required(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


txns = _table(
    "hiveacid_txns",
    _key(BigInteger, "id"),
    _required(String, "kind", "state"),  # states: open, committed, aborted
    _required(BigInteger, "started", "heartbeat"),  # times are ms since the epoch
    _required(BigInteger, "timeout"),  # ms without a heartbeat after which it is aborted
    _optional(BigInteger, "ended"),
    _required(BigInteger, "moment"),  # commit sequence at the snapshot (before one: at the opening)
    _required(BigInteger, "min_open"),  # lowest id that was open when this one began
    _optional(String, "reason", "code"),
    _required(String, "user_name", "host", "agent"),
    _optional(String, "mark"),  # of the call that opened it
)

written = _table(
    "hiveacid_written",
    _required(BigInteger, "txn_id"),
    _required(String, "database_name", "table_name"),
    _optional(String, "partition_name"),
    _required(String, "operation"),  # i, u, d; c: a compaction of the ids up to write_id
    _optional(BigInteger, "commit_sequence", "write_id"),  # write_id: of compactions and of overwrites
)

write_ids = _table(
    "hiveacid_write_ids",
    _key(String, "database_name", "table_name"),
    _key(BigInteger, "write_id"),
    _optional(BigInteger, "txn_id"),  # none: an aborted id that another engine left
)

next_write_ids = _table(
    "hiveacid_next_write_ids", _key(String, "database_name", "table_name"), _required(BigInteger, "next_id")
)

lock_requests = _table(
    "hiveacid_lock_requests",
    _key(BigInteger, "id"),
    [Column("txn_id", BigInteger, ForeignKey("hiveacid_txns.id"), nullable=False)],
    _required(String, "state"),  # ACQUIRED, WAITING
    _optional(BigInteger, "acquired_at"),
    _optional(String, "blocked_by"),
)

lock_components = _table(
    "hiveacid_lock_components",
    [Column("request_id", BigInteger, ForeignKey("hiveacid_lock_requests.id"), primary_key=True)],
    _key(Integer, "number"),
    _required(BigInteger, "txn_id"),
    _required(String, "type", "database_name"),
    _optional(String, "table_name", "partition_name"),
)

compactions = _table(
    "hiveacid_compactions",
    _key(BigInteger, "id"),
    _required(String, "database_name", "table_name", "kind", "state", "pool"),
    _optional(String, "partition_name", "initiator", "worker", "error", "order_by", "reason", "details"),
    _optional(String, "properties"),  # JSON: a list of pairs
    _optional(BigInteger, "enqueued", "started", "ended", "commit_time", "clean_from"),
    _optional(BigInteger, "txn_id", "high_watermark", "next_txn_id"),
    _required(Integer, "priority", "claims", "cleanings"),
    _optional(Integer, "buckets"),
)

# Last commit in each table or partition whose rows housekeeping has dropped from ``written``.
changed_partitions = _table(
    "hiveacid_changed_places",
    _required(String, "database_name", "table_name"),
    _optional(String, "partition_name"),
    _required(BigInteger, "changed"),
)

# One row per commit and table, and one of write id 0 at the begin of a table's history (``commits``).
commits = _table(
    "hiveacid_commits",
    _key(String, "database_name", "table_name"),
    _key(BigInteger, "write_id"),
    _required(BigInteger, "committed"),
    _optional(BigInteger, "txn_id"),
    _optional(String, "user_name", "host", "agent"),
    _optional(String, "operation_summary"),  # the `OperationSummary`, as JSON
)

# Progress and writers of streams, one row per stream. ``digest``: of the query's name, which may be longer than a key.
streams = _table(
    "hiveacid_streams",
    _key(String, "database_name", "table_name", "digest"),
    _required(String, "query", "checkpoint"),
    _required(BigInteger, "epoch", "batch_id"),
    _required(String, "writers"),  # JSON: a list of pairs
)

services = _table(
    "hiveacid_services",
    _key(String, "name"),
    _required(String, "kind"),
    _optional(String, "pool", "version"),
    _required(BigInteger, "started", "last_seen"),
)

counters = _table("hiveacid_counters", _key(String, "name"), _required(BigInteger, "value"))

# Definitions are JSON. The digest of a partition is of its values, which may be longer than a key.
# ``location``: again, as the definition has it, for one query over all (`places`).
databases = _table(
    "hiveacid_databases", _key(String, "name"), _required(String, "definition"), _optional(String, "location")
)
tables, views = (
    _table(
        name,
        [Column("database_name", String, ForeignKey("hiveacid_databases.name"), primary_key=True)],
        _key(String, "name"),
        _required(String, "definition"),
        _optional(String, *more),
    )
    for name, *more in (("hiveacid_tables", "location"), ("hiveacid_views",))
)
partitions = _table(
    "hiveacid_partitions",
    _key(String, "database_name", "table_name", "digest"),
    _required(String, "definition"),
)

# Partitions outside their tables' directories.
placed_partitions = _table(
    "hiveacid_placed_partitions",
    _key(String, "database_name", "table_name", "digest"),
    _required(String, "location"),
)

# Tables of which ``files`` holds all directories that commits made (`core.snapshot.file_records`).
recorded_tables = _table("hiveacid_recorded_tables", _key(String, "database_name", "table_name"))

# Directories that commits made. ``place``: the digest of the partition, empty for a table without partitions.
files = _table(
    "hiveacid_files", _required(String, "database_name", "table_name", "place", "directory", "content")
)

# Figures of tables over time (`core.compaction.advice`), those of the whole store without a name.
figures = _table(
    "hiveacid_figures",
    _key(String, "database_name", "table_name"),
    _key(BigInteger, "recorded"),
    _required(String, "incarnation", "content"),  # content: JSON
)

# One row in a store that is a file: a random id, and the file's path (`home`).
home = _table("hiveacid_home", _key(String, "id"), _required(String, "location"))

# Marks of calls that must not be carried out twice (``database.write_exactly_once``); housekeeping drops old marks.
idempotency_marks = _table("hiveacid_done", _key(String, "mark"), _required(BigInteger, "at"))

schema = _table("hiveacid_schema", _key(Integer, "version"))

# Literals instead of parameters: a partial index on the open or aborted rows is used only for literal conditions.
OPEN: ColumnElement[str] = literal_column("'open'")
COMMITTED: ColumnElement[str] = literal_column("'committed'")
ABORTED: ColumnElement[str] = literal_column("'aborted'")

CONFLICTING: tuple[ColumnElement[str], ...] = tuple(
    literal_column(f"'{operation}'") for operation in CONFLICTING_OPERATIONS
)
"""Operations that can be part of a conflict."""

COMMIT_SEQUENCE = "commit sequence"
"""Counter: commits with updates or deletes so far."""
SETTLED = "settled"
"""Counter: a missing row up to this transaction id means ended; above it, the transaction may be just being opened."""


FIGURES = "figures"
"""Counter: time (ms) at which a service was the last to begin to record the figures of tables."""
CONFLICTS = "conflicts"
"""Counter: transactions that a write conflict refused and whose rows are dropped."""


def is_of_table(rows: Table) -> ColumnElement[bool]:
    """Return the SQL condition that a row belongs to the table of the parameters (:func:`table_parameters`)."""
    return and_(rows.c.database_name == bindparam("database"), rows.c.table_name == bindparam("name"))


def table_parameters(table: TableName) -> dict[str, str]:
    """Return the parameters of :func:`is_of_table`."""
    return {"database": table.database, "name": table.name}


def is_of_same_table(rows: FromClause, others: FromClause) -> ColumnElement[bool]:
    """Return the SQL condition that two rows belong to the same table."""
    return and_(rows.c.database_name == others.c.database_name, rows.c.table_name == others.c.table_name)


def is_of_any_table(rows: Table) -> ColumnElement[bool]:
    """Return the SQL condition that a row belongs to one of the tables in the parameter ``places``."""
    return tuple_(rows.c.database_name, rows.c.table_name).in_(bindparam("places", expanding=True))


def table_pairs(tables: Iterable[TableName]) -> list[tuple[str, str]]:
    """Return the parameter of :func:`is_of_any_table`."""
    return [(table.database, table.name) for table in tables]


def table_columns(table: TableName) -> dict[str, str]:
    """Return the columns that name the table in a new row."""
    return {"database_name": table.database, "table_name": table.name}


_REMEMBERED = 60_000  # ms
_ABSOLUTE = re.compile(r"/|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


@dataclass(frozen=True)
class StoredLocations:
    """The way locations are stored: relative to ``root``, the warehouse that holds the store, as far as they lie in it.

    The directory can then be moved or copied as a whole. ``root`` is None for a store elsewhere, whose clients may name
    the warehouse by different paths. ``real_paths`` returns a function that resolves symbolic links at one moment.
    """

    root: str | None
    real_paths: Callable[[], Callable[[str], str]]

    def to_stored(self, location: str) -> str:
        """Return the text to store for a location."""
        if self.root is None or not location:
            return location
        outer, inner = self.root, location
        if not lies_in(inner, outer) and inner.startswith("/"):
            resolve = self.real_paths()
            outer, inner = resolve(outer), resolve(inner)
        return posixpath.relpath(inner, outer) if lies_in(inner, outer) else location

    def to_absolute(self, stored: str) -> str:
        """Return the location of a stored text."""
        if self.root is None or not stored or _ABSOLUTE.match(stored):
            return stored
        return posixpath.normpath(f"{self.root}/{stored}")


def remember_paths(
    real_paths: Callable[[], Callable[[str], str]], clock: Clock
) -> Callable[[], Callable[[str], str]]:
    """Return a function like ``real_paths`` that hands out one resolver, with a memory, for a minute.

    Locations are compared inside a transaction of the database, and on a slow file system a server ends it before all are
    resolved. The repeated call then has their paths already.
    """
    resolver, made_at = cache(real_paths()), clock.now()

    def current() -> Callable[[str], str]:
        nonlocal resolver, made_at
        if not 0 <= clock.now() - made_at < _REMEMBERED:
            resolver, made_at = cache(real_paths()), clock.now()
        return resolver

    return current


_DATABASES = select(databases.c.name, databases.c.location).where(databases.c.location.is_not(None))
_TABLES, _PARTITIONS = (
    select(kind.c.database_name, kind.c[name], kind.c.location).where(kind.c.location.is_not(None))
    for kind, name in ((tables, "name"), (placed_partitions, "table_name"))
)


def all_places(connection: Connection, locations: StoredLocations) -> list[Place]:
    """Return the directories of all databases and tables, and of the partitions outside their tables'."""
    absolute = locations.to_absolute
    found = [place_of_database(name, absolute(stored)) for name, stored in connection.execute(_DATABASES)]
    for rows, place_of in ((_TABLES, place_of_table), (_PARTITIONS, place_of_partition)):
        found += [
            place_of(TableName(database, name), absolute(stored))
            for database, name, stored in connection.execute(rows)
        ]
    return found


def require_free(
    connection: Connection, locations: StoredLocations, new: Iterable[Place], leaving: Place | None = None
) -> None:
    """Raise CatalogError for a new place that conflicts with one in the store except ``leaving``, or with another new one.

    The caller has serialised the transactions that record locations, so that of two at once the second one is refused.
    """
    others: list[Place] | None = None
    resolve = locations.real_paths()
    for place in new:
        if others is None:
            others = [one for one in all_places(connection, locations) if one != leaving]
        other = first_overlapping_place(place, others, resolve)
        if other is not None:
            raise refusals.location_taken(place.location, other)
        others.append(place)


_LOCATION = "location"
_MOST_LISTED, _MOST_PARTITIONS = 16, 100_000
"""Tables whose partitions a client keeps, and how many of a table."""


def to_text(
    value: DatabaseDefinition | TableDefinition | Partition | ViewDefinition, locations: StoredLocations
) -> str:
    """Format a definition as JSON."""
    fields = asdict(value)
    if _LOCATION in fields:
        fields[_LOCATION] = locations.to_stored(fields[_LOCATION])
    return json.dumps(fields, separators=(",", ":"))


def database_of(text: str, locations: StoredLocations) -> DatabaseDefinition:
    """Parse a database definition."""
    return DatabaseDefinition(**_located(text, locations))


def table_of(text: str, locations: StoredLocations) -> TableDefinition:
    """Parse a table definition."""
    fields = _located(text, locations)
    values = {
        "name": TableName(**fields["name"]),
        "columns": _columns(fields["columns"]),
        "partition_columns": _columns(fields["partition_columns"]),
        "storage": StorageFormat(**fields["storage"]),
        "bucketing": fields["bucketing"] and Bucketing(**fields["bucketing"]),
        "constraints": tuple(map(_constraint, fields.get("constraints", ()))),
    }
    return TableDefinition(**fields | values)


def _constraint(fields: dict[str, Any]) -> Constraint:
    values = {
        "kind": ConstraintKind(fields["kind"]),
        "key": tuple(fields["key"]),
        "parent": fields["parent"] and TableName(**fields["parent"]),
        "parent_key": tuple(fields["parent_key"]),
    }
    return Constraint(**fields | values)


def view_of(text: str) -> ViewDefinition:
    """Parse a view definition."""
    fields = _fields(text)
    return ViewDefinition(
        **fields | {"name": TableName(**fields["name"]), "columns": _columns(fields["columns"])}
    )


def partition_of(text: str, locations: StoredLocations) -> Partition:
    """Parse a partition."""
    return partitions_of([text], locations)[0]


def partitions_of(texts: Sequence[str], locations: StoredLocations) -> list[Partition]:
    """Parse partitions, all at once, which takes a third of the time."""
    return [
        Partition(
            **one
            | {
                "values": tuple(one["values"]),
                _LOCATION: locations.to_absolute(one[_LOCATION]),
                "properties": _frozen(one.get("properties", [])),
            }
        )
        for one in json.loads(f"[{','.join(texts)}]")
    ]


class ListedPartitions:
    """Partitions of tables as they were last listed, with their texts, which take a tenth of the time to read."""

    def __init__(self) -> None:
        """Start empty."""
        self._last: dict[TableName, tuple[Sequence[str], tuple[Partition, ...]]] = {}

    def read(
        self, table: TableName, texts: Sequence[str], locations: StoredLocations
    ) -> tuple[Partition, ...]:
        """Return the partitions of these texts, sorted by values; those of before for the same texts."""
        before, found = self._last.get(table, ((), ()))
        if texts != before:
            found = tuple(sorted(partitions_of(texts, locations), key=lambda partition: partition.key))
            if len(self._last) >= _MOST_LISTED:
                self._last.clear()
            if len(texts) <= _MOST_PARTITIONS:
                self._last[table] = texts, found
        return found


def place_of_values(values: tuple[str | None, ...]) -> str:
    """Return the key of a partition of these values among the places of ``files``; empty for a table without partitions."""
    return recorded_place(Partition(values, ""))


def recorded_place(partition: Partition) -> str:
    """Return the `place_of_values` of a partition."""
    return partition_digest(partition) if partition.values else ""


def partition_digest(partition: Partition) -> str:
    """Return a key of bounded length for a partition."""
    return hashlib.sha256(json.dumps(partition.key).encode()).hexdigest()


def _located(text: str, locations: StoredLocations) -> dict[str, Any]:
    fields = _fields(text)
    return fields | {_LOCATION: locations.to_absolute(fields[_LOCATION])}


def _fields(text: str) -> dict[str, Any]:
    return {name: _frozen(value) for name, value in json.loads(text).items()}


def _frozen(value: Any) -> Any:
    """Return a JSON value with tuples in place of its lists."""
    if isinstance(value, dict):
        return {name: _frozen(element) for name, element in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _columns(columns: tuple[dict[str, str], ...]) -> tuple[model.Column, ...]:
    return tuple(model.Column(**column) for column in columns)
