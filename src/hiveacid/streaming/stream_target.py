"""Target of a stream: checks of its table before writing, and the table's constraints applied to its rows, which no Spark evaluates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.config import Settings
from hiveacid.core.model import (
    DEFAULT_PARTITION,
    Column,
    Constraint,
    Partition,
    TableDefinition,
    TableKind,
    partition_value,
)
from hiveacid.core.predicates import Not
from hiveacid.core.schema import constraints as rules
from hiveacid.core.schema.storage_formats import is_orc
from hiveacid.core.schema.types import is_primitive, parse_type
from hiveacid.errors import (
    ConfigError,
    ConstraintViolationError,
    NoSuchColumnError,
    ParseError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    acid_v1,
    no_such_column,
)
from hiveacid.orc.footer_summary import read_summary
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.storage.snapshot_locations import list_locations
from hiveacid.table.arrow_read.condition_grammar import parse_predicate
from hiveacid.table.arrow_read.files_to_open import partition_scalars
from hiveacid.table.arrow_read.filters import Condition, arrow_filter, is_exact
from hiveacid.table.cast_to_table_columns import array_of_python_values, cast
from hiveacid.table.codec_and_writer_options import orc_codec
from hiveacid.table.context import WriterContext
from hiveacid.table.partitions import PartitionValues
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.table.read.visible_locations import may_have_acid_v1_events
from hiveacid.table.write.partitions_and_buckets import check_bucketing, partition_texts


@dataclass(frozen=True)
class StreamTarget:
    """A table and the static partition values of a stream into it (a prefix of the partition columns).

    ``codec``: of new files.
    """

    table: TableDefinition
    static: PartitionValues
    codec: str

    @classmethod
    def of(cls, table: TableDefinition, partition: Mapping[str, object], settings: Settings) -> StreamTarget:
        """Check that rows can be streamed into the table.

        Raises UnsupportedFeatureError (a plain table, another format than ORC, types that only Spark can write),
        NoSuchColumnError, ConfigError, SchemaMismatchError (the static partition); the errors of `orc_codec`.
        """
        if table.kind is TableKind.PLAIN:
            raise UnsupportedFeatureError(
                f"{table.name} is not transactional: rows are streamed into transactional tables only"
            )
        if not is_orc(table.storage):
            raise UnsupportedFeatureError(f"{table.name} is not stored as ORC: insert its rows by Spark")
        arrow_schema(table.all_columns)
        check_bucketing(table)
        return cls(table, _static_values(table, partition), orc_codec(table, settings, for_stream=True))

    @property
    def dynamic(self) -> tuple[Column, ...]:
        """Return the partition columns whose values the records contain."""
        return self.table.partition_columns[len(self.static) :]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that records contain, dynamic partition columns last."""
        return (*self.table.columns, *self.dynamic)


def _static_values(table: TableDefinition, partition: Mapping[str, object]) -> PartitionValues:
    columns = table.partition_columns
    spec = {name.lower(): value for name, value in partition.items()}
    names = [column.name for column in columns]
    unknown = [name for name in spec if name not in names]
    if unknown:
        raise no_such_column(table.name, unknown[0], names, kind="partition column")
    columns_in_spec = [column for column in columns if column.name in spec]
    if columns_in_spec != list(columns[: len(columns_in_spec)]):
        raise ConfigError("static partition columns come before the dynamic ones (Hive's rule)")
    return tuple(_static_text(column, spec[column.name]) for column in columns_in_spec)


def _static_text(column: Column, value: object) -> str | None:
    """Format a static partition value as in a partition name: '01' in an INT column becomes '1'."""
    hive = parse_type(column.type)
    try:
        if isinstance(value, str):
            value = partition_value(value) if value else value
            array = cast(pa.array([value], pa.string()), arrow_type(hive))
        else:
            array = array_of_python_values([value], hive)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatchError(
            f"{value!r} is not a valid {column.type} (partition column {column.name})"
        ) from error
    text: str | None = partition_texts(array, column)[0].as_py()
    return text


def require_no_update_events(context: WriterContext, table: TableDefinition) -> None:
    """Refuse to add rows beside update events of ACID v1.

    Statements have `require_no_acid_v1_events`, which needs the footers that a connection with Spark keeps.
    """
    if not may_have_acid_v1_events(table):
        return
    fs, store = context.fs, context.transactions.store
    partitions = context.catalog.list_partitions(table.name) if table.partition_columns else None
    txns = store.valid_txns()
    write_ids = store.valid_write_ids(txns, [table.name])[table.name]
    for location in list_locations(fs, table, partitions, write_ids, txns):
        for directory in location.state.row_directories:
            for file in directory.acid_files:
                path = f"{location.root}/{file.path}"
                if read_summary(fs, path, readable_length(fs, path, file)).has_events:
                    raise acid_v1(table.name)


@dataclass(frozen=True)
class RowConstraints:
    """NOT NULL and CHECK of a table; a stream makes no surrogate keys, so that its rows have them. ``violated``: which rows violate a CHECK. ``static``: values that the rows do not have."""

    table: TableDefinition
    not_null: dict[str, Constraint]
    violated: Sequence[tuple[Constraint, Condition]]
    static: dict[str, pa.Scalar]

    @classmethod
    def of(
        cls, table: TableDefinition, constraints: Sequence[Constraint], static: PartitionValues
    ) -> RowConstraints:
        """Prepare the constraints. Raises UnsupportedFeatureError for a CHECK that only Spark evaluates as Hive does."""
        violated = [(check, _violating(table, check)) for check in rules.checks(constraints)]
        columns = table.partition_columns[: len(static)]
        scalars = partition_scalars(replace(table, partition_columns=columns), Partition(static, ""))
        values = {column.name: value for column, value in zip(columns, scalars, strict=True)}
        keys = {column: constraint for column, (_, constraint) in rules.surrogate_keys(constraints).items()}
        return cls(table, keys | rules.not_null_columns(constraints), violated, values)

    def require(self, rows: pa.RecordBatch) -> None:
        """Raise ConstraintViolationError if a row violates a constraint."""
        for name, constraint in self.not_null.items():
            if rows.num_rows and self._values(rows, name).null_count:
                raise ConstraintViolationError(rules.violation(self.table.name, constraint))
        for constraint, condition in self.violated:
            columns = {name: self._values(rows, name) for name in condition.columns}
            if pa.table(columns).filter(condition.predicate).num_rows:
                raise ConstraintViolationError(rules.violation(self.table.name, constraint))

    def _values(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        """Return a column's values as they will be read: VARCHAR is cut, and the empty text of a partition is NULL."""
        if name in self.static:
            return pa.repeat(self.static[name], rows.num_rows)
        types = {column.name: column.type for column in self.table.all_columns}
        values = to_stored_values(rows.column(name), parse_type(types[name]))
        if name not in self.table.partition_column_names or not is_primitive(types[name], rules.TEXTS):
            return values
        texts = pc.utf8_rtrim(values, " ") if types[name].startswith("char") else values
        empty = pc.is_in(texts, pa.array(["", DEFAULT_PARTITION], texts.type))
        return pc.if_else(empty, pa.scalar(None, values.type), values)


def _violating(table: TableDefinition, check: Constraint) -> Condition:
    """Return the condition of rows that violate a CHECK."""
    reason = (
        "a stream compares columns with literals only, of whole numbers, decimals, texts, booleans and days"
    )
    if rules.is_ambiguous(check.expression):
        raise rules.not_evaluated(table.name, check, rules.AMBIGUOUS)
    try:
        predicate = Not(parse_predicate(check.expression, table))
    except (ParseError, NoSuchColumnError) as error:
        raise rules.not_evaluated(table.name, check, reason) from error
    condition = arrow_filter(table.all_columns, predicate)
    if not is_exact(predicate, table.all_columns) or not condition.columns:
        raise rules.not_evaluated(table.name, check, reason)
    return condition
