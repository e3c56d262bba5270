"""The ports as a simulated process has them: every call is a step, may fail, and is written into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
)
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Begun, Client, Remains, Start, TxnKind
from support.simulation.ledger import Place
from support.simulation.scheduler import Process
from support.simulation.world import World, brief
from support.verbs import begin_by_verbs

FAULT = 0.003
"""Probability that a call fails: the store does not answer, the disk is full."""
_FAILING = (
    "write_bytes",
    "move_file",
    "link_file",
    "delete_tree",
    "replace_tail",
    "claim_directory",
    "move_directory",
    "finish_file",
    "delete_listed",
)


class InjectedStorageError(StorageError):
    """The disk said no because the simulation wanted it to."""


class _Watched:
    """Passes verbs on; each call is a step of the process."""

    prefix = ""
    at_once: tuple[str, ...] = ()  # verbs that follow the step before them without a gap

    def __init__(self, world: World, process: Process, port: object) -> None:
        self._world = world
        self._process = process
        self._port = port

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._port, verb)
        after: Callable[..., None] | None = getattr(type(self), f"after_{verb}", None)

        def call(*args: Any, **kwargs: Any) -> Any:
            what = f"{self.prefix}.{verb}({brief((*args, *kwargs.values()))})"
            self._world.scheduler.step(self._process, what, at_once=verb in self.at_once)
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
    state_unknown = False
    """Whether a question for a transaction's state went without an answer since the statement began."""

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Begin verb by verb: each is a step, and others come in between."""
        return begin_by_verbs(cast("TransactionStore", self), client, start, kind)

    def _fail(self, verb: str) -> None:
        if verb != "commit_txn" and self._chance():
            self._world.scheduler.note("no answer from the store")
            self.state_unknown = self.state_unknown or verb == "txn_state"
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
            of = self._world.store.get_table(table)
            other = of and self._world.ledger.gave_write_id(of.incarnation, write_id, txn_id)
            if other is not None:
                raise self._world.scheduler.broken(f"write id {write_id} of {table} belongs to {other}, too")

    def after_commit_txn(
        self, _: None, txn_id: TxnId, changes: CatalogChanges = NO_CHANGES, *_rest: object
    ) -> None:
        """Write it down and look."""
        self._world.after_commit(txn_id, changes)

    def after_abort_txns(
        self,
        txn_ids: Sequence[TxnId],
        wanted: Sequence[TxnId],
        _reason: str,
        remains: Remains = Remains.UNKNOWN,
    ) -> None:
        """Look whether anything of them shows, and whether those that leave nothing are forgotten."""
        work = self._world.ledger.work
        idle = self._process.name.startswith("writer") and not any(work[one].places() for one in wanted)
        self._aborted(txn_ids)
        if remains is Remains.NOTHING or idle:
            self._world.check_forgotten(wanted)

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
        world.check_now({where for one in txn_ids for where in world.ledger.work[one].places()})

    def after_create_table(self, _: None, table: TableDefinition) -> None:
        """Note a new incarnation."""
        self._world.after_create(table.name)
        self._world.check_now()

    def after_drop_table(self, _: None, name: TableName, *_rest: object) -> None:
        """Note that it is gone."""
        self._world.ledger.dropped(name)

    def after_alter_table(self, _: None, name: TableName, table: TableDefinition, *_rest: object) -> None:
        """Note a new name."""
        if table.name != name:
            self._world.ledger.renamed(name, table.name)
        self._world.check_now()

    def after_add_partitions(
        self, _: None, name: TableName, partitions: Sequence[Partition], *_rest: object
    ) -> None:
        """Look whether they are empty, and nobody else's."""
        table = self._world.store.get_table(name)
        if table is not None:
            self._world.check_owners()
            self._world.check_now(Place(table.incarnation, one.location) for one in partitions)

    def after_forget_aborted(self, *_: object) -> None:
        """Look whether their rows came back."""
        self._world.check_now()
        self._world.check_held()

    def after_housekeep(self, _: None) -> None:
        """Look whether anything changed."""
        self._world.ledger.forget_the_past()
        self._world.check_now()
        self._world.check_held()


class WatchedFiles(_Watched):
    """A file system."""

    prefix = "fs"

    def _fail(self, verb: str) -> None:
        if verb in _FAILING and self._chance():
            self._world.scheduler.note("the disk says no")
            raise InjectedStorageError("no space left on device (simulated)")

    def _run(self, verb: str, run: Callable[[], Any], _args: Sequence[Any]) -> Any:
        before = self._world.files.files.copy() if verb in ("delete_tree", "delete_listed") else {}
        result = run()
        self._world.check_needs(before.keys() - self._world.files.files.keys())
        return result

    def finish_file(self, source: str, target: str, start: int, tail: bytes) -> int:
        """Finish a file inside the store: nobody is paused for long between the reading and the writing of a copy."""
        size: int = self.__getattr__("finish_file")(source, target, start, tail)
        return size

    def after_finish_file(self, _: int, _source: str, target: str, *_rest: object) -> None:
        """Look what the new file changed."""
        self._changed(target)

    def after_write_bytes(self, _: None, path: str, _data: bytes) -> None:
        """Look what the new file changed."""
        self._changed(path)

    def after_replace_tail(self, _: object, path: str, *_rest: object) -> None:
        """Look what the new end of the file changed."""
        self._changed(path)

    def after_claim_directory(self, _: bool, path: str, *_rest: object) -> None:  # noqa: FBT001 - a hook
        """Look what the new directory changed."""
        self._changed(path)

    def after_make_directory(self, _: None, path: str) -> None:
        """Look what the new directory changed."""
        self._changed(path)

    def after_move_file(self, _: None, _source: str, target: str) -> None:
        """Look what the new file changed."""
        self._changed(target)

    def after_link_file(self, _: None, _source: str, target: str) -> None:
        """Look what the new file changed."""
        self._changed(target)

    def after_move_directory(self, _: None, _source: str, target: str) -> None:
        """Look what the new directory changed."""
        self._changed(target)

    def after_delete_tree(self, _: None, path: str) -> None:
        """Look what its absence changed."""
        self._changed(path)

    def after_delete_listed(self, _: object, root: str, entries: Sequence[FileEntry]) -> None:
        """Look what their absence changed."""
        for entry in entries:
            self._changed(f"{root}/{entry.path}".rstrip("/"))

    def _changed(self, path: str) -> None:
        for place in self._world.places_at(path):
            self._world.check_now([place])
            self._world.check_held([place])
