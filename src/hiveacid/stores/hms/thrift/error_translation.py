"""Translation of the metastore's exceptions into hiveacid's error tree."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    HiveAcidError,
    NoSuchDatabaseError,
    NoSuchTransactionError,
    StoreError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)

if TYPE_CHECKING:
    from hiveacid.stores.hms.thrift.connection import Refusal

_KINDS: Mapping[str, type[HiveAcidError]] = MappingProxyType(
    {
        "NoSuchTxnException": NoSuchTransactionError,
        "TxnAbortedException": TransactionAbortedError,
        "TxnOpenException": TransactionStateError,
        "NoSuchLockException": TransactionStateError,
        "NoSuchObjectException": CatalogError,
        "AlreadyExistsException": AlreadyExistsError,
        "InvalidObjectException": CatalogError,
        "InvalidOperationException": CatalogError,
    }
)
_CONFLICT = "due to a write conflict"  # the words of both versions


def as_error(refusal: Refusal) -> HiveAcidError:
    """Return the error for a refusal; an unexpected one becomes a StoreError with the server's message."""
    words = " ".join(refusal.message.split())
    kind = _KINDS.get(refusal.kind, StoreError)
    if kind is TransactionAbortedError and _CONFLICT in words:
        return WriteConflictError(words)
    if kind is AlreadyExistsError:
        return AlreadyExistsError(words or "it exists already")
    if refusal.kind == "NoSuchObjectException" and "database" in words.lower():
        return NoSuchDatabaseError(words)
    return kind(f"the metastore refused {refusal.method}: {words or refusal.kind}")
