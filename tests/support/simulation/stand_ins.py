"""What stands in for Spark, ORC and threads while a simulation runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.orc.writing import StripeBlock
from hiveacid.ports.file_system import FileSystem
from hiveacid.streaming.stream_transaction import StreamFile
from support.simulation.rows import Event, Row, RowId, from_bytes, to_bytes


class JsonFile(StreamFile):
    """A stream's file of JSON lines: the lines of a batch are its stripe, and there is no footer."""

    def _encode(self) -> Iterator[StripeBlock]:
        row = self.stripes.rows
        for batch in self._batches:
            keys = [*zip(*batch.to_pydict().values(), strict=True)]
            ids = [RowId(self.write_id, 0, row + number) for number in range(len(keys))]
            events = [
                Event(self.write_id, one, Row(one, *values)) for one, values in zip(ids, keys, strict=True)
            ]
            row += len(keys)
            tail: Any = SimpleNamespace(number_of_rows=len(events))
            yield StripeBlock(to_bytes(events), 0, tail)


def _no_footer(stripes: Sequence[Any], size: int, path: str) -> tuple[Any, bytes]:  # noqa: ARG001
    rows = sum(stripe.tail.number_of_rows for stripe in stripes)
    return SimpleNamespace(number_of_rows=rows, size=size), b""


def _has_valid_line(fs: FileSystem, path: str, size: int, committed: ValidWriteIdList, *, side: bool) -> bool:  # noqa: ARG001
    events = from_bytes(fs.read_bytes(path))
    return any(committed.is_valid(event.write_id) for event in events)


def _one_by_one(work: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:  # noqa: ARG001
    return [work(item) for item in items]


def _as_texts(env: object, columns: object, static: Mapping[str, object]) -> dict[str, str]:  # noqa: ARG001
    return {name: str(value) for name, value in static.items()}


_STAND_INS: Iterable[tuple[str, object]] = (
    ("hiveacid.storage.snapshot_locations._map_in_pool", _one_by_one),
    ("hiveacid.spark.formats.file_columns.partition_values_as_text", _as_texts),
    ("hiveacid.table.partitions._has_valid_stripe", _has_valid_line),
    ("hiveacid.streaming.stream_transaction.StreamFile", JsonFile),
    ("hiveacid.table.write.publish.merged_tail", _no_footer),
    ("hiveacid.table.write.publish.acid_metadata", lambda *_, **__: {}),
    ("hiveacid.table.write.publish.nest_row_columns", lambda tail, *_: (tail.size, b"")),
)


@contextmanager
def replaced(*others: tuple[str, object]) -> Iterator[None]:
    """Put the stand-ins in their places, and ``others``: planted bugs."""
    with ExitStack() as stack:
        for target, stand_in in (*_STAND_INS, *others):
            stack.enter_context(patch(target, stand_in))
        yield
