"""`ExecutionContext`: the value, made for each statement, that an executor gets instead of the session.

An executor changes the session only through the callables given here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hiveacid.core.model import TableName
from hiveacid.errors import TransactionStateError
from hiveacid.sql.binding.source_positions import errors_at
from hiveacid.sql.binding.table_binder import Binder, binder
from hiveacid.sql.statements.values import TableRef
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class ExecutionContext:
    """The connection, the transaction and the snapshot of one statement, and functions that change the session.

    ``joined``: the transaction that the statement belongs to, None if it has its own. ``reader``: inside
    ``with acid.snapshot()``, the transaction that holds the snapshot (then ``joined`` is the same). ``read_only``: the
    transaction was begun READ ONLY. ``begin``: make the session's next statements join a transaction (read only or not). ``end``: remove that transaction
    from the session and return it; the argument is the SQL verb. ``set``: change a setting. ``use``: change the current
    database.
    """

    context: Context
    joined: Transaction | None
    reader: Transaction | None
    read_only: bool
    begin: Callable[[Transaction, bool], None]
    end: Callable[[str], Transaction]
    set: Callable[[str, str], None]
    use: Callable[[str], None]

    def binder(self, txn: Transaction | None = None) -> AbstractContextManager[Binder]:
        """Provide a binder that reads in ``txn``, by default in the statement's transaction or snapshot."""
        return binder(self.context, txn or (None if self.reader else self.joined), self.reader)

    def find(self, ref: TableRef) -> TableName:
        """Return the full name of an existing table. Raises NoSuchTableError with the position in the text."""
        name = ref.resolve(self.context.database)
        with errors_at(ref.line, ref.column):
            self.context.require(name)
        return name

    def require_no_snapshot(self, verb: str) -> None:
        """Refuse a writing statement inside a snapshot or a READ ONLY transaction."""
        if self.reader is not None or self.read_only:
            where = "with acid.snapshot()" if self.reader else "a READ ONLY transaction"
            raise TransactionStateError(f"{verb} is not possible inside {where}: it only reads")
