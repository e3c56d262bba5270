"""Idempotency marks, for calls that must not be carried out twice, such as CREATE TABLE and enqueuing a job.

Such a call writes a mark in its own transaction of the database. If the answer to the COMMIT is lost, the call is
tried again and finds the mark: it was carried out, and the first answer is returned. While the first attempt may still
be running on the server, the second waits for it at the mark.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, bindparam, insert
from sqlalchemy.exc import IntegrityError

from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import idempotency_marks
from hiveacid.stores.sql.transactions.txn_rows import NOW

_Answer = TypeVar("_Answer")

_MARK = insert(idempotency_marks).values(mark=bindparam("mark"), at=NOW)


def write_exactly_once(
    database: Database, work: Callable[[Connection], _Answer], durability: Durability = Durability.FULL
) -> _Answer:
    """Run :meth:`Database.write`; if the answer is lost, repeat it without carrying out ``work`` twice."""
    mark = uuid.uuid4().hex
    answers: list[_Answer] = []

    def marked(connection: Connection) -> _Answer:
        try:
            connection.execute(_MARK, {"mark": mark, "now": database.now()})
        except IntegrityError:
            raise _DoneBefore from None
        answer = work(connection)
        answers.append(answer)
        return answer

    try:
        return database.write(marked, durability)
    except _DoneBefore:
        return answers[-1]


class _DoneBefore(Exception):  # noqa: N818 - never leaves this module
    """The mark exists: an earlier attempt succeeded, and only its answer was lost."""
