"""What may not happen under snapshot isolation, by the names of Adya and of Elle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from support.history.records import Element


class AnomalyKind(StrEnum):
    """Kinds of anomaly. Write skew is none: snapshot isolation allows it."""

    ID_TWICE = "id given twice"
    OUTCOME = "answer and store disagree"
    UNWRITTEN = "read of what nobody wrote"
    ABORTED_READ = "aborted read (G1a)"
    INTERMEDIATE_READ = "intermediate read (G1b)"
    NON_REPEATABLE = "non-repeatable read"
    OWN_WRITE = "own write not read"
    DOUBLED = "element read twice"
    INCOMPATIBLE = "incompatible orders"
    LOST_UPDATE = "lost update"
    LOST_APPEND = "committed append vanished"
    NEEDLESS_CONFLICT = "conflict without a cause"
    G0 = "write cycle (G0)"
    G1C = "circular information flow (G1c)"
    G_SINGLE = "read skew (G-single)"
    G_SI = "cycle that snapshot isolation excludes (G-SI)"
    REAL_TIME = "snapshot not as of its time"


@dataclass(frozen=True)
class Anomaly:
    """One anomaly, in words, and the transactions that had part in it."""

    kind: AnomalyKind
    text: str
    txns: tuple[int, ...]

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.kind}: {self.text}"


def names(elements: Iterable[Element]) -> str:
    """Return elements as messages show them, ``writer.number``; of many only the first and the last."""
    texts = [f"{txn_id}.{number}" for txn_id, number in elements]
    if len(texts) > _MOST:
        texts = [*texts[: _MOST // 2], "...", *texts[-_MOST // 2 :]]
    return "[" + " ".join(texts) + "]"


_MOST = 12
