"""A simulated stream: transactions one after the other on one definition of the table, some of them aborted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hiveacid.errors import CatalogError, NoSuchTableError, StorageError, TransactionAbortedError
from hiveacid.streaming.stream_target import StreamTarget
from hiveacid.streaming.stream_transaction import StreamContext, StreamTransaction
from support.simulation.ledger import Place
from support.simulation.rows import Row, RowId
from support.simulation.session import Session


@dataclass
class Streamer:
    """Streams rows, paused between its transactions and inside them."""

    session: Session

    def work(self) -> None:
        """Stream until the process dies."""
        while True:
            with self.session.forgiving():
                self._transactions()
            self.session.context.clock.sleep(self.session.random.random() * 5)

    def _transactions(self) -> None:
        """Write some transactions into the table as it was at first; between them it may be paused for long."""
        random, context = self.session.random, self.session.context
        table = context.require(self.session.world.name())
        static = (random.choice(self.session.world.profile.days),) if table.partition_columns else ()
        stream = StreamContext(context.fs, context.catalog, context.transactions, context.settings)
        target = StreamTarget(table, static, "zlib")
        for _ in range(random.choice((1, 2, 3, 3, 3))):
            current = StreamTransaction.begin(stream, target)
            if current is None:
                return
            try:
                self._transaction(current)
            except (StorageError, CatalogError) as error:
                changed = self.session.world.ledger.tables.get(table.incarnation) is None
                if changed or self.session.world.store.txn_state(current.txn.txn_id) != "open":
                    raise TransactionAbortedError("the stream's table or transaction is gone") from error
                if isinstance(error, NoSuchTableError) or "holds rows already" in str(error):
                    self.session.world.scheduler.note(str(error)[:120])
                    return
                raise
            finally:
                current.abort("the stream was closed")
            context.clock.sleep(random.random() * 4)

    def _transaction(self, current: StreamTransaction) -> None:
        random, work = self.session.random, self.session.world.ledger.work
        place = Place(current.target.table.incarnation, current.outputs.find_location(current.target.static))
        rows: list[Row] = []
        for _ in range(random.randint(0, 2)):
            keys = self.session.world.new_keys(random.randint(1, 2))
            rows += [
                Row(RowId(current.write_id, 0, len(rows) + number), key, 0) for number, key in enumerate(keys)
            ]
            current.write(pa.RecordBatch.from_pydict({"key": keys, "updates": [0] * len(keys)}))
        work[current.txn.txn_id].inserted[place].extend(rows)
        if random.random() < 0.15:
            current.abort("the source failed")
        else:
            current.commit()
            self.session.world.done["stream"] += 1
