"""Contract: streams, whose progress is committed with their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey, StreamProgress
from hiveacid.errors import (
    CatalogError,
    StreamCheckpointError,
    StreamFencedError,
    StreamReplayedError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Operation
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

STREAM = StreamKey(ORDERS, "clicks")


def _begin(store: Store) -> TxnId:
    (txn_id,) = store.open_txns(CLIENT)
    store.take_snapshot(txn_id)
    store.allocate_write_ids([txn_id], ORDERS)
    return txn_id


def _batch(progress: StreamProgress, batch_id: int) -> StreamBatch:
    return StreamBatch(progress.stream, progress.checkpoint, progress.epoch, batch_id)


def _commit(store: Store, progress: StreamProgress, batch_id: int) -> TxnId:
    txn_id = _begin(store)
    store.commit_txn(txn_id, written=[wrote(ORDERS, Operation.INSERT)], batch=_batch(progress, batch_id))
    return txn_id


def _last(store: Store, stream: StreamKey = STREAM) -> int | None:
    found = store.stream_progress(stream)
    return None if found is None else found.last_batch_id


class StreamContract:
    """Exactly once: by query and batch id, with one writer at a time."""

    def test_progress_goes_with_the_commit(self, store: Store) -> None:
        """Not before it, not without it; asked twice, it is committed once."""
        assert store.stream_progress(STREAM) is None
        mine = store.register_stream(STREAM, "run 1", "check 1")
        assert (mine, _last(store)) == (StreamProgress(STREAM, "check 1", 1, -1, (("run 1", 1),)), -1)
        aborted = _begin(store)
        store.abort_txns([aborted], "no")
        with pytest.raises(TransactionAbortedError):
            store.commit_txn(aborted, batch=_batch(mine, 0))
        assert _last(store) == -1
        txn_id = _commit(store, mine, 0)
        store.commit_txn(txn_id, batch=_batch(mine, 0))
        assert (_last(store), store.txn_state(txn_id)) == (0, "committed")
        _commit(store, mine, 7)
        assert _last(store) == 7

    def test_a_replay_is_not_written(self, store: Store) -> None:
        """The transaction is aborted; who lost that answer is told the same again."""
        mine = store.register_stream(STREAM, "run 1", "check 1")
        _commit(store, mine, 3)
        for batch_id in (3, 2, 0):
            txn_id = _begin(store)
            for _ in range(2):
                with pytest.raises(StreamReplayedError, match=f"batch {batch_id} .*the last is 3"):
                    store.commit_txn(txn_id, batch=_batch(mine, batch_id))
            assert store.txn_state(txn_id) == "aborted"
        assert _last(store) == 3
        assert store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].aborted == (2, 3, 4)

    def test_the_newest_writer_wins(self, store: Store) -> None:
        """Two copies by mistake: the older one is fenced at its commit, and can't come back."""
        old = store.register_stream(STREAM, "run 1", "check 1")
        _commit(store, old, 0)
        late = _begin(store)
        new = store.register_stream(STREAM, "run 2", "check 1")
        assert (new.epoch, new.last_batch_id) == (2, 0)
        for _ in range(2):
            with pytest.raises(StreamFencedError, match=r"another copy .*'clicks' into .*stop this query"):
                store.commit_txn(late, batch=_batch(old, 1))
        assert store.txn_state(late) == "aborted"
        with pytest.raises(StreamFencedError):
            store.register_stream(STREAM, "run 1", "check 1")
        with pytest.raises(StreamFencedError):
            store.register_stream(STREAM, "run 1", "check 1", restart=True)
        _commit(store, new, 1)
        assert _last(store) == 1

    def test_registering_twice_is_once(self, store: Store) -> None:
        """An answer may get lost."""
        first = store.register_stream(STREAM, "run 1", "check 1")
        assert store.register_stream(STREAM, "run 1", "check 1") == first
        assert store.register_stream(STREAM, "run 1", "check 1", restart=True) == first
        _commit(store, first, 0)
        assert store.register_stream(STREAM, "run 1", "check 1") == replace(first, last_batch_id=0)

    def test_another_checkpoint_is_no_replay(self, store: Store) -> None:
        """Its batch 0 means other rows: refused, unless told; then the old one is fenced."""
        store.register_stream(STREAM, "run 0", "check 0")
        old = store.register_stream(STREAM, "run 1", "check 1")  # nothing was committed under the other one
        _commit(store, old, 5)
        for writer in ("run 1", "run 2"):
            with pytest.raises(StreamCheckpointError, match="restart=True"):
                store.register_stream(STREAM, writer, "check 2")
        assert store.stream_progress(STREAM) == replace(old, last_batch_id=5)
        new = store.register_stream(STREAM, "run 2", "check 2", restart=True)
        assert (new.checkpoint, new.epoch, new.last_batch_id) == ("check 2", 3, -1)
        with pytest.raises(StreamFencedError):
            store.commit_txn(_begin(store), batch=_batch(old, 6))
        _commit(store, new, 0)
        assert _last(store) == 0

    def test_streams_and_tables_apart(self, store: Store) -> None:
        """Names are exact, of any letters; others are other streams."""
        names = ["clicks", "Clicks", "clicks ", "c'li\"cks—ü%_", "x" * 256]
        keys = [StreamKey(of, name) for of in (ORDERS, STOCK) for name in names]
        for number, key in enumerate(keys):
            _commit(store, store.register_stream(key, "run", "check"), number)
        assert [_last(store, key) for key in keys] == list(range(len(keys)))

    @pytest.mark.parametrize("bad", ["", "x" * 257, "a\0"])
    def test_impossible_names(self, store: Store, bad: str) -> None:
        """Refused before anything is kept."""
        with pytest.raises(CatalogError):
            store.register_stream(StreamKey(ORDERS, bad), "run", "check")
        with pytest.raises(CatalogError):
            store.register_stream(STREAM, bad, "check")
        with pytest.raises(CatalogError):
            store.register_stream(STREAM, "run", bad)
        assert store.stream_progress(STREAM) is None

    def test_a_conflict_takes_no_progress(self, store: Store) -> None:
        """A batch that changes rows may lose: then it is tried again, in another transaction."""
        mine = store.register_stream(STREAM, "run 1", "check 1")
        one, two = _begin(store), _begin(store)
        store.commit_txn(one, written=[wrote(ORDERS, Operation.UPDATE)])
        with pytest.raises(WriteConflictError):
            store.commit_txn(two, written=[wrote(ORDERS, Operation.UPDATE)], batch=_batch(mine, 0))
        assert _last(store) == -1
        again = _begin(store)
        store.commit_txn(again, written=[wrote(ORDERS, Operation.UPDATE)], batch=_batch(mine, 0))
        assert (_last(store), store.txn_state(again)) == (0, "committed")

    def test_a_replay_is_no_conflict(self, store: Store) -> None:
        """The batch is there: nobody has to try again."""
        mine = store.register_stream(STREAM, "run 1", "check 1")
        late = _begin(store)
        _commit(store, mine, 0)
        other = _begin(store)
        store.commit_txn(other, written=[wrote(ORDERS, Operation.DELETE)])
        with pytest.raises(StreamReplayedError):
            store.commit_txn(late, written=[wrote(ORDERS, Operation.DELETE)], batch=_batch(mine, 0))

    def test_a_stream_nobody_registered(self, store: Store) -> None:
        """Nothing is taken from it."""
        txn_id = _begin(store)
        with pytest.raises(StreamFencedError, match="not known any more"):
            store.commit_txn(txn_id, batch=StreamBatch(STREAM, "check", 1, 0))
        assert store.txn_state(txn_id) == "aborted"

    def test_progress_moves_to_another_store(self, store: Store) -> None:
        """All of it is listed; what is restored replaces all that the table had, and no other table's."""
        clicks = store.register_stream(STREAM, "run 1", "check 1")
        _commit(store, clicks, 4)
        elsewhere = StreamKey(STOCK, "clicks")
        store.register_stream(elsewhere, "run 1", "check 1")
        store.register_stream(StreamKey(ORDERS, "bills"), "run 1", "check 2")
        listed = store.list_streams(ORDERS)
        assert [(one.stream.query, one.last_batch_id) for one in listed] == [("bills", -1), ("clicks", 4)]
        _commit(store, clicks, 5)
        store.register_stream(StreamKey(ORDERS, "older"), "run 1", "check 3")
        for _ in range(2):  # an interrupted migration is repeated
            store.restore_streams(ORDERS, listed)
            assert store.list_streams(ORDERS) == listed
        with pytest.raises(StreamReplayedError):
            _commit(store, clicks, 4)
        store.restore_streams(ORDERS, ())
        assert (store.list_streams(ORDERS), _last(store, elsewhere)) == ((), -1)

    def test_housekeeping_keeps_progress(self, store: Store) -> None:
        """A stream may rest for long."""
        _commit(store, store.register_stream(STREAM, "run 1", "check 1"), 4)
        store.housekeep()
        assert _last(store) == 4


class StreamCatalogContract:
    """Streams go with their tables."""

    def test_streams_follow_their_table(self, store: Store) -> None:
        """A new name is the table's; what is dropped begins anew."""
        store.create_database(database())
        store.create_table(table(ORDERS))
        mine = store.register_stream(STREAM, "run 1", "check 1")
        _commit(store, mine, 4)
        new = TableName("shop", "bills")
        store.alter_table(ORDERS, replace(table(ORDERS), name=new))
        moved = StreamKey(new, STREAM.query)
        assert (_last(store), _last(store, moved)) == (None, 4)
        with pytest.raises(StreamFencedError, match="dropped or renamed"):
            store.commit_txn(store.open_txns(CLIENT)[0], batch=_batch(mine, 5))
        store.drop_table(new)
        assert _last(store, moved) is None
        assert store.register_stream(moved, "run 2", "check 2").last_batch_id == -1
