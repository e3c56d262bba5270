"""Table declarations of the store for SQLAlchemy; ``migrations`` creates the tables, and a test compares both.

The names follow Hive's metastore:

- ``txns``: TXNS; ``written``: TXN_COMPONENTS and WRITE_SET in one
- ``write_ids``: TXN_TO_WRITE_ID; ``next_write_ids``: NEXT_WRITE_ID
- ``lock_requests``, ``lock_components``: HIVE_LOCKS
- ``compactions``: COMPACTION_QUEUE and COMPLETED_COMPACTIONS in one
- ``changed_partitions``: the remaining use of COMPLETED_TXN_COMPONENTS
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, String, Table, literal_column
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.transactions.conflicts import CONFLICTING_OPERATIONS

METADATA = MetaData()


def _table(name: str, *columns: Column[Any]) -> Table:
    return Table(name, METADATA, *columns)


txns = _table(
    "hiveacid_txns",
    Column("id", BigInteger, primary_key=True),
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),  # open, committed, aborted
    Column("started", BigInteger, nullable=False),  # times are ms since the epoch
    Column("heartbeat", BigInteger, nullable=False),
    Column("timeout", BigInteger, nullable=False),  # ms without a heartbeat after which it is aborted
    Column("ended", BigInteger),
    Column(
        "moment", BigInteger, nullable=False
    ),  # commit sequence at the snapshot (before one: at the opening)
    Column("min_open", BigInteger, nullable=False),  # lowest id that was open when this one began
    Column("reason", String),
    Column("code", String),
    Column("user_name", String, nullable=False),
    Column("host", String, nullable=False),
    Column("agent", String, nullable=False),
)

written = _table(
    "hiveacid_written",
    Column("txn_id", BigInteger, nullable=False),
    Column("database_name", String, nullable=False),
    Column("table_name", String, nullable=False),
    Column("partition_name", String),
    Column("operation", String, nullable=False),  # i, u, d; c: a compaction of the ids up to write_id
    Column("commit_sequence", BigInteger),
    Column("write_id", BigInteger),
)

write_ids = _table(
    "hiveacid_write_ids",
    Column("database_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("write_id", BigInteger, primary_key=True),
    Column("txn_id", BigInteger),  # none: an aborted id that another engine left
)

next_write_ids = _table(
    "hiveacid_next_write_ids",
    Column("database_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("next_id", BigInteger, nullable=False),
)

lock_requests = _table(
    "hiveacid_lock_requests",
    Column("id", BigInteger, primary_key=True),
    Column("txn_id", BigInteger, ForeignKey("hiveacid_txns.id"), nullable=False),
    Column("state", String, nullable=False),  # ACQUIRED, WAITING
    Column("acquired_at", BigInteger),
    Column("blocked_by", String),
)

lock_components = _table(
    "hiveacid_lock_components",
    Column("request_id", BigInteger, ForeignKey("hiveacid_lock_requests.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("txn_id", BigInteger, nullable=False),
    Column("type", String, nullable=False),
    Column("database_name", String, nullable=False),
    Column("table_name", String),
    Column("partition_name", String),
)

compactions = _table(
    "hiveacid_compactions",
    Column("id", BigInteger, primary_key=True),
    Column("database_name", String, nullable=False),
    Column("table_name", String, nullable=False),
    Column("partition_name", String),
    Column("kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("pool", String, nullable=False),
    Column("initiator", String),
    Column("worker", String),
    Column("enqueued", BigInteger),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("error", String),
    Column("txn_id", BigInteger),
    Column("high_watermark", BigInteger),
    Column("next_txn_id", BigInteger),
    Column("commit_time", BigInteger),
    Column("priority", Integer, nullable=False),
    Column("buckets", Integer),
    Column("order_by", String),
    Column("properties", String),  # JSON: a list of pairs
    Column("reason", String),
    Column("details", String),
    Column("claims", Integer, nullable=False),
    Column("cleanings", Integer, nullable=False),
    Column("clean_from", BigInteger),
)

# Last commit in each table or partition whose rows housekeeping has dropped from ``written``.
changed_partitions = _table(
    "hiveacid_changed_places",
    Column("database_name", String, nullable=False),
    Column("table_name", String, nullable=False),
    Column("partition_name", String),
    Column("changed", BigInteger, nullable=False),
)

# One row per commit and table, and one of write id 0 at the begin of a table's history (``commits``).
commits = _table(
    "hiveacid_commits",
    Column("database_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("write_id", BigInteger, primary_key=True),
    Column("committed", BigInteger, nullable=False),
    Column("txn_id", BigInteger),
    Column("user_name", String),
    Column("host", String),
    Column("agent", String),
    Column("deed", String),  # JSON
)

# Progress and writers of streams, one row per stream.
streams = _table(
    "hiveacid_streams",
    Column("database_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column(
        "digest", String, primary_key=True
    ),  # of the query's name, which may be longer than a key column allows
    Column("query", String, nullable=False),
    Column("checkpoint", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("batch_id", BigInteger, nullable=False),
    Column("writers", String, nullable=False),  # JSON: a list of pairs
)

services = _table(
    "hiveacid_services",
    Column("name", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("pool", String),
    Column("version", String),
    Column("started", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
)

counters = _table(
    "hiveacid_counters",
    Column("name", String, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

databases = _table(
    "hiveacid_databases",
    Column("name", String, primary_key=True),
    Column("definition", String, nullable=False),  # JSON
)

tables = _table(
    "hiveacid_tables",
    Column("database_name", String, ForeignKey("hiveacid_databases.name"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("definition", String, nullable=False),  # JSON
)

views = _table(
    "hiveacid_views",
    Column("database_name", String, ForeignKey("hiveacid_databases.name"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("definition", String, nullable=False),  # JSON
)

partitions = _table(
    "hiveacid_partitions",
    Column("database_name", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("digest", String, primary_key=True),  # of the values, which may be longer than a key column allows
    Column("definition", String, nullable=False),  # JSON
)

# Marks of calls that must not be carried out twice (``idempotency``); housekeeping drops old marks.
idempotency_marks = _table(
    "hiveacid_done",
    Column("mark", String, primary_key=True),
    Column("at", BigInteger, nullable=False),
)

schema = _table("hiveacid_schema", Column("version", Integer, primary_key=True))

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
