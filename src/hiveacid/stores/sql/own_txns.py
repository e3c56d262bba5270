"""Marks of the transactions that this client opened, by which it tells them from later ones with the same ids.

A database that was restored, or failed over to a replica that lagged behind, gives ids out again. A client that goes on
would otherwise commit or abort the transaction of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import BigInteger, String, and_, bindparam, func, or_
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TxnId
from hiveacid.stores.sql.schema import txns

MARK_LENGTH = 32


class OwnTxns:
    """Marks by transaction. A transaction opened by another client object has none here, and is taken by its id alone."""

    def __init__(self) -> None:
        self._marks: dict[TxnId, str] = {}

    def opened(self, txn_ids: Iterable[TxnId], mark: str) -> None:
        """Remember the mark of the call that opened transactions."""
        self._marks.update(dict.fromkeys(txn_ids, mark))

    def ended(self, txn_ids: Iterable[TxnId]) -> None:
        """Forget transactions."""
        for txn_id in txn_ids:
            self._marks.pop(txn_id, None)

    def mark(self, txn_id: TxnId) -> str | None:
        """Return the mark, None if it is not known."""
        return self._marks.get(txn_id)

    def is_foreign(self, txn_id: TxnId, stored: str | None) -> bool:
        """Tell whether the row with this id, whose mark is ``stored``, is another transaction than the one opened here."""
        own = self._marks.get(txn_id)
        return own is not None and not (stored or "").startswith(own)

    def parameters(self, txn_ids: Sequence[TxnId]) -> dict[str, object]:
        """Return the parameters of `ARE_OWN` for transactions."""
        marks = [self._marks.get(txn_id) for txn_id in txn_ids]
        return {
            "ids": txn_ids,
            "unmarked": [txn_id for txn_id, mark in zip(txn_ids, marks, strict=True) if mark is None],
            "marks": [mark for mark in marks if mark is not None],
        }


_MARK = func.substr(txns.c.mark, 1, MARK_LENGTH)
IS_OWN: ColumnElement[bool] = or_(
    bindparam("own", type_=String).is_(None), bindparam("own", type_=String) == _MARK
)
"""The SQL condition that a row has the mark of the parameter ``own``, if that is known."""
ARE_OWN: ColumnElement[bool] = and_(
    txns.c.id.in_(bindparam("ids", expanding=True, type_=BigInteger)),
    or_(
        txns.c.id.in_(bindparam("unmarked", expanding=True, type_=BigInteger)),
        _MARK.in_(bindparam("marks", expanding=True, type_=String)),
    ),
)
"""The SQL condition that a row is one of several transactions, and not a later one with its id (`OwnTxns.parameters`)."""
