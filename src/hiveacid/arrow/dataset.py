"""Tables as data sets of Arrow, the interface by which DuckDB pushes columns and filters down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

Read = Callable[[Sequence[str], "pc.Expression | None"], Iterator[pa.RecordBatch]]
"""Reads the current snapshot: yields batches of the named columns for the rows that a filter selects."""


class TableDataset(ds.Dataset):  # type: ignore[misc] # Arrow has no types
    """Data set whose scans read the current snapshot of a table. It has `schema` and `scanner` only."""

    def __init__(self, name: str, schema: pa.Schema, read: Read) -> None:
        """``name``: what `repr` shows. ``schema``: that of the table's definition."""
        self._name, self._schema, self._read = name, schema, read

    def __repr__(self) -> str:
        """Return the name of the table."""
        return f"<hiveacid data set {self._name}>"

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - Arrow's
        **_: object,
    ) -> TableScanner:
        """Return a scan of some columns of the rows that pass a filter (an expression of pyarrow)."""
        names = self._schema.names if columns is None else [*columns]
        schema = pa.schema([self._schema.field(name) for name in names])
        return TableScanner(schema, lambda: self._read(names, filter))


class TableScanner(ds.Scanner):  # type: ignore[misc] # Arrow has no types
    """One scan of a `TableDataset`."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """``batches``: begins the scan."""
        self._schema, self._batches = schema, batches

    @property
    def projected_schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())
