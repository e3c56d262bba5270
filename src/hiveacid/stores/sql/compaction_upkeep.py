"""What happens to compactions when transactions end, and when time passes (``CompactionHouseKeeperService``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, or_, select

from hiveacid.core.model import TxnId
from hiveacid.core.queue import READY
from hiveacid.core.states import COMPACTION, fire
from hiveacid.stores import checks
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.compaction_rows import ALL, change_job, compaction_of, revoked
from hiveacid.stores.sql.database import chunks
from hiveacid.stores.sql.open_txns import TOP
from hiveacid.stores.sql.rows import NOW, is_open
from hiveacid.stores.sql.tables import compactions


def committed(connection: Connection, txn_id: TxnId, now: int | None) -> None:
    """Note that a job's transaction commits: its directories are visible, the cleaner knows whom to wait for."""
    for row in connection.execute(_OF_TXNS, {"ids": [txn_id]}).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "finish"),
            "next_txn_id": TOP + 1,
            "commit_time": NOW,
        }
        change_job(connection, row["id"], values, now)


def lost(
    connection: Connection, limits: Limits, txn_ids: Sequence[TxnId], reason: str, now: int | None
) -> None:
    """Note that nobody heard of these jobs any more: they are queued again, unless too many workers were lost."""
    for some in chunks(txn_ids):
        for row in connection.execute(_OF_TXNS, {"ids": some}).mappings().all():
            one = compaction_of(row)
            if one.state == "working" and one.claims < limits.lost_workers:
                change_job(connection, one.id, revoked(one) | {"error": reason}, now)
                continue
            values = {"state": fire(COMPACTION, one.state, "fail"), "error": reason, "ended": NOW}
            change_job(connection, one.id, values, now)


_OF_TXNS = ALL.where(
    compactions.c.txn_id.in_(bindparam("ids", expanding=True)),
    compactions.c.state.in_(("working", READY)),
)


def revoke(connection: Connection, limits: Limits, now: int | None) -> None:
    """Queue again what a worker claimed and never came back to.

    ``hive.compactor.worker.timeout``, but ``hive.txn.timeout`` as long as it has no transaction to beat for.
    """
    timeouts = {"begun": int(limits.worker_timeout * 1000), "claimed": int(limits.txn_timeout * 1000)}
    for row in connection.execute(_ABANDONED, {**timeouts, "now": now}).mappings().all():
        one = compaction_of(row)
        change_job(connection, one.id, revoked(one), now)


_ABANDONED = ALL.where(
    compactions.c.state == "working",
    or_(
        and_(
            compactions.c.txn_id.is_(None),
            compactions.c.started < NOW - bindparam("claimed", type_=BigInteger),
        ),
        and_(
            ~is_open(compactions.c.txn_id),
            compactions.c.started < NOW - bindparam("begun", type_=BigInteger),
        ),
    ),
).with_for_update()


def prune(connection: Connection, limits: Limits, now: int | None) -> None:
    """Keep the newest ended jobs of each table or partition and state, failures only until they are outlived."""
    seen: dict[tuple[object, ...], int] = defaultdict(int)
    succeeded: dict[tuple[object, ...], set[str]] = defaultdict(set)
    oldest = int(connection.scalar(select(NOW), {"now": now}) or 0) - int(limits.history_timeout * 1000)
    surplus = []
    for row in connection.execute(_ENDED, {"states": list(limits.history)}).mappings():
        one = compaction_of(row)
        place = (one.request.table, one.request.partition)
        seen[*place, one.state] += 1
        if one.state == "succeeded":
            succeeded[place].add(one.request.kind)
        if seen[*place, one.state] > limits.history[one.state] or checks.is_outlived(
            one, succeeded[place], oldest
        ):
            surplus.append(one.id)
    for some in chunks(surplus):
        connection.execute(delete(compactions).where(compactions.c.id.in_(some)))


_ENDED = (
    select(compactions)
    .where(compactions.c.state.in_(bindparam("states", expanding=True)))
    .order_by(compactions.c.id.desc())
)
