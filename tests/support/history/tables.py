"""Tables of lists and bags, kept as real tables are: a directory of deltas a partition, files before the commit.

A delta is one small JSON file here instead of a directory of ORC files; names, validity and selection are the
real ones (``core.format.names``, ``core.snapshot.selection``). A list is one row that every change deletes and writes anew; an
element of a bag is a row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiveacid.core.format.names import DeltaName
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import AcidDirectory, select
from support.history.records import Element, Key, Kind

RowId = tuple[int, int, int]  # write id, statement, number


@dataclass(frozen=True)
class Row:
    """A live row: elements of a list, or one of a bag."""

    id: RowId
    kind: Kind
    elements: tuple[Element, ...]


@dataclass
class Tables:
    """All tables below a directory. What a published file holds never changes, so it is read once."""

    root: Path
    _read: dict[str, Any] = field(default_factory=dict)

    def rows(
        self, table: str, partition: str, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> tuple[Row, ...]:
        """Return the rows that a snapshot sees, by row id."""
        place = self._place(table, partition)
        state = select(_entries(place), write_ids, txns)
        deleted = {tuple(one) for delta in state.delete_deltas for one in self._content(place, delta)}
        return tuple(
            Row(row_id, Kind(kind), tuple((txn_id, number) for txn_id, number in elements))
            for delta in state.deltas
            for row_id, kind, elements in self._numbered(place, delta)
            if row_id not in deleted
        )

    def insert(self, key: Key, write_id: WriteId, statement: int, elements: Sequence[Element]) -> None:
        """Publish one new row."""
        name = DeltaName(False, write_id, write_id, statement).format()
        self._publish(self._place(key.table, key.partition), name, [[key.kind.value, elements]])

    def delete(self, key: Key, write_id: WriteId, statement: int, rows: Sequence[Row]) -> None:
        """Publish delete events of rows."""
        name = DeltaName(True, write_id, write_id, statement).format()
        self._publish(self._place(key.table, key.partition), name, [row.id for row in rows])

    def _place(self, table: str, partition: str) -> str:
        return f"{self.root}/{table}/{partition}"

    def _numbered(self, place: str, delta: AcidDirectory) -> Iterator[tuple[RowId, str, list[list[int]]]]:
        name = delta.name
        assert isinstance(name, DeltaName)
        for number, (kind, elements) in enumerate(self._content(place, delta)):
            yield (name.min_write_id, name.statement_id or 0, number), kind, elements

    def _content(self, place: str, delta: AcidDirectory) -> Any:
        path = f"{place}/{delta.path}"
        if path not in self._read:
            self._read[path] = json.loads(Path(path).read_bytes())
        return self._read[path]

    @staticmethod
    def _publish(place: str, name: str, content: object) -> None:
        scratch = Path(place, f".{name}")
        try:
            scratch.write_text(json.dumps(content), encoding="utf-8")
        except FileNotFoundError:
            scratch.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(content), encoding="utf-8")
        scratch.rename(Path(place, name))


def _entries(place: str) -> Iterator[FileEntry]:
    """List a partition as if every delta were a directory with one file."""
    with suppress(FileNotFoundError):
        for name in os.listdir(place):  # noqa: PTH208 - as quick as it goes
            if not name.startswith("."):
                yield FileEntry(name, is_dir=True)
                yield FileEntry(f"{name}/bucket_00000", is_dir=False, size=1)
