"""Surrogate keys: the default SURROGATE_KEY(), whose numbers are unique in a table without coordination.

A key is write id, task and number of the row in its task, side by side in 64 bits (Hive's ``GenericUDFSurrogateKey``,
HIVE-20536). Hive gives the same keys to two statements of one transaction. Here a statement that is not alone in its
transaction has a part of the task's bits for its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from hiveacid.core.model import WriteId
from hiveacid.errors import UnsupportedFeatureError

_CALL = re.compile(r"[\s(]*`?surrogate_key`?\s*\(\s*(?:(\d+)\s*,\s*(\d+)\s*)?\)[\s)]*", re.IGNORECASE)
_CALL_INSIDE = re.compile(r"\bsurrogate_key`?\s*\(", re.IGNORECASE)
_KEY_BITS, _MAX_BITS = 64, 62


@dataclass(frozen=True)
class KeySequence:
    """Keys of one statement: ``first``, with the task and the row number shifted to their places."""

    first: int
    task_shift: int
    max_task: int
    row_shift: int
    max_row: int

    def key(self, task: int, row: int) -> int:
        """Return a key as a signed number of 64 bits."""
        bits = self.first | task << self.task_shift | row << self.row_shift
        return bits - (1 << _KEY_BITS if bits >= 1 << _KEY_BITS - 1 else 0)


@dataclass(frozen=True)
class SurrogateKey:
    """SURROGATE_KEY(write id bits, task bits); the other bits count rows."""

    write_id_bits: int = 24
    task_bits: int = 16

    @classmethod
    def parse(cls, expression: str) -> Self | None:
        """Return the key that a default value makes; None for another value.

        Raises UnsupportedFeatureError for a call inside another expression, and for numbers that Hive refuses.
        """
        call = _CALL.fullmatch(expression)
        if call is None:
            if _CALL_INSIDE.search(expression):
                raise UnsupportedFeatureError(
                    f"{expression}: a surrogate key is DEFAULT SURROGATE_KEY(), or with the bits of write id and task "
                    "DEFAULT SURROGATE_KEY(24, 16)"
                )
            return None
        key = cls() if call[1] is None else cls(int(call[1]), int(call[2]))
        if not (1 <= key.write_id_bits <= _MAX_BITS and 1 <= key.task_bits <= _MAX_BITS and key.row_bits > 0):
            raise UnsupportedFeatureError(
                f"{expression}: write id and task have 1 to {_MAX_BITS} bits each, and {_KEY_BITS - 1} at most together"
            )
        return key

    def __str__(self) -> str:
        """Return the call that makes the key."""
        return f"SURROGATE_KEY({self.write_id_bits}, {self.task_bits})"

    @property
    def row_bits(self) -> int:
        """Return the bits of the row number."""
        return _KEY_BITS - self.write_id_bits - self.task_bits

    def sequence(
        self, write_id: WriteId, statement: int | None = None, clause: int = 0, clauses: int = 1
    ) -> KeySequence | None:
        """Return the keys of a statement; None if write id or statement have too few bits.

        ``statement``: its number among those of the transaction, None if it is alone. ``clause``: its number among the
        ``clauses`` of a MERGE that make keys, each of which counts its own rows.
        """
        statement_bits = 0 if statement is None else self.task_bits * 3 // 8
        clause_bits = (clauses - 1).bit_length()
        if (
            write_id >> self.write_id_bits
            or (statement or 0) >> statement_bits
            or self.row_bits <= clause_bits
        ):
            return None
        first = write_id << self.task_bits + self.row_bits | (statement or 0) << self.row_bits | clause
        return KeySequence(
            first,
            self.row_bits + statement_bits,
            (1 << self.task_bits - statement_bits) - 1,
            clause_bits,
            (1 << self.row_bits - clause_bits) - 1,
        )
