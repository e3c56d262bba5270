"""Schema of the store and its migrations: numbered steps that only go forward.

The first step makes the schema of 0.1.0. A change of it after that release is a step of its own at the end. A released step is never changed, because existing stores have run it as it is. Words in braces are the dialect's
(``Dialect.words``).
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from hiveacid.errors import StoreVersionError
from hiveacid.stores.sql.database import Database

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

MIGRATIONS: tuple[tuple[str, ...], ...] = (_SCHEMA,)
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
                _run(database, connection, statement)
            connection.execute(
                text("INSERT INTO hiveacid_schema (version) VALUES (:version)"), {"version": number}
            )
    finally:
        dialect.unlock_schema(connection)


def _run(database: Database, connection: Connection, statement: str) -> None:
    try:
        connection.execute(text(statement.format(**database.dialect.words)))
    except DBAPIError as error:
        if not database.dialect.is_already_applied(error):
            raise
