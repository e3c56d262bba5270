"""Values of SURROGATE_KEY(): expressions that number the rows of Spark's tasks, and numbers for listed rows.

The write id is part of each key, so that a statement makes its keys in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from hiveacid.core.model import TableName
from hiveacid.core.schema.surrogate_keys import KeySequence, SurrogateKey
from hiveacid.errors import DataError
from hiveacid.spark.formats.types import DATA_ERROR
from hiveacid.transactions.transaction import Transaction

NO_KEY = "CAST(NULL AS BIGINT) /* SURROGATE_KEY */"
"""Value in place of a key as long as there is no transaction."""
KeyMaker = Callable[[str, SurrogateKey], str]
"""Function that returns the value of a column's key in SQL."""
_FEWER = "write with fewer ones, as by SELECT /*+ COALESCE(100) */, in a transaction of its own, or into a table whose key has more"
_MORE = "write several lists, or with more tasks, as by SELECT /*+ REPARTITION(100) */"
_ROW = "monotonically_increasing_id() & 8589934591L"  # it keeps the task in the bits above


def no_key(_: str, __: SurrogateKey) -> str:
    """Return a value of the key's type, to analyse a statement that has no transaction yet."""
    return NO_KEY


@dataclass(frozen=True)
class KeysOfStatement:
    """Keys of one statement. ``alone``: its transaction has no other. ``clause``: as in `SurrogateKey.sequence`, with their number."""

    txn: Transaction
    table: TableName
    alone: bool
    clause: tuple[int, int] = (0, 1)

    def computed(self, column: str, key: SurrogateKey) -> str:
        """Return an expression that has another value in each row."""
        sequence, error = self._sequence(column, key), f"raise_error('{DATA_ERROR}{key} has here bits for"
        no_task = f"{error} {sequence.max_task + 1} tasks: {_FEWER}')"
        no_row = f"{error} {sequence.max_row + 1} rows of a task: {_MORE}')"
        value = (
            f"CAST('{sequence.key(0, 0)}' AS BIGINT) | shiftleft(CAST(spark_partition_id() AS BIGINT), {sequence.task_shift}) | "
            f"shiftleft(__hiveacid_row, {sequence.row_shift})"
        )
        return (
            f"transform(array({_ROW}), __hiveacid_row -> CASE WHEN spark_partition_id() > {sequence.max_task} THEN {no_task} "
            f"WHEN __hiveacid_row > {sequence.max_row} THEN {no_row} ELSE {value} END)[0]"
        )

    def listed(self) -> KeyMaker:
        """Return a function that gives the next key at each call, for rows of VALUES."""
        sequences: dict[str, KeySequence] = {}
        numbers = count()

        def next_key(column: str, key: SurrogateKey) -> str:
            if column not in sequences:
                sequences[column] = self._sequence(column, key)
            row = next(numbers)
            if row > sequences[column].max_row:
                raise DataError(f"{key} has here bits for {row} rows of a list: {_MORE}")
            return f"CAST('{sequences[column].key(0, row)}' AS BIGINT)"

        return next_key

    def _sequence(self, column: str, key: SurrogateKey) -> KeySequence:
        statement = None if self.alone else self.txn.next_with_keys(self.table)
        write_id = self.txn.write_id(self.table, publishing=False)
        sequence = key.sequence(write_id, statement, *self.clause)
        if sequence is None:
            several = "" if statement is None else f" and {statement + 1} statements of a transaction"
            raise DataError(
                f"{key} of {self.table}.{column} has no bits for write id {write_id}{several}: "
                f"{'commit and begin another, or ' * bool(statement)}write into a new table whose key has more bits"
            )
        return sequence
