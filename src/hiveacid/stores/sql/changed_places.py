"""Where something was written: what the initiator looks at (``CompactionCandidateHandler``).

Rows of ``written`` say it while they are there; what housekeeping drops of them is folded into one row a
place, so that neither grows with history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, and_, bindparam, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TableName
from hiveacid.core.queue import ChangedPlace
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.tables import ABORTED, COMMITTED, txns, write_ids, written
from hiveacid.stores.sql.tables import changed_places as folded

_PLACE = (written.c.database_name, written.c.table_name, written.c.partition_name)
_SINCE = bindparam("since", type_=BigInteger)
_IS_DATA = written.c.operation != "c"
_LAST = func.max(txns.c.ended).label("changed")
_CHANGED = (
    select(*_PLACE, _LAST)
    .join(txns, txns.c.id == written.c.txn_id)
    .where(txns.c.state == COMMITTED, txns.c.ended >= _SINCE, _IS_DATA)
    .group_by(*_PLACE)
)
_FOLDED = select(folded).where(folded.c.changed >= _SINCE)
_ABORTS = (
    select(
        write_ids.c.database_name,
        write_ids.c.table_name,
        written.c.partition_name,
        write_ids.c.txn_id,
        txns.c.ended,
    )
    .distinct()
    .join(txns, txns.c.id == write_ids.c.txn_id)
    .outerjoin(
        written,
        and_(
            written.c.txn_id == write_ids.c.txn_id,
            written.c.database_name == write_ids.c.database_name,
            written.c.table_name == write_ids.c.table_name,
            _IS_DATA,
        ),
    )
    .where(txns.c.state == ABORTED)
)


def changed_places(database: Database, since: int) -> tuple[ChangedPlace, ...]:
    """List places by name."""

    def work(connection: Connection) -> tuple[ChangedPlace, ...]:
        changed: dict[tuple[TableName, str | None], int] = {}
        for statement in (_FOLDED, _CHANGED):
            for row in connection.execute(statement, {"since": since}):
                place = TableName(row.database_name, row.table_name), row.partition_name
                changed[place] = max(row.changed, changed.get(place, 0))
        aborted: dict[tuple[TableName, str | None], list[int]] = defaultdict(list)
        for row in connection.execute(_ABORTS):
            aborted[TableName(row.database_name, row.table_name), row.partition_name].append(row.ended)
        places = sorted({*changed, *aborted}, key=lambda place: (place[0], place[1] or ""))
        return tuple(
            ChangedPlace(*place, changed.get(place), tuple(sorted(aborted.get(place, ()))))
            for place in places
        )

    return database.read(work)


def fold(connection: Connection, gone: ColumnElement[bool], parameters: Mapping[str, object]) -> None:
    """Remember the places of committed rows of ``written`` that fulfil a condition; they are dropped next."""
    rows = (
        select(*_PLACE, _LAST)
        .join(txns, txns.c.id == written.c.txn_id)
        .where(gone, _IS_DATA)
        .group_by(*_PLACE)
    )
    for row in connection.execute(rows, parameters).all():
        here = and_(
            folded.c.database_name == row.database_name,
            folded.c.table_name == row.table_name,
            folded.c.partition_name.is_not_distinct_from(row.partition_name),
        )
        known = connection.scalar(select(func.max(folded.c.changed)).where(here))
        if known is None:
            connection.execute(insert(folded).values(row._asdict()))
        elif known < row.changed:
            connection.execute(update(folded).where(here).values(changed=row.changed))
