"""The ports as a simulated process has them: every call is a step, may fail, and is written into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Begun, Client, Start, TxnKind
from support.simulation.scheduler import Process
from support.simulation.world import World, brief
from support.verbs import begin_by_verbs

FAULT = 0.003
"""Probability that a call fails: the store does not answer, the disk is full."""


class InjectedStorageError(StorageError):
    """The disk said no because the simulation wanted it to."""


class _Watched:
    """Passes verbs on; each call is a step of the process."""

    prefix = ""

    def __init__(self, world: World, process: Process, port: object) -> None:
        self._world = world
        self._process = process
        self._port = port

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._port, verb)
        after: Callable[..., None] | None = getattr(type(self), f"after_{verb}", None)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._world.scheduler.step(
                self._process, f"{self.prefix}.{verb}({brief((*args, *kwargs.values()))})"
            )
            self._fail(verb)
            result = self._run(verb, lambda: real(*args, **kwargs), args)
            if after is not None:
                after(self, result, *args)
            return result

        self.__dict__[verb] = call
        return call

    def _fail(self, verb: str) -> None:
        """Fail now and then."""

    def _run(self, _verb: str, run: Callable[[], Any], _args: Sequence[Any]) -> Any:
        return run()

    def _chance(self) -> bool:
        return not self._world.scheduler.quiet and self._world.scheduler.random.random() < FAULT


class WatchedStore(_Watched):
    """A transaction store and catalog."""

    prefix = "store"

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Begin verb by verb: each is a step, and others come in between."""
        return begin_by_verbs(cast("TransactionStore", self), client, start, kind)

    def _fail(self, verb: str) -> None:
        if verb != "commit_txn" and self._chance():
            self._world.scheduler.note("no answer from the store")
            raise StoreUnavailableError("the store does not answer (simulated)")

    def _run(self, verb: str, run: Callable[[], Any], args: Sequence[Any]) -> Any:
        try:
            result = run()
        except TransactionAbortedError:
            self._world.ledger.ended([args[0]] if verb == "commit_txn" else [])
            raise
        except HiveAcidError as error:
            self._world.scheduler.note(f"raised {type(error).__name__}")
            raise
        if verb == "commit_txn" and self._chance():
            self.after_commit_txn(result, *args)
            self._world.scheduler.note("committed, and the answer was lost")
            raise CommitStateUnknownError("the answer to the commit was lost (simulated)")
        return result

    def after_open_txns(self, txn_ids: Sequence[TxnId], *_: object) -> None:
        """Show the id in the trace."""
        self._world.scheduler.note(f"transaction {brief(txn_ids)}")

    def after_take_snapshot(self, snapshot: ValidTxnList, txn_id: TxnId) -> None:
        """Note what this snapshot must show from now on."""
        self._world.scheduler.note(f"snapshot {brief([snapshot])}")
        self._world.ledger.took_snapshot(txn_id, snapshot)

    def after_valid_write_ids(
        self,
        lists: Mapping[TableName, ValidWriteIdList],
        snapshot: ValidTxnList,
        _tables: Sequence[TableName],
    ) -> None:
        """Note what the client goes by."""
        for one in lists.values():
            self._world.scheduler.note(f"valid write ids {one.to_string()}")
        self._world.ledger.got_lists(snapshot, lists.items())

    def after_allocate_write_ids(
        self, write_ids: Sequence[WriteId], txn_ids: Sequence[TxnId], table: TableName
    ) -> None:
        """Check that nobody else has them."""
        for txn_id, write_id in zip(txn_ids, write_ids, strict=True):
            self._world.scheduler.note(f"write id {write_id}")
            other = self._world.ledger.gave_write_id(table, write_id, txn_id)
            if other is not None:
                raise self._world.scheduler.broken(f"write id {write_id} of {table} belongs to {other}, too")

    def after_commit_txn(self, _: None, txn_id: TxnId, *_changes: object) -> None:
        """Write it down and look."""
        self._world.after_commit(txn_id)

    def after_abort_txns(self, txn_ids: Sequence[TxnId], *_: object) -> None:
        """Look whether anything of them shows."""
        self._aborted(txn_ids)

    def after_abort_timed_out(self, txn_ids: Sequence[TxnId]) -> None:
        """Look whether anything of them shows."""
        self._aborted(txn_ids)

    def _aborted(self, txn_ids: Sequence[TxnId]) -> None:
        world = self._world
        if txn_ids:
            world.scheduler.note(f"aborted {brief(txn_ids)}")
        for txn_id in txn_ids:
            if txn_id in world.ledger.committed:
                raise world.scheduler.broken(f"transaction {txn_id} was committed and is aborted")
        world.ledger.ended(txn_ids)
        world.check_now({where for one in txn_ids for where in world.ledger.work[one].locations()})

    def after_forget_aborted(self, _: None, table: TableName, *_rest: object) -> None:
        """Look whether their rows came back."""
        self._world.check_now(self._world.ledger.locations_of(table))
        self._world.check_held(self._world.ledger.locations_of(table))

    def after_housekeep(self, _: None) -> None:
        """Look whether anything changed."""
        self._world.ledger.forget_the_past()
        self._world.check_now(self._world.all_locations())
        self._world.check_held(self._world.all_locations())


class WatchedFiles(_Watched):
    """A file system."""

    prefix = "fs"

    def _fail(self, verb: str) -> None:
        if verb in ("write_bytes", "move_file", "delete_tree", "delete_listed") and self._chance():
            self._world.scheduler.note("the disk says no")
            raise InjectedStorageError("no space left on device (simulated)")

    def _run(self, verb: str, run: Callable[[], Any], args: Sequence[Any]) -> Any:
        if verb == "delete_tree":
            self._world.check_needs(args[0])
        if verb == "delete_listed":
            root, entries = args
            for top in dict.fromkeys(entry.path.partition("/")[0] for entry in entries):
                self._world.check_needs(f"{root}/{top}".rstrip("/"))
        return run()

    def after_write_bytes(self, _: None, path: str, _data: bytes) -> None:
        """Look what the new file changed."""
        self._changed(path)

    def after_move_file(self, _: None, _source: str, target: str) -> None:
        """Look what the new file changed."""
        self._changed(target)

    def after_delete_tree(self, _: None, path: str) -> None:
        """Look what its absence changed."""
        self._changed(path)

    def after_delete_listed(self, _: object, root: str, entries: Sequence[FileEntry]) -> None:
        """Look what their absence changed."""
        for entry in entries:
            self._changed(f"{root}/{entry.path}")

    def _changed(self, path: str) -> None:
        location = self._world.location_of(path)
        if location is not None:
            self._world.check_now([location])
            self._world.check_held([location])
