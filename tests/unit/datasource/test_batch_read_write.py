"""Batch writes by ``format("hiveacid")`` whose partitions other writers overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from hiveacid.datasource.batch_read_write import BatchWriter
from hiveacid.datasource.stream_sink import Sink
from hiveacid.errors import WriteConflictError


class LosingWriter(BatchWriter):
    def _write(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        raise WriteConflictError(f"p=1 was overwritten, {len(messages)} messages")


def test_the_last_conflict_says_how_often_the_write_was_tried(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.mkdir()
    writer = LosingWriter(Sink({"table": "db.t"}, "", str(staged), "rows"), overwrite=False)
    with pytest.raises(
        WriteConflictError, match=r"the write to db\.t was tried 5 times, .* p=1 was overwritten"
    ):
        writer.commit([])
    assert not staged.exists()
