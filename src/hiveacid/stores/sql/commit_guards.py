"""Queries that decide whether a transaction may commit after others, for the general way and for the pipeline.

The general way reads their rows, applies the rule of :mod:`hiveacid.core.transactions.locks_and_conflicts` to them, and
words the error. The pipeline asks only whether there are none. ``moment`` is the commit sequence at the transaction's
snapshot, ``txn_id`` its id; both are SQL expressions.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import FromClause, Select, Update, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.ports.transactions import Operation
from hiveacid.stores.sql.schema import CONFLICTING, is_of_same_table, write_ids, written


def own_changes(txn_id: ColumnElement[int]) -> Select[Any]:
    """Return the query of what a transaction has recorded as updated or deleted."""
    own = written.alias("own")
    return select(own).where(own.c.txn_id == txn_id, own.c.operation.in_(CONFLICTING))


def changes_since(moment: ColumnElement[int], theirs: FromClause = written) -> Select[Any]:
    """Return the query of updates and deletes that others have committed since."""
    return select(theirs).where(theirs.c.commit_sequence > moment, theirs.c.operation.in_(CONFLICTING))


def overwrites_since(moment: ColumnElement[int], txn_id: ColumnElement[int]) -> Select[Any]:
    """Return the query of overwrites committed since with a higher write id than the transaction's own."""
    return (
        select(written)
        .join(write_ids, is_of_same_table(write_ids, written))
        .where(
            write_ids.c.txn_id == txn_id,
            written.c.commit_sequence > moment,
            written.c.operation == Operation.UPDATE.value,  # not the trace of a compaction
            written.c.write_id > write_ids.c.write_id,
        )
    )


def place_in_sequence(txn_id: ColumnElement[int], sequence: ColumnElement[int]) -> Update:
    """Return the statement that gives what a transaction has recorded its place in the sequence of commits."""
    return update(written).where(written.c.txn_id == txn_id).values(commit_sequence=sequence)
