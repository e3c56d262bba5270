"""Fixes taken out, to show that the simulation finds what they prevent. For tests only.

Each function is what stood in the place of the product's own one before the fix, or the present one without its check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.ports.transactions import Remains, Start, TxnKind
from hiveacid.transactions.transaction import Transaction

Patch = tuple[str, object]


def _nothing(*_: object, **__: object) -> None:
    """Check nothing."""


def _no_check(_: Transaction) -> Callable[[], None]:
    return _nothing


def _claims_by_path(outputs: Any, _: str) -> Callable[[], None]:
    check: Callable[[], None] = outputs.txn.open_check()
    return check


def _delete_by_path(context: Any, _: object, directories: Iterable[str]) -> None:
    for directory in directories:
        context.fs.delete_tree(directory)


def _delete_locked_by_path(context: Any, directory: str, held: Transaction | None) -> None:
    if held is not None:
        held.require_open_in_store()
    context.fs.delete_tree(directory)


def _same_name_and_directory(table: Any, other: Any) -> bool:
    return other is not None and (table.name, table.location) == (other.name, other.location)


def _lock_by_settings(settings: Settings, _: object, *, overwrite: bool) -> LockType:
    exclusive = settings.get(setting_definitions.XLOCK_WRITE)
    if overwrite:
        both = exclusive and settings.get(setting_definitions.XLOCK_OVERWRITE)
        return LockType.EXCLUSIVE if both else LockType.EXCL_WRITE
    return LockType.SHARED_READ if exclusive else LockType.SHARED_WRITE


def _delete_unlocked(
    context: Any, _table: object, root: str, _partition: object, plan: Any, _held: object
) -> list[str]:
    for deletion in plan.deletions:
        context.fs.delete_tree(f"{root}/{deletion.path}")
    return []


def _no_mark_of_drops(table: Any, now: Any, txn: Any) -> None:
    from hiveacid.errors import WriteConflictError  # noqa: PLC0415 - as the product's

    if (
        not table.is_same_table(now)
        or txn.reads.incarnations.setdefault(table.name, table.incarnation) != table.incarnation
    ):
        txn.reads.outdated = True
        raise WriteConflictError("dropped")


def _partition_from_one(catalog: Any, name: Any, partition: Any) -> None:
    catalog._state.partitions[name].setdefault(partition.key, partition)


def _put_in_flight(files: Any, source: str, target: str, start: int, tail: bytes) -> int:
    data = files.read_bytes(source)[:start] + tail
    files.write_bytes(target, data)
    return len(data)


def _begin_without_lease(leases: Any, settings: Settings, kind: TxnKind = TxnKind.DEFAULT) -> Transaction:
    txn: Transaction = leases._transactions.begin(settings, kind, explicit=True, start=Start())
    return txn


def _free(*_: object, **__: object) -> None:
    """Take every location for free."""


_STORE_REFUSES_NO_OVERTAKEN: Patch = ("support.memory_store.store.MemoryStore._overtaken", _nothing)
_STORE_COMPARES_NOT: Patch = ("support.memory_store.catalog.MemoryCatalog._require_free", _free)
PUT_IN_FLIGHT: Patch = ("support.simulation.watch.WatchedFiles.finish_file", _put_in_flight)

FIXES: Mapping[str, tuple[str, Sequence[Patch]]] = MappingProxyType(
    {
        # kind 1: files are touched by path, whoever owns the directory by now
        "writers do not ask before they publish": (
            "late writers",
            [("hiveacid.transactions.transaction.Transaction.open_check", _no_check)],
        ),
        "directories are not moved from staging": (
            "late writers",
            [("hiveacid.table.write.output_directories.OutputDirectories.begin_publishing", _claims_by_path)],
        ),
        "nobody asks whether his transaction is open": (
            "made again",
            [("hiveacid.transactions.transaction.Transaction.require_open_in_store", _nothing)],
        ),
        "an abort deletes by path": (
            "late writers",
            [("hiveacid.table.write.output_directories.remove_aborted", _delete_by_path)],
        ),
        "an abort deletes by path, under its lock": (
            "late writers",
            [("hiveacid.table.cleaning.remove_files.delete_directory", _delete_locked_by_path)],
        ),
        "streams claim without asking": (
            "late streams",
            [
                ("hiveacid.transactions.transaction.Transaction.open_check", _no_check),
                (
                    "hiveacid.table.write.output_directories.OutputDirectories.begin_publishing",
                    _claims_by_path,
                ),
            ],
        ),
        "a table is its name and directory": (
            "late writers",
            [("hiveacid.core.model.TableDefinition.is_same_table", _same_name_and_directory)],
        ),
        "a DROP goes on without its lock": (
            "late drops",
            [("hiveacid.table.cleaning.remove_files._may_delete", lambda *_: True)],
        ),
        "what was listed is deleted by its name": (
            "late cleaners",
            [("support.simulation.files.is_as_listed", lambda *_: True)],
        ),
        "a cleaner goes on without its lock": (
            "late cleaners",
            [
                ("hiveacid.table.cleaning.remove_files.delete_planned", _delete_unlocked),
                ("hiveacid.table.cleaning.clean_after_overwrite.delete_planned", _delete_unlocked),
            ],
        ),
        # kind 2: two lock tables at once; the store's refusal is the second line
        "locks by one session's settings": (
            "overwrites",
            [("hiveacid.table.write.insert.insert_lock_type", _lock_by_settings)],
        ),
        "and the store takes rows below a base": (
            "overwrites",
            [
                ("hiveacid.table.write.insert.insert_lock_type", _lock_by_settings),
                _STORE_REFUSES_NO_OVERTAKEN,
            ],
        ),
        # kind 3: directories with two owners
        "locations are compared once": ("places", [_STORE_COMPARES_NOT]),
        "locations are not compared": (
            "places",
            [
                _STORE_COMPARES_NOT,
                ("hiveacid.catalog.validate_definition._require_free", _free),
            ],
        ),
        # kind 5: a snapshot that is not one
        "DROP PARTITION leaves no mark": (
            "partitions",
            [("hiveacid.table.read.visible_locations.require_unchanged", _no_mark_of_drops)],
        ),
        "a partition without its lowest write id": (
            "late partitions",
            [
                ("support.memory_store.catalog.MemoryCatalog._put_partition", _partition_from_one),
                PUT_IN_FLIGHT,
            ],
        ),
        "a lease begins with its frame": (
            "frames",
            [("hiveacid.transactions.read_leases.ReadLeases.begin_explicit", _begin_without_lease)],
        ),
        # kind 13: orphans
        "what leaves nothing is remembered": (
            "made again",
            [
                (
                    "hiveacid.transactions.transaction.Remains",
                    type("Remains", (), dict.fromkeys(("NOTHING", "FILES"), Remains.UNKNOWN)),
                )
            ],
        ),
    }
)
