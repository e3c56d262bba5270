"""Housekeeping: removal of ended transactions and their rows (``AcidTxnCleanerService``); register of running services."""

from __future__ import annotations

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, insert, select, update

from hiveacid.core.compaction.queue_records import Service
from hiveacid.stores import argument_validation
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.compaction import candidates, job_states, lost_workers
from hiveacid.stores.sql.database import Database, SqlBase
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    counters,
    idempotency_marks,
    services,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.table_names import is_of_same_table
from hiveacid.stores.sql.transactions import commit_record_rows
from hiveacid.stores.sql.transactions.open_txns import TOP, counter_value
from hiveacid.stores.sql.transactions.txn_rows import NOW


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
        bounds = self._database.write(lambda connection: _bounds(self._database, connection))
        keep = max(int(limits.txn_timeout * 1000), bounds["timeout"])
        parameters = {**bounds, "keep": keep, "now": now}

        def work(connection: Connection) -> None:
            lost_workers.requeue_abandoned_jobs(connection, limits, now)
            job_states.prune_history(connection, limits, now)
            forget_services(connection, limits, now)
            commit_record_rows.prune_commits(connection, limits, now)
            candidates.keep_changed_partitions(connection, _SEEN, parameters)
            for statement in _DELETIONS:
                connection.execute(statement, parameters)

        self._database.write(work)


def _bounds(database: Database, connection: Connection) -> dict[str, int]:
    """Return the bounds of what open transactions may need.

    ``seen``: lowest id that was open when any of them began. ``moment``: lowest commit sequence number that any of them sees.
    ``top``: highest id. ``timeout``: their longest timeout in milliseconds.
    """
    database.dialect.block_opens(connection)
    row = connection.execute(_NEEDED).one()
    if database.dialect.ids_may_gap:
        # No transaction is being opened: missing rows up to the highest id will never appear.
        connection.execute(update(counters).where(counters.c.name == SETTLED).values(value=row.top))
    return {"seen": row.seen, "moment": row.moment, "top": row.top, "timeout": row.timeout}


_NEEDED = select(
    func.coalesce(func.min(txns.c.min_open), TOP + 1).label("seen"),
    func.coalesce(func.min(txns.c.moment), counter_value(COMMIT_SEQUENCE)).label("moment"),
    TOP.label("top"),
    func.coalesce(func.max(txns.c.timeout), 0).label("timeout"),
).where(txns.c.state == OPEN)

_DELETE_MARKS = delete(idempotency_marks).where(
    idempotency_marks.c.at < NOW - bindparam("keep", type_=BigInteger)
)
_OLD = txns.c.ended + txns.c.timeout < NOW
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
_DELETIONS = (_DELETE_MARKS, _DELETE_WRITE_IDS, _DELETE_SEEN_CHANGES, _DELETE_EMPTY_CHANGES, _DELETE_TXNS)


_ANNOUNCED = (
    select(services)
    .where(services.c.last_seen >= NOW - bindparam("within", type_=BigInteger))
    .order_by(services.c.name)
)
_DELETE_SILENT_SERVICES = delete(services).where(
    services.c.last_seen < NOW - bindparam("timeout", type_=BigInteger)
)


class Services(SqlBase):
    """Implements :class:`hiveacid.ports.store.ServicePort`."""

    def announce_service(self, service: Service) -> None:
        """Insert a service, or update the time of its last announcement."""
        argument_validation.service(service)
        values = {"kind": service.kind, "pool": service.pool, "version": service.version, "last_seen": NOW}
        now = {"now": self._database.now()}

        def work(connection: Connection) -> None:
            statement = update(services).where(services.c.name == service.name).values(values)
            if not connection.execute(statement, now).rowcount:
                new = {**values, "name": service.name, "started": NOW}
                connection.execute(insert(services).values(new), now)

        self._database.write(work, Durability.WITH_CLIENT)

    def withdraw_service(self, name: str) -> None:
        """Delete a service."""
        statement = delete(services).where(services.c.name == name)
        self._database.write(lambda connection: connection.execute(statement), Durability.WITH_CLIENT)

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds."""
        parameters = {"within": int(within * 1000), "now": self._database.now()}
        rows = self._database.read(lambda connection: connection.execute(_ANNOUNCED, parameters).all())
        return tuple(Service(**row._asdict()) for row in rows)


def forget_services(connection: Connection, limits: Limits, now: int | None) -> None:
    """Drop services that were not announced for ``hive.compactor.worker.timeout``."""
    connection.execute(_DELETE_SILENT_SERVICES, {"timeout": int(limits.worker_timeout * 1000), "now": now})
