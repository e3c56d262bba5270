"""`ExecutionContext`: the value, made for each statement, that an executor gets instead of the session; the small results of executors.

An executor changes the session only through the callables given here. Small results are DataFrames built on the driver and,
if possible, readable without a Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from hiveacid.core.model import TableName
from hiveacid.errors import TransactionStateError
from hiveacid.spark.session.classic_session import frame_of_text
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.sql.binding.source_positions import errors_at
from hiveacid.sql.binding.table_binder import Binder, binder
from hiveacid.sql.statements import TableRef
from hiveacid.table.context import Context
from hiveacid.table.write.publish import WriteReport
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class ExecutionContext:
    """The connection, the transaction and the snapshot of one statement, and functions that change the session.

    ``joined``: the transaction that the statement belongs to, None if it has its own. ``reader``: inside
    ``with acid.snapshot()``, the transaction that holds the snapshot (then ``joined`` is the same). ``read_only``: the
    transaction was begun READ ONLY. ``begin``: make the session's next statements join a transaction (read only or
    not). ``end``: remove that transaction from the session and return it; the argument is the SQL verb. ``set``: change
    a setting. ``use``: change the current database.
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


Cell = str | int | bool | None
Row = Sequence[Cell]

# Rows as parameters of an inline table are read without a job; each parameter costs about a millisecond.
_MAX_PARAMETERS = 500

WRITTEN = (
    ("num_affected_rows", "bigint"),
    ("num_inserted_rows", "bigint"),
    ("num_updated_rows", "bigint"),
    ("num_deleted_rows", "bigint"),
    ("write_id", "bigint"),
    ("num_retries", "bigint"),
)


def small_frame(env: SparkEnvironment, columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> DataFrame:
    """Return rows as a DataFrame; ``columns`` are names with Spark's type texts."""
    if len(columns) * len(rows) > _MAX_PARAMETERS:
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
        return env.spark.createDataFrame([tuple(row) for row in rows], schema)
    values = ", ".join(
        f"({', '.join(_typed(cell, kind) for cell, (_, kind) in zip(row, columns, strict=True))})"
        for row in rows or [[None] * len(columns)]
    )
    names = ", ".join(f"`{name}`" for name, _ in columns)
    text = f"SELECT * FROM VALUES {values} AS t({names}){'' if rows else ' WHERE false'}"
    texts = [cell for row in rows for cell in row if isinstance(cell, str)]
    if texts:
        return env.spark.sql(text, args=texts)
    return frame_of_text(env, text)


def _typed(cell: Cell, kind: str) -> str:
    """Return a cell for a text: a string is a parameter, which takes three round trips; others have plain literals."""
    literal = "?" if isinstance(cell, str) else "NULL" if cell is None else str(cell)
    return f"CAST({literal} AS {kind})"


def string_rows(env: SparkEnvironment, columns: Sequence[str], rows: Sequence[Row]) -> DataFrame:
    """Return rows whose columns are all strings."""
    return small_frame(env, [(name, "string") for name in columns], rows)


def empty_result(env: SparkEnvironment) -> DataFrame:
    """Return a DataFrame without columns and rows, for statements without a result."""
    return env.spark.sql("SELECT 1 WHERE false").select()


def write_result(env: SparkEnvironment, *reports: WriteReport) -> DataFrame:
    """Return the counts of a statement's changes as one row; ``write_id`` is NULL if nothing was written."""
    ids = [int(report.write_id) for report in reports if report.write_id is not None]
    row = (
        sum(report.affected for report in reports),
        sum(report.inserted for report in reports),
        sum(report.updated for report in reports),
        sum(report.deleted for report in reports),
        max(ids, default=None),
        sum(report.retries for report in reports),
    )
    return small_frame(env, WRITTEN, [row])
