"""`ExecutionContext`: the value that an executor gets instead of the session, made for each statement.

An executor changes the session only through the callables given here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hiveacid.errors import TransactionStateError
from hiveacid.sql.binding.bind import Binder, binder
from hiveacid.sql.binding.source_positions import errors_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.sql.statements.values import TableRef
    from hiveacid.table.context import Context
    from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class ExecutionContext:
    """The connection, the transaction and the snapshot of one statement, and the session's own verbs.

    ``joined``: the transaction that the statement belongs to, None where it has its own. ``reader``: set inside of
    ``with acid.snapshot()``, the transaction that holds the snapshot (then ``joined`` is the same).
    ``read_only``: the transaction was begun READ ONLY. ``views``: the DataFrames of the session's temporary views on
    Spark Connect, by name. ``begin``: let the session's statements belong to a transaction (read only or not) until
    COMMIT or ROLLBACK. ``end``: take that transaction off the session again, for a verb. ``set``: change a setting.
    ``use``: make a database the current one.
    """

    context: Context
    joined: Transaction | None
    reader: Transaction | None
    read_only: bool
    views: dict[str, DataFrame]
    begin: Callable[[Transaction, bool], None]
    end: Callable[[str], Transaction]
    set: Callable[[str, str], None]
    use: Callable[[str], None]

    def binder(self, txn: Transaction | None = None) -> AbstractContextManager[Binder]:
        """Give the binder of the statement's tables: to ``txn``, the transaction or the snapshot it runs in."""
        return binder(self.context, txn or (None if self.reader else self.joined), self.reader)

    def find(self, ref: TableRef) -> TableName:
        """Return the full name of a table that exists. Raises NoSuchTableError with its place in the text."""
        name = ref.resolve(self.context.database)
        with errors_at(ref.line, ref.column):
            self.context.require(name)
        return name

    def require_no_snapshot(self, verb: str) -> None:
        """Refuse a writing statement inside of a snapshot or a READ ONLY transaction."""
        if self.reader is not None or self.read_only:
            where = "with acid.snapshot()" if self.reader else "a READ ONLY transaction"
            raise TransactionStateError(f"{verb} is not possible inside of {where}: it only reads")
