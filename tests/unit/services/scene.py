"""A warehouse without Spark: the reference store, a turned clock, and directories that only have sizes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.model import (
    Column,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.ports.transactions import Operation, Remains, TxnKind, Written
from hiveacid.services.runner import Services
from hiveacid.transactions.transaction import Heartbeats
from support.clock import ManualClock
from support.contexts import context_of
from support.memory_store.store import MemoryStore
from support.samples import CLIENT, ORC

if TYPE_CHECKING:
    from hiveacid.catalog.connection import WarehouseConnection

T = TableName("default", "t")


@dataclass
class Scene:
    """A connection's context on ``root``, and what writers and compactions do there."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        """Open the store."""
        self.store = MemoryStore(clock=self.clock)
        self.context = context_of(self.store, str(self.root), self.clock, Heartbeats(self.store, 150.0))
        self.store.create_database(DatabaseDefinition("default", str(self.root)))

    def set(self, name: str, value: str) -> None:
        self.context.session.settings = self.context.settings.with_value(name, value)

    def services(self, **roles: Any) -> Services:
        return Services(cast("WarehouseConnection", self), workers=0, **roles)

    def table(
        self, name: TableName = T, *, partitions: tuple[str, ...] = (), **properties: str
    ) -> TableDefinition:
        location = self.root / name.name
        made = TableDefinition(
            name,
            (Column("id", "int"),),
            ORC,
            str(location),
            partition_columns=(Column("p", "int"),) if partitions else (),
            properties=tuple({"transactional": "true", **properties}.items()),
        )
        self.store.create_table(made)
        self.store.add_partitions(name, [Partition((p,), str(location / f"p={p}")) for p in partitions])
        location.mkdir(parents=True)
        return made

    def place(self, name: TableName, partition: str | None) -> Path:
        return self.root / name.name / (partition or "")

    def write(
        self,
        name: TableName = T,
        partition: str | None = None,
        size: int = 10,
        *,
        end: str = "commit",
        is_delete: bool = False,
    ) -> TxnId:
        """Write one delta in a transaction of its own."""
        (txn_id,) = self.store.open_txns(CLIENT)
        (write_id,) = self.store.allocate_write_ids([txn_id], name)
        delta = DeltaName(is_delete, write_id, write_id, 0)
        self.put(self.place(name, partition) / delta.format(), size)
        operation = Operation.DELETE if is_delete else Operation.INSERT
        self.store.add_written(txn_id, [Written(name, partition, operation)])
        if end == "commit":
            self.store.commit_txn(txn_id)
        elif end == "abort":
            self.store.abort_txns([txn_id], "no")
        elif end == "stop":
            self.store.abort_txns([txn_id], "no", Remains.FILES)
        return txn_id

    def put(self, directory: Path, size: int) -> None:
        directory.mkdir(parents=True)
        file = directory / "bucket_00000"
        file.write_bytes(b"x" * size)
        seconds = self.clock.now() / 1000
        os.utime(file, (seconds, seconds))

    def compact(self, name: TableName = T, partition: str | None = None, size: int = 100) -> int:
        """Be a worker: take the job that waits (or a new one), leave a base, commit."""
        waiting = [job for job in self.store.show_compactions() if job.state == "initiated"]
        request = CompactionRequest(name, partition, "major")
        job = waiting[0] if waiting else self.store.enqueue_compaction(request, "test-manual")
        self.store.claim_compaction("test-w", job.id)
        (txn_id,) = self.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
        txns = self.store.take_snapshot(txn_id)
        top = self.store.valid_write_ids(txns, [name])[name].compactor().high_watermark
        self.store.start_compaction(job.id, txn_id, top, "test-w")
        self.put(self.place(name, partition) / BaseName(WriteId(top), txn_id).format(), size)
        self.store.commit_txn(txn_id)
        return job.id

    def listing(self, name: TableName = T, partition: str | None = None) -> list[str]:
        return sorted(path.name for path in self.place(name, partition).iterdir())

    def states(self) -> list[tuple[int, str]]:
        return [(job.id, job.state) for job in self.store.show_compactions()]
