"""Housekeeping: removal of ended transactions and their rows (``AcidTxnCleanerService``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, or_, select, update

from hiveacid.stores.limits import LATEST_WRITER
from hiveacid.stores.sql import service_register
from hiveacid.stores.sql.compaction import candidates, job_states, lost_workers
from hiveacid.stores.sql.database import NOW, Database, SqlBase
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    counters,
    idempotency_marks,
    is_of_same_table,
    tables,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.transactions import commit_history
from hiveacid.stores.sql.transactions.open_txns import TOP, counter_value
from hiveacid.stores.sql.transactions.txn_rows import HAS_STOPPED


class Housekeeping(SqlBase):
    """Method of the transaction port that removes rows of ended transactions."""

    def housekeep(
        self,
    ) -> None:
        """Drop ended transactions, their write ids and changes, and old compactions, if no later answer needs them.

        Ended transactions are kept for the timeout of their client at least, because a client that lost the answer to its commit
        may still ask. Idempotency marks are kept for the longest timeout of an open transaction. The
        bounds are read while no transaction can open; those that are opened later need only newer rows.
        """
        limits, now = self._limits, self._database.now()
        bounds = self._database.write(lambda connection: _bounds(self._database, connection, now))
        keep = max(int(limits.txn_timeout * 1000), bounds["timeout"])
        # one moment for all statements: what one of them keeps and what another deletes must be the same rows
        now = bounds["now"]
        parameters = {**bounds, "keep": keep}

        def work(connection: Connection) -> None:
            lost_workers.requeue_abandoned_jobs(connection, limits, now)
            job_states.prune_history(connection, limits, now)
            service_register.forget_services(connection, limits, now)
            commit_history.prune_commits(connection, limits, now)
            candidates.keep_changed_partitions(connection, _SEEN, parameters)
            for statement in _DELETIONS:
                connection.execute(statement, parameters)

        self._database.write(work, slow=True)


def _bounds(database: Database, connection: Connection, now: int | None) -> dict[str, int]:
    """Return the bounds of what open transactions may need.

    ``seen``: lowest id that was open when any of them began. ``moment``: lowest commit sequence number that any of them sees.
    ``top``: highest id. ``timeout``: their longest timeout in milliseconds. ``now``: the store's time.
    """
    database.dialect.block_opens(connection)
    row = connection.execute(_NEEDED, {"now": now}).one()
    if database.dialect.ids_may_gap:
        # No transaction is being opened: missing rows up to the highest id will never appear.
        connection.execute(update(counters).where(counters.c.name == SETTLED).values(value=row.top))
    return {"seen": row.seen, "moment": row.moment, "top": row.top, "timeout": row.timeout, "now": row.now}


_NEEDED = select(
    func.coalesce(func.min(txns.c.min_open), TOP + 1).label("seen"),
    func.coalesce(func.min(txns.c.moment), counter_value(COMMIT_SEQUENCE)).label("moment"),
    TOP.label("top"),
    func.coalesce(func.max(txns.c.timeout), 0).label("timeout"),
    NOW.label("now"),
).where(txns.c.state == OPEN)

_DELETE_MARKS = delete(idempotency_marks).where(
    idempotency_marks.c.at < NOW - bindparam("keep", type_=BigInteger)
)
_OLD = txns.c.ended + txns.c.timeout < NOW
_HAS_TABLE = select(tables.c.name).where(
    tables.c.database_name == write_ids.c.database_name, tables.c.name == write_ids.c.table_name
)
# A CREATE TABLE AS SELECT that failed: no cleaner visits its table.
_DELETE_IDS_WITHOUT_TABLE = delete(write_ids).where(
    write_ids.c.txn_id.in_(
        select(txns.c.id).where(
            txns.c.state == ABORTED, _OLD, or_(HAS_STOPPED, txns.c.ended < NOW - LATEST_WRITER)
        )
    ),
    ~_HAS_TABLE.exists(),
)
_COMMITTED_BEFORE_ALL = select(txns.c.id).where(
    txns.c.state == COMMITTED, _OLD, txns.c.id < bindparam("seen", type_=BigInteger)
)
_DELETE_WRITE_IDS = delete(write_ids).where(write_ids.c.txn_id.in_(_COMMITTED_BEFORE_ALL))

_SEEN = and_(
    written.c.txn_id.in_(select(txns.c.id).where(txns.c.state == COMMITTED, _OLD)),
    func.coalesce(written.c.commit_sequence, 0) <= bindparam("moment", type_=BigInteger),
)
_DELETE_SEEN_CHANGES = delete(written).where(_SEEN)
_DELETE_EMPTY_CHANGES = delete(written).where(
    written.c.txn_id.in_(select(txns.c.id).where(txns.c.state == ABORTED, _OLD)),
    written.c.operation != "c",
    ~select(write_ids.c.write_id)
    .where(write_ids.c.txn_id == written.c.txn_id, is_of_same_table(write_ids, written))
    .exists(),
)
_DELETE_TXNS = delete(txns).where(
    txns.c.state != OPEN,
    _OLD,
    txns.c.id < bindparam("top", type_=BigInteger),
    ~select(write_ids.c.txn_id).where(write_ids.c.txn_id == txns.c.id).exists(),
    ~select(written.c.txn_id).where(written.c.txn_id == txns.c.id).exists(),
)
_DELETIONS = (
    _DELETE_MARKS,
    _DELETE_WRITE_IDS,
    _DELETE_IDS_WITHOUT_TABLE,
    _DELETE_SEEN_CHANGES,
    _DELETE_EMPTY_CHANGES,
    _DELETE_TXNS,
)
