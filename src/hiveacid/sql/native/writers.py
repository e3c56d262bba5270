"""Spark's writers in a native session: ``df.write``, ``df.writeTo`` and ``df.mergeInto`` on transactional tables.

The DataFrames of all sessions have one class. `replace_writers` therefore replaces members of that class until the native
session is closed. DataFrames of other applications' sessions still get Spark's own members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

from hiveacid.core.model import Bucketing
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import UnsupportedFeatureError, already_exists
from hiveacid.sql.native.writer_targets import TableSpec, Target, WriterSession
from hiveacid.table.write.insert import InsertOptions
from hiveacid.table.write.merge import TableMerger
from hiveacid.table.write.update_delete import replace_rows

if TYPE_CHECKING:
    from pyspark.sql._typing import ColumnOrName, OptionalPrimitiveType


class NativeWriter(DataFrameWriter):
    """``df.write``, whose `insertInto` and `saveAsTable` know hiveacid tables; everything else is Spark's."""

    def __init__(self, frame: DataFrame, native: WriterSession) -> None:
        """Write ``frame``; names are those of ``native``."""
        super().__init__(frame)
        self._native = native
        self._mode: str | None = None
        self._provider: str | None = None
        self._options: dict[str, str] = {}
        self._partition_columns: list[str] | None = None
        self._buckets: tuple[int, tuple[str, ...]] | None = None
        self._sort_columns: tuple[str, ...] = ()
        self._clustered = False

    def mode(self, saveMode: str | None) -> Self:
        """Set what happens to existing rows."""
        self._mode = saveMode or self._mode
        super().mode(saveMode)
        return self

    def format(self, source: str) -> Self:
        """Set the format, which an existing table must have."""
        self._provider = source
        super().format(source)
        return self

    def option(self, key: str, value: OptionalPrimitiveType) -> Self:
        """Set an option: a table property, for a new table."""
        self._options[key] = _text(value)
        super().option(key, value)
        return self

    def options(self, **options: OptionalPrimitiveType) -> Self:
        """Set several options."""
        self._options |= {key: _text(value) for key, value in options.items()}
        super().options(**options)
        return self

    def partitionBy(self, *cols: str | list[str]) -> Self:
        """Set the partition columns."""
        self._partition_columns = _names(cols)
        super().partitionBy(*cols)  # type: ignore[arg-type] # names, or a list of them
        return self

    def bucketBy(self, numBuckets: int, col: str | list[str] | tuple[str, ...], *cols: str) -> Self:
        """Set the number of buckets and their columns."""
        super().bucketBy(numBuckets, col, *cols)
        self._buckets = (numBuckets, tuple(_names((col, *cols))))
        return self

    def sortBy(self, col: str | list[str] | tuple[str, ...], *cols: str) -> Self:
        """Set the columns that sort the rows of a bucket."""
        super().sortBy(col, *cols)
        self._sort_columns = tuple(_names((col, *cols)))
        return self

    def clusterBy(self, *cols: str | list[str]) -> Self:
        """Set Spark's clustering columns, which hiveacid tables do not have."""
        super().clusterBy(*cols)  # type: ignore[arg-type] # names, or a list of them
        self._clustered = True
        return self

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        """Insert rows by position; with ``overwrite`` replace the partitions that get rows."""
        target = self._native.find_target(tableName)
        if target is None or target.table is None:
            self._native.require_readable(tableName)
            super().insertInto(tableName, overwrite)
            return
        method = "insertInto"
        if self._partition_columns is not None or self._buckets is not None or self._clustered:
            raise UnsupportedFeatureError(
                f"{method} takes the partitions and buckets of {target.table}: leave out partitionBy, bucketBy and clusterBy"
            )
        spec = self._table_spec()
        spec.require_matches(method, target.require_table())
        replaces = (
            self._mode is not None and self._mode.lower() == "overwrite" if overwrite is None else overwrite
        )
        options = InsertOptions(overwrite=replaces)
        target.insert(method, self._df, options, merge_schema=spec.merge_schema)

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: OptionalPrimitiveType,
    ) -> None:
        """Write a table: insert by name, replace its rows, or create it."""
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        target, spec = self._native.find_target(name), self._table_spec()
        if target is None or (target.table is None and not target.can_create(spec)):
            self._native.require_readable(name)
            super().saveAsTable(name)
            return
        if self._clustered:
            raise UnsupportedFeatureError(
                "saveAsTable: clusterBy is not supported: use bucketBy or partitionBy"
            )
        save_mode = (self._mode or "error").lower()  # Spark refuses other modes
        if target.table is None:
            target.create("saveAsTable", self._df, spec)
        elif save_mode.startswith(("error", "default")):
            raise already_exists("table", target.table, "use the mode append, overwrite or ignore")
        elif save_mode != "ignore":
            spec.require_matches("saveAsTable", target.require_table())
            replaces = save_mode == "overwrite"
            inserted = InsertOptions(by_name=True, overwrite=replaces, whole=replaces)
            target.insert("saveAsTable", self._df, inserted, merge_schema=spec.merge_schema)

    def _table_spec(self) -> TableSpec:
        bucketing = None
        if self._buckets is not None:
            count, columns = self._buckets
            lowered = tuple(name.lower() for name in self._sort_columns)
            bucketing = Bucketing(tuple(name.lower() for name in columns), count, lowered)
        elif self._sort_columns:
            raise UnsupportedFeatureError("sortBy needs bucketBy")
        return TableSpec(self._provider, self._options, {}, self._partition_columns, bucketing)


class NativeWriterV2(DataFrameWriterV2):
    """``df.writeTo``. The last call (`append` …) looks up the target, so the table may be created before it."""

    def __init__(self, frame: DataFrame, table: str, native: WriterSession) -> None:
        """Write ``frame`` to a table; Spark's own writer is created only for Spark's own tables."""
        self._df = frame
        self._spark = frame.sparkSession
        self._name = table
        self._native = native
        self._calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
        self._provider: str | None = None
        self._options: dict[str, str] = {}
        self._properties: dict[str, str] = {}
        self._partition_columns: list[str] | None = None
        self._transforms: list[ColumnOrName] = []

    def using(self, provider: str) -> Self:
        """Set the format of a new table."""
        self._provider = provider
        return self._remember("using", provider)

    def option(self, key: str, value: OptionalPrimitiveType) -> Self:
        """Set an option: a table property, for a new table."""
        self._options[key] = _text(value)
        return self._remember("option", key, value)

    def options(self, **options: OptionalPrimitiveType) -> Self:
        """Set several options."""
        self._options |= {key: _text(value) for key, value in options.items()}
        return self._remember("options", **options)

    def tableProperty(self, property: str, value: str) -> Self:
        """Set a property of a new table."""
        self._properties[property] = value
        return self._remember("tableProperty", property, value)

    def partitionedBy(self, col: ColumnOrName, *cols: ColumnOrName) -> Self:
        """Set the partition columns of a new table."""
        self._transforms = [col, *cols]
        return self._remember("partitionedBy", col, *cols)

    def clusterBy(self, col: str, *cols: str) -> Self:
        """Set Spark's clustering columns, which hiveacid tables do not have."""
        return self._remember("clusterBy", col, *cols)

    def _remember(self, method: str, *args: object, **kwargs: object) -> Self:
        self._calls.append((method, args, kwargs))
        return self

    def append(self) -> None:
        """Insert rows by name."""
        self._insert(self._find_target(), "append", InsertOptions(by_name=True))

    def overwritePartitions(self) -> None:
        """Replace the partitions that get rows."""
        options = InsertOptions(by_name=True, overwrite=True)
        self._insert(self._find_target(), "overwritePartitions", options)

    def overwrite(self, condition: ColumnOrName) -> None:
        """Replace the rows that a condition selects, in one transaction."""
        column = F.col(condition) if isinstance(condition, str) else condition
        target = self._find_target()
        if target is None:
            self._write_by_spark("overwrite", condition)
        elif str(column) == str(F.lit(True)) and self._is_boolean(column):  # noqa: FBT003
            self._insert(target, "overwrite", InsertOptions(by_name=True, overwrite=True, whole=True))
        else:
            table, spec = target.require_table(), self._table_spec()
            spec.require_matches("overwrite", table)
            if spec.merge_schema:
                raise UnsupportedFeatureError(
                    "overwrite with a condition adds no columns (mergeSchema): ALTER TABLE ... ADD COLUMNS first"
                )
            with target.statement("overwrite") as execution:
                replace_rows(execution.context, table.name, self._df, column, execution.joined)

    def _is_boolean(self, column: Column) -> bool:
        frame = self._spark.range(0).select(column)
        return isinstance(frame.schema.fields[0].dataType, T.BooleanType)

    def create(self) -> None:
        """Create a table with the rows."""
        target = self._find_target(creates=True)
        if target is None:
            self._write_by_spark("create")
        else:
            target.create("create", self._df, self._table_spec())

    def replace(self) -> None:
        """Replace all rows of an existing table."""
        target = self._find_target(creates=True)
        if target is None:
            self._write_by_spark("replace")
        else:
            target.replace("replace", self._df, self._table_spec())

    def createOrReplace(self) -> None:
        """Create a table with the rows, or replace all rows of an existing one, in one transaction."""
        target = self._find_target(creates=True)
        if target is None:
            self._write_by_spark("createOrReplace")
        elif target.table is None:
            target.create("createOrReplace", self._df, self._table_spec())
        else:
            target.replace("createOrReplace", self._df, self._table_spec())

    def _insert(self, target: Target | None, method: str, options: InsertOptions) -> None:
        if target is None:
            self._write_by_spark(method)
        else:
            spec = self._table_spec()
            spec.require_matches(method, target.require_table())
            target.insert(method, self._df, options, merge_schema=spec.merge_schema)

    def _find_target(self, *, creates: bool = False) -> Target | None:
        """Return the hiveacid table, existing or to be created; None if the table is or will be Spark's."""
        target = self._native.find_target(self._name)
        is_ours = target is not None and (
            target.table is not None or (creates and target.can_create(self._table_spec()))
        )
        return target if is_ours else None

    def _write_by_spark(self, action: str, *args: object) -> None:
        """Repeat all calls on Spark's own writer."""
        self._native.require_readable(self._name)
        writer = DataFrameWriterV2(self._df, self._name)
        for method, positional, named in self._calls:
            getattr(writer, method)(*positional, **named)
        getattr(writer, action)(*args)

    def _table_spec(self) -> TableSpec:
        if any(method == "clusterBy" for method, _, _ in self._calls):
            raise UnsupportedFeatureError(
                "writeTo: clusterBy is not supported: CREATE TABLE ... CLUSTERED BY first"
            )
        columns = (
            [self._partition_column(transform) for transform in self._transforms]
            if self._transforms
            else None
        )
        return TableSpec(self._provider, self._options, self._properties, columns)

    def _partition_column(self, transform: ColumnOrName) -> str:
        if isinstance(transform, str):
            return transform
        for name in self._df.columns:
            if str(transform).lower() in {
                str(F.col(quote_name(name))).lower(),
                str(self._df[quote_name(name)]).lower(),
            }:
                return name
        raise UnsupportedFeatureError(
            f"partitionedBy: {transform} is not a column, and Hive partitions by columns only: add it to the DataFrame as one"
        )


def _names(columns: Sequence[str | Sequence[str]]) -> list[str]:
    """Return the names of columns that were passed one by one or as a list."""
    return [str(name) for item in columns for name in (item if isinstance(item, list | tuple) else (item,))]


def _text(value: OptionalPrimitiveType) -> str:
    """Return an option's value as Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


Values = Mapping[str, "Column"]


class NativeMergeWriter:
    """Clauses of a MERGE as Spark's ``MergeIntoWriter`` collects them; `merge` runs it.

    Expressions name a column of the target with the table's name before it, and a column of the source as its DataFrame does.
    """

    def __init__(self, source: DataFrame, target: Target, condition: Column) -> None:
        """Merge ``source`` into a hiveacid table."""
        table = target.require_table()
        self._target = target
        self._prepared = TableMerger(
            target.connection.context,
            table.name,
            source,
            condition,
            target_name=table.name.name,
            source_name=None,
        )

    def whenMatched(self, condition: Column | None = None) -> _WhenMatched:
        """Begin a clause for rows of both sides."""
        return _WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> _WhenNotMatched:
        """Begin a clause for rows of the source only."""
        return _WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _WhenNotMatchedBySource:
        """Begin a clause for rows of the target only."""
        return _WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> NativeMergeWriter:
        """Let the MERGE add columns that the target lacks."""
        return self.with_clause(lambda merge: replace(merge, merge_schema=True))

    def merge(self) -> None:
        """Run the MERGE."""
        with self._target.statement("mergeInto") as execution:
            replace(self._prepared, context=execution.context, joined=execution.joined).execute()

    def with_clause(self, add: Callable[[TableMerger], TableMerger]) -> NativeMergeWriter:
        """Add a clause."""
        self._prepared = add(self._prepared)
        return self


@dataclass(frozen=True)
class _When:
    writer: NativeMergeWriter
    condition: Column | None


class _WhenMatched(_When):
    def updateAll(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_update(None, self.condition))

    def update(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_update(assignments, self.condition))

    def delete(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_delete(self.condition))


class _WhenNotMatched(_When):
    def insertAll(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_not_matched_insert(None, self.condition))

    def insert(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(
            lambda merge: merge.when_not_matched_insert(assignments, self.condition)
        )


class _WhenNotMatchedBySource(_When):
    def updateAll(self) -> NativeMergeWriter:
        raise UnsupportedFeatureError(
            "mergeInto: whenNotMatchedBySource has no source row to take values from: use update({...})"
        )

    def update(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(
            lambda merge: merge.when_not_matched_by_source_update(assignments, self.condition)
        )

    def delete(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_not_matched_by_source_delete(self.condition))


_VIEW_MEMBERS = (
    "createTempView",
    "createOrReplaceTempView",
    "createGlobalTempView",
    "createOrReplaceGlobalTempView",
)
_MEMBERS = ("write", "writeTo", "mergeInto", *_VIEW_MEMBERS)  # mergeInto: Spark 4.0 and later


def replace_writers(
    frame_class: type[DataFrame], native_session: Callable[[SparkSession], WriterSession | None]
) -> Callable[[], None]:
    """Replace the writers of a DataFrame class; return the function that restores them.

    ``native_session``: returns the native session for a DataFrame's session, None for Spark's own writers. A native session
    that is made later replaces the members again. Its members stay if this session is closed first.
    """
    own = {name: frame_class.__dict__[name] for name in _MEMBERS if name in frame_class.__dict__}

    def write(frame: DataFrame) -> object:
        native = native_session(frame.sparkSession)
        return own["write"].fget(frame) if native is None else NativeWriter(frame, native)

    def write_to(frame: DataFrame, table: str) -> object:
        native = native_session(frame.sparkSession)
        return own["writeTo"](frame, table) if native is None else NativeWriterV2(frame, table, native)

    def merge_into(frame: DataFrame, table: str, condition: Column) -> object:
        native = native_session(frame.sparkSession)
        target = None if native is None else native.find_target(table)
        if target is None or target.table is None:
            return own["mergeInto"](frame, table, condition)
        return NativeMergeWriter(frame, target, condition)

    def view_maker(make: Callable[[DataFrame, str], None]) -> Callable[[DataFrame, str], None]:
        def create_view(frame: DataFrame, name: str) -> None:
            native = native_session(frame.sparkSession)
            with nullcontext() if native is None else native.resolved_by_spark(name):
                make(frame, name)

        return create_view

    members = {"write": property(write), "writeTo": write_to, "mergeInto": merge_into}
    members |= {name: view_maker(own[name]) for name in _VIEW_MEMBERS}
    for name, member in own.items():
        members[name].__doc__ = member.__doc__
        setattr(frame_class, name, members[name])

    def restore() -> None:
        nonlocal native_session
        native_session = lambda _: None  # noqa: E731 - the members of a later session still call these
        for name, member in own.items():
            if frame_class.__dict__[name] is members[name]:
                setattr(frame_class, name, member)

    return restore
