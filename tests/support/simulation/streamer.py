"""A simulated stream: batches of transactions that are opened together, some of them aborted, some never begun."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hiveacid.errors import CatalogError, NoSuchTableError, StorageError, TransactionAbortedError
from hiveacid.streaming.stream_target import StreamTarget
from hiveacid.streaming.transaction_batch import StreamContext, TransactionBatch
from support.simulation.ledger import Place
from support.simulation.rows import Row, RowId
from support.simulation.session import Session


@dataclass
class Streamer:
    """Streams rows; the transactions of a batch share a file that grows."""

    session: Session

    def work(self) -> None:
        """Stream until the process dies."""
        while True:
            with self.session.forgiving():
                self._batch()
            self.session.context.clock.sleep(self.session.random.random() * 5)

    def _batch(self) -> None:
        """Open a batch and use it; between its transactions it may be paused for long."""
        random, context = self.session.random, self.session.context
        table = context.require(self.session.world.name())
        static = (random.choice(self.session.world.profile.days),) if table.partition_columns else ()
        stream = StreamContext(context.fs, context.catalog, context.transactions, context.settings)
        batch = TransactionBatch.open(
            stream, StreamTarget(table, static, "zlib"), random.choice((1, 2, 3, 3, 3))
        )
        try:
            while not batch.is_used_up and batch.begin():
                self._transaction(batch)
                context.clock.sleep(random.random() * 4)
        except (StorageError, CatalogError) as error:
            changed = self.session.world.ledger.tables.get(table.incarnation) is None
            if changed or self.session.world.store.txn_state(batch.txn.txn_id) != "open":
                raise TransactionAbortedError("the stream's table or transaction is gone") from error
            if isinstance(error, NoSuchTableError) or "holds rows already" in str(error):
                self.session.world.scheduler.note(str(error)[:120])
                return
            raise
        finally:
            batch.close()

    def _transaction(self, batch: TransactionBatch) -> None:
        random, work = self.session.random, self.session.world.ledger.work
        place = Place(batch.target.table.incarnation, batch.outputs.find_location(batch.target.static))
        rows: list[Row] = []
        for _ in range(random.randint(0, 2)):
            keys = self.session.world.new_keys(random.randint(1, 2))
            rows += [
                Row(RowId(batch.write_id, 0, len(rows) + number), key, 0) for number, key in enumerate(keys)
            ]
            batch.write(pa.RecordBatch.from_pydict({"key": keys, "updates": [0] * len(keys)}))
        work[batch.txn.txn_id].inserted[place].extend(rows)
        if random.random() < 0.15:
            batch.abort("the source failed")
        else:
            batch.commit()
            self.session.world.done["stream"] += 1
