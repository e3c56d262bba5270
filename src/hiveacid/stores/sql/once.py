"""Verbs that may not be done twice, and whose answer may get lost: CREATE TABLE, a place in a queue.

Such a verb leaves a mark of its own in the same transaction of the database. If the answer to its COMMIT was
lost, it is tried again, and finds the mark: then it was done, and the answer is the one it had in hand. While the
first try may still be under way on the server, the second waits for it at the mark.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, bindparam, insert
from sqlalchemy.exc import IntegrityError

from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.rows import NOW
from hiveacid.stores.sql.tables import done

_Answer = TypeVar("_Answer")

_MARK = insert(done).values(mark=bindparam("mark"), at=NOW)


def write_once(
    database: Database, work: Callable[[Connection], _Answer], durability: Durability = Durability.FULL
) -> _Answer:
    """Do as :meth:`Database.write`, and never do twice what could not be done again, or would be refused."""
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
    """The mark is there: an earlier try went through, and only its answer was lost."""
