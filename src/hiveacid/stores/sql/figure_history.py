"""Figures that the services record over time, and the counts of transactions and conflicts.

RENAME moves the rows, as those of commits. The incarnation leaves out those of an earlier table of the name.
The figures of the whole store have a row without a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, insert, or_, select, update

from hiveacid.core.compaction.advice import FigureRecord, superseded_records
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.stores.refusals import CONFLICT
from hiveacid.stores.sql.database import NOW, SqlBase, write_exactly_once
from hiveacid.stores.sql.dialects.dialect import NamedRow
from hiveacid.stores.sql.schema import (
    ABORTED,
    CONFLICTS,
    FIGURES,
    counters,
    figures,
    is_of_table,
    table_columns,
    table_parameters,
    txns,
)
from hiveacid.stores.sql.txns_and_locks import TOP, counter_value

_STORE = TableName("", "")
_INTERVAL = bindparam("interval", type_=BigInteger)
_IS_DUE = and_(
    counters.c.name == FIGURES,
    # or the clock went back
    or_(counters.c.value <= NOW - _INTERVAL, counters.c.value > NOW + _INTERVAL),
)
_CLAIM = update(counters).where(_IS_DUE).values(value=NOW)
_DUE = select(counters.c.name).where(_IS_DUE)
_DROP_OLD = delete(figures).where(figures.c.recorded < NOW - bindparam("keep", type_=BigInteger))
_OF_TABLE = select(figures).where(is_of_table(figures)).order_by(figures.c.recorded)
_TIMES = select(figures.c.recorded).where(is_of_table(figures))
_THIN = delete(figures).where(
    is_of_table(figures), figures.c.recorded.in_(bindparam("times", expanding=True, type_=BigInteger))
)
_NEWEST = (
    select(figures.c.database_name, figures.c.table_name, func.max(figures.c.recorded).label("newest"))
    .where(figures.c.table_name != "", figures.c.recorded <= NOW)  # or the clock went back
    .group_by(figures.c.database_name, figures.c.table_name)
    .subquery()
)
_LATEST = select(figures).join(
    _NEWEST,
    and_(
        figures.c.database_name == _NEWEST.c.database_name,
        figures.c.table_name == _NEWEST.c.table_name,
        figures.c.recorded == _NEWEST.c.newest,
    ),
)
_REFUSED = select(func.count()).where(txns.c.state == ABORTED, txns.c.code == CONFLICT).scalar_subquery()
_COUNTS = select(TOP.label("begun"), (counter_value(CONFLICTS) + _REFUSED).label("conflicts"))


class FigureHistory(SqlBase):
    """Methods of :class:`hiveacid.ports.store.MaintenancePort` that record figures, and tell them."""

    def claim_figures(self, interval: float, retention: float) -> bool:
        """Set the time of the last claim, and drop what is too old, if the interval is over."""
        due = {"now": self._database.now(), "interval": int(interval * 1000)}

        def work(connection: Connection) -> bool:
            if not connection.execute(_CLAIM, due).rowcount:
                return False
            connection.execute(_DROP_OLD, {"now": due["now"], "keep": int(retention * 1000)})
            return True

        return self._database.read(lambda c: c.scalar(_DUE, due)) is not None and write_exactly_once(
            self._database, work
        )

    def record_figures(self, records: Sequence[FigureRecord]) -> None:
        """Insert records, each in place of those that it supersedes."""

        def work(connection: Connection) -> None:
            for record in records:
                table = record.table or _STORE
                key = table_parameters(table)
                if gone := superseded_records(connection.scalars(_TIMES, key).all(), record.time):
                    connection.execute(_THIN, {**key, "times": gone})
                content = json.dumps(dict(record.figures), separators=(",", ":"))
                row = {"recorded": record.time, "incarnation": record.incarnation, "content": content}
                connection.execute(insert(figures), table_columns(table) | row)

        self._database.write(work, repeatable=True)

    def recorded_figures(self, table: TableDefinition | None) -> tuple[FigureRecord, ...]:
        """Return the records of a table, or of the store."""
        key = table_parameters(_STORE if table is None else table.name)
        rows = self._database.read(lambda connection: connection.execute(_OF_TABLE, key).all())
        of_table = "" if table is None else table.incarnation
        return tuple(_record(row) for row in rows if row.incarnation == of_table)

    def latest_figures(self) -> Mapping[TableName, FigureRecord]:
        """Return the latest record of each table up to now."""
        moment = self._database.now()
        rows = self._database.read(lambda c: c.execute(_LATEST, {"now": moment}).all(), slow=True)
        return {TableName(row.database_name, row.table_name): _record(row) for row in rows}

    def count_transactions(self) -> tuple[int, int]:
        """Count transactions by the highest id; conflicts by the counter of dropped rows plus the rows still there."""
        row = self._database.read(lambda connection: connection.execute(_COUNTS).one())
        return row.begun, row.conflicts


def _record(row: NamedRow) -> FigureRecord:
    name = TableName(row.database_name, row.table_name)
    return FigureRecord(
        None if name == _STORE else name, row.recorded, json.loads(row.content), row.incarnation
    )
