"""A store in use: tables with commits, deletes and partitions, compactions of all kinds, waits, services. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from hiveacid.core.compaction.advice import FigureRecord
from hiveacid.core.compaction.queue_records import CompactionRequest, Service
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
from hiveacid.core.transactions.commit_records import OperationSummary, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import WriteConflictError
from hiveacid.ports.transactions import Client, Operation, TxnKind, Written
from support.samples import ORC

DATABASE = "shop"
ORDERS, EVENTS, CUSTOMERS = (TableName(DATABASE, name) for name in ("orders", "events", "customers"))
HOSTILE = "<img src=x onerror=alert(1)>"
"""Name of a table, value of a partition and text of an error that a page must not take for HTML."""
_HOUR = 3600
_ACID = pa.struct([("id", pa.int64())])


@dataclass
class BusyStore:
    """Fills a store. ``advance``: lets seconds pass on its clock. ``odd``: a name in several places."""

    store: Any
    root: Path
    advance: Callable[[float], None] = lambda _: None
    odd: str = HOSTILE

    def table(self, name: TableName, partitions: tuple[str, ...] = (), **properties: str) -> None:
        """Create a table and its directory."""
        location = self.root / name.database / name.name.replace("/", "_")
        columns = (Column("id", "bigint", "number of the row"), Column("note", "string"))
        self.store.create_table(
            TableDefinition(
                name, columns, ORC, str(location), (Column("day", "string"),) if partitions else (),
                properties=tuple({"transactional": "true", **properties}.items()),
            )
        )  # fmt: skip
        places = [
            Partition((value,), str(location / f"day={index}")) for index, value in enumerate(partitions)
        ]
        self.store.add_partitions(name, places)
        location.mkdir(parents=True, exist_ok=True)  # a metastore has made it
        for place in places:
            Path(place.location).mkdir(exist_ok=True)

    def commit(
        self, name: TableName, rows: int, deleted: int = 0, user: str = "etl", where: Path | None = None,
        statement: str | None = None,
    ) -> None:  # fmt: skip
        """Commit a delta, and a delete delta."""
        (txn_id,) = self.store.open_txns(Client(user, "host-7", "spark"))
        self.store.take_snapshot(txn_id)
        (write_id,) = self.store.allocate_write_ids([txn_id], name)
        place = where or self.root / name.database / name.name.replace("/", "_")
        size = self._put(place / DeltaName(False, write_id, write_id, 0).format(), rows) if rows else 0
        if deleted:
            size += self._put(place / DeltaName(True, write_id, write_id, 0).format(), deleted)
        verb = "MERGE" if rows and deleted else "DELETE" if deleted else "INSERT"
        text = statement or f"{verb} INTO {name} ... -- of the hourly load" if rows else statement
        summary = OperationSummary(verb, text, rows, 0, deleted, 2 if rows and deleted else 1, size)
        operation = Operation.DELETE if deleted else Operation.INSERT
        self.store.commit_txn(
            txn_id, written=[Written(name, None, operation)], operations=[TableOperation(name, summary)]
        )

    def _put(self, directory: Path, rows: int) -> int:
        directory.mkdir(parents=True)
        file = directory / "bucket_00000"
        numbers = pa.array(range(rows), pa.int64())
        columns = dict.fromkeys(("originalTransaction", "rowId", "currentTransaction"), numbers)
        columns |= {name: pa.array([0] * rows, pa.int32()) for name in ("operation", "bucket")}
        columns["row"] = pa.array([{"id": number} for number in range(rows)], _ACID)
        orc.write_table(pa.table(columns), file)
        return file.stat().st_size

    def compact(
        self,
        name: TableName,
        end: str = "commit",
        error: str = "",
        partition: str | None = None,
        seconds: float = 42.0,
    ) -> int:
        """Let a worker take a job, and end it: commit, clean, fail, or leave it at work or waiting."""
        request = CompactionRequest(
            name, partition, "major", reason="14 deltas, more than 10 (hive.compactor.delta.num.threshold)"
        )
        job: int = self.store.enqueue_compaction(request, "host-3-4711-ab12cd34.initiator").id
        if end == "wait":
            return job
        self.advance(8)
        self.store.claim_compaction("host-3-4711-ab12cd34.worker0", job)
        (txn_id,) = self.store.open_txns(Client("hive", "host-3", "compactor"), kind=TxnKind.COMPACTION)
        txns = self.store.take_snapshot(txn_id)
        top = self.store.valid_write_ids(txns, [name])[name].compactor().high_watermark
        self.store.start_compaction(job, txn_id, top, "host-3-4711-ab12cd34.worker0")
        self.advance(seconds)
        if end == "work":
            return job
        if end == "fail":
            self.store.abort_txns([txn_id], "failed")
            self.store.end_compaction(job, "failed", error, "host-3-4711-ab12cd34.worker0")
            return job
        before = sum(file.stat().st_size for file in self._files(name))
        size = self._put(
            self.root / name.database / name.name / BaseName(WriteId(top), txn_id).format(), 2000
        )
        self.store.note_compaction(
            job,
            json.dumps({"phase": "done", "before": {"bytes": before}, "after": {"bytes": size, "files": 1}}),
        )
        self.store.commit_txn(txn_id)
        if end == "clean":
            self.advance(60)
            self.store.end_compaction(job, "succeeded")
        return job

    def _files(self, name: TableName) -> list[Path]:
        return [file for file in (self.root / name.database / name.name).rglob("bucket_*") if file.is_file()]

    def lock(self, user: str, table: str | None, kind: LockType) -> TxnId:
        """Open a transaction and ask for a lock."""
        (txn_id,) = self.store.open_txns(Client(user, f"{user}-laptop", "hiveacid"))
        self.store.take_snapshot(txn_id)
        self.store.lock(txn_id, [LockComponent(kind, DATABASE, table, None)])
        return TxnId(txn_id)

    def conflict(self, name: TableName) -> TxnId:
        """Let two transactions update the same rows; return the refused one."""
        mine, theirs = self.store.open_txns(Client("ann", "host-7", "spark"), 2)
        for txn_id in (mine, theirs):
            self.store.take_snapshot(txn_id)
            self.store.allocate_write_ids([txn_id], name)
        summary = OperationSummary("UPDATE", f"UPDATE {name} SET note = NULL", 0, 3, 0, 2, 600)
        operation = TableOperation(name, summary)
        self.store.commit_txn(theirs, written=[Written(name, None, Operation.UPDATE)], operations=[operation])
        try:
            self.store.commit_txn(mine, written=[Written(name, None, Operation.UPDATE)])
        except WriteConflictError:
            return TxnId(mine)
        raise AssertionError("the second update was not refused")

    def record_figures(self, hour: int) -> None:
        """Be a housekeeper after so many hours."""
        now, made = self.store.now(), self.store.get_table(ORDERS)
        deltas = hour % 24 + 1
        figures = {"bytes": 9000 + 100 * hour, "deltas": deltas, "delete_deltas": deltas // 3, "files": deltas + 1,
                   "small_files": deltas, "rows": 2000 + 120 * hour, "deletes": 25 * deltas}  # fmt: skip
        of_store = {**figures, "tables": 9, "begun": self.store.last_txn_id(), "conflicts": hour // 12}
        self.store.record_figures(
            [FigureRecord(ORDERS, now, figures, made.incarnation), FigureRecord(None, now, of_store)]
        )

    def fill(self) -> None:
        """Make it all."""
        self.store.create_database(DatabaseDefinition(DATABASE, str(self.root / DATABASE)))
        self.table(ORDERS)
        self.table(CUSTOMERS)
        self.table(EVENTS, ("2026-11-27", "2026-11-28", self.odd))
        self.table(TableName(DATABASE, self.odd))
        for name in ("returns", "stock", "prices", "suppliers", "addresses"):
            self.table(TableName(DATABASE, name))
        self.table(TableName(DATABASE, "archive"), no_auto_compaction="true")
        self.table(TableName(DATABASE, "plain_copy"), transactional="false")
        for hour in range(60):
            self.commit(ORDERS, 120 + hour % 24 * 15, 25 if hour % 3 == 0 else 0)
            if hour in (23, 47):
                self.compact(ORDERS, "clean", seconds=31 + hour)
            if hour % 6 == 0:
                self.commit(CUSTOMERS, 400, 130, user="ann")
                self.commit(TableName(DATABASE, "stock"), 60)
            if hour % 12 == 0:
                self.commit(EVENTS, 500, where=self.root / DATABASE / "events" / "day=1")
                self.commit(TableName(DATABASE, "archive"), 50)
                self.commit(TableName(DATABASE, "suppliers"), 90)
            if hour % 6 == 0:
                self.record_figures(hour)
            self.advance(_HOUR)
        for name in ("returns", "prices"):
            for _ in range(3):
                self.commit(TableName(DATABASE, name), 200, 20)
        self.compact(TableName(DATABASE, "stock"), "commit")
        self.compact(
            TableName(DATABASE, "returns"),
            "fail",
            "java.io.IOException: No space left on device\n\tat " + self.odd,
        )
        self.compact(TableName(DATABASE, "suppliers"), "wait")
        self.conflict(ORDERS)
        reader = self.lock("ann", "orders", LockType.SHARED_READ)
        self.advance(700)
        writer = self.lock("ben", "orders", LockType.EXCLUSIVE)
        self.lock("cleo", "orders", LockType.SHARED_WRITE)
        self.lock("dan", "orders", LockType.SHARED_READ)
        self.compact(CUSTOMERS, "commit", seconds=75)
        self.compact(TableName(DATABASE, "prices"), "work", seconds=40)
        self.lock("eve", "customers", LockType.EXCL_WRITE)
        self.lock("finn", "customers", LockType.EXCL_WRITE)
        self.store.heartbeat([reader, writer])
        for kind in ("initiator", "worker0", "cleaner", "housekeeper"):
            name = f"host-3-4711-ab12cd34.{kind}"
            pool = "default" if kind == "worker0" else None
            self.store.announce_service(Service(name, kind.rstrip("0"), pool, "0.1.0"))
        self.advance(12)
