"""Tables as sources of other engines' queries, whose columns and filters reach the reader.

DuckDB scans a data set of Arrow. Polars reads a LazyFrame: it applies the whole filter to the rows that are read, and
comparisons of columns with literals, joined by AND and OR, also reach the reader, which drops partitions, stripes and
rows by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from hiveacid.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import polars as pl

Read = Callable[[Sequence[str], "pc.Expression | None"], Iterator[pa.RecordBatch]]
"""Reads the current snapshot: yields batches of the named columns for the rows that a filter selects."""


def _refused(_: object, method: str, *__: object, **___: object) -> NoReturn:
    raise UnsupportedFeatureError(
        f"a data set of a table has no {method}: call to_table(columns=…, filter=…), or the scanner, first"
    )


class _NoFile(pa.fs.FileSystemHandler):  # type: ignore[misc] # Arrow has no types
    """File system of the one file of a `TableDataset`, which cannot be opened."""

    def get_type_name(self) -> str:
        """Return a name for `repr`."""
        return "hiveacid"

    def normalize_path(self, path: str) -> str:
        """Return the path."""
        return path

    def open_input_file(self, _: str) -> NoReturn:
        """Refuse the scan."""
        _refused(self, "scan inside Arrow")

    def _unused(self, *_: object) -> NoReturn:
        raise NotImplementedError

    get_file_info = get_file_info_selector = create_dir = delete_dir = delete_dir_contents = _unused
    delete_root_dir_contents = delete_file = move = copy_file = _unused
    open_input_stream = open_output_stream = open_append_stream = _unused


class TableDataset(ds.UnionDataset):  # type: ignore[misc] # Arrow has no types
    """Data set whose scans read the current snapshot of a table: `schema`, `scanner`, and Arrow's calls that scan.

    Arrow's own C++ code would scan a data set without these methods. It finds one file, which refuses: a data set without
    any C++ object behind it would end the process there. ``ds.write_dataset`` reads the stream.
    """

    get_fragments = partialmethod(_refused, "get_fragments")
    replace_schema = partialmethod(_refused, "replace_schema")
    join = partialmethod(_refused, "join")
    join_asof = partialmethod(_refused, "join_asof")
    sort_by = partialmethod(_refused, "sort_by")
    filter = partialmethod(_refused, "filter")
    __reduce__ = partialmethod(_refused, "pickle")
    partition_expression = property(partial(_refused, method="partition_expression"))

    def __init__(self, name: str, schema: pa.Schema, read: Read) -> None:
        """``name``: what `repr` shows. ``schema``: that of the table's definition."""
        kind = ds.IpcFileFormat()
        file = kind.make_fragment(name, filesystem=pa.fs.PyFileSystem(_NoFile()))
        super().__init__(schema, [ds.FileSystemDataset([file], schema, kind)])
        self._name, self._schema, self._read = name, schema, read

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows as a stream: ``ds.write_dataset`` takes it rather than the data set."""
        return self.scanner().__arrow_c_stream__(requested_schema)

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
        """Return a scan of some columns of the rows that pass a filter (an expression of pyarrow).

        Raises UnsupportedFeatureError for columns that are computed, as those of a mapping.
        """
        if isinstance(columns, Mapping):
            raise UnsupportedFeatureError(
                "a data set of a table takes names of columns, and computes none: read them by to_table(columns=[…]) first"
            )
        names = self._schema.names if columns is None else [*columns]
        schema = pa.schema([self._schema.field(name) for name in names])
        return TableScanner(schema, lambda: self._read(names, filter))


class TableScanner:
    """One scan of a `TableDataset`, which reads no batch before it is asked for.

    A scanner of Arrow itself, as of ``Scanner.from_batches``, reads ahead without a bound. Its subclass has no C++ object
    behind it, so that ``ds.write_dataset`` would end the process; it reads the stream of this one.
    """

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """``batches``: begins the scan."""
        self._schema, self._batches = schema, batches

    @property
    def projected_schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self._schema

    dataset_schema = projected_schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow's C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def to_table(self) -> pa.Table:
        """Return the rows as a table."""
        return self.to_reader().read_all()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        return self._batches()

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        return pa.Table.from_batches([*limited(self._batches(), num_rows)], self._schema)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self._batches())

    take = partialmethod(_refused, "take")
    scan_batches = partialmethod(_refused, "scan_batches")


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first ``limit`` rows in batches (None: all), and read no batch after them."""
    remaining = limit
    if remaining == 0:
        return
    for batch in batches:
        if remaining is None:
            yield batch
            continue
        yield batch.slice(0, remaining)
        remaining -= min(remaining, batch.num_rows)
        if not remaining:
            return


_OPERATORS = {"Eq": "__eq__", "Lt": "__lt__", "LtEq": "__le__", "Gt": "__gt__", "GtEq": "__ge__"}
_INTEGERS = frozenset({"Int8", "Int16", "Int32", "Int64", "Int", "Int128"})


def lazy_frame(schema: pa.Schema, read: Read) -> pl.LazyFrame:
    """Return a LazyFrame of a table; ``schema``: that of the table's definition."""
    import polars as pl  # noqa: PLC0415 - it is optional
    from polars.io.plugins import register_io_source  # noqa: PLC0415

    frame = pl.from_arrow(schema.empty_table())

    def batches(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        names = schema.names if with_columns is None else with_columns
        needed, where = [*names], None
        if predicate is not None:
            needed += [name for name in dict.fromkeys(predicate.meta.root_names()) if name not in names]
            # with both, Polars counts the rows before it filters them: head(n).filter(…)
            where = pushed_filter(predicate, schema) if n_rows is None else None
        remaining = n_rows
        for batch in read(needed, where):
            rows = pl.from_arrow(pa.Table.from_batches([batch]))
            if remaining is not None:
                rows = rows.head(remaining)
                remaining -= rows.height
            if predicate is not None:
                rows = rows.filter(predicate)
            yield rows.select(names)
            if remaining == 0:
                return

    return register_io_source(batches, schema=frame.schema)


def pushed_filter(predicate: pl.Expr, schema: pa.Schema) -> pc.Expression | None:
    """Return a pyarrow filter that keeps every row of a Polars predicate; None if no part of it is supported."""
    try:
        return _pushed(json.loads(predicate.meta.serialize(format="json")), schema)
    except Exception:  # noqa: BLE001 - other Polars versions may serialise predicates differently; Polars then filters the rows itself
        return None


def _pushed(node: dict[str, Any], schema: pa.Schema) -> pc.Expression | None:
    (kind, parts), *_ = node.items()
    if kind == "BinaryExpr":
        operator = parts["op"]
        if operator in ("And", "LogicalAnd"):
            sides = [_pushed(parts[side], schema) for side in ("left", "right")]
            filters = [side for side in sides if side is not None]
            return filters[0] & filters[1] if len(filters) > 1 else filters[0] if filters else None
        if operator in ("Or", "LogicalOr"):
            left, right = _pushed(parts["left"], schema), _pushed(parts["right"], schema)
            return None if left is None or right is None else left | right
        return _comparison(parts["left"], operator, parts["right"], schema)
    if kind == "Function" and parts["function"] in ({"Boolean": "IsNull"}, {"Boolean": "IsNotNull"}):
        name = parts["input"][0]["Column"]
        return (
            ds.field(name).is_null()
            if parts["function"] == {"Boolean": "IsNull"}
            else ds.field(name).is_valid()
        )
    return None


def _comparison(
    left: dict[str, Any], operator: str, right: dict[str, Any], schema: pa.Schema
) -> pc.Expression | None:
    mirrored = {"Lt": "Gt", "Gt": "Lt", "LtEq": "GtEq", "GtEq": "LtEq"}
    if "Column" in right:
        left, right, operator = right, left, mirrored.get(operator, operator)
    name = left.get("Column")
    if name is None or operator not in _OPERATORS or "Literal" not in right or name not in schema.names:
        return None
    value = _literal(right["Literal"], schema.field(name).type)
    return None if value is None else getattr(ds.field(name), _OPERATORS[operator])(value)


def _literal(literal: dict[str, Any], data_type: pa.DataType) -> pa.Scalar | None:
    """Return a literal as a scalar of the column's type; None for other types, whose comparison may differ."""
    (kind, value), *_ = literal.items()
    if kind in ("Scalar", "Dyn"):
        (kind, value), *_ = value.items()
    if kind in _INTEGERS and pa.types.is_integer(data_type):
        return pa.scalar(int(value), data_type)
    if kind in ("String", "Str") and pa.types.is_string(data_type):
        return pa.scalar(value, data_type)
    if kind == "Date" and pa.types.is_date(data_type):
        return pa.scalar(date(1970, 1, 1) + timedelta(days=value), data_type)
    return None
