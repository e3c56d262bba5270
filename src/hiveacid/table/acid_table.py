"""`AcidTable`: the public methods of a table, those of a prepared read (`Scan`) and of its inspection (`Inspect`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import DataFrame, Row

from hiveacid.core.format.names import ROW_ID, ROW_IS_DELETED
from hiveacid.core.model import Displayed, TableDefinition, TableName, WriteId
from hiveacid.core.schema.storage_formats import file_kind
from hiveacid.core.schema.types import quote_name, unquoted_name
from hiveacid.core.snapshot.check_findings import Finding
from hiveacid.core.snapshot.classify_entries import ItemState
from hiveacid.core.snapshot.tags import TagName
from hiveacid.core.transactions.commit_records import StreamKey
from hiveacid.errors import ConfigError, HiveAcidError, TransactionStateError, UnsupportedFeatureError
from hiveacid.ports.transactions import current_write_ids_of
from hiveacid.spark.formats.driver_frames import epoch_millis
from hiveacid.spark.formats.expressions import Expression, expand_stars, selected
from hiveacid.spark.session.bound_plans import filter_rows, qualifier_of
from hiveacid.spark.session.classic_session import in_session
from hiveacid.spark.session.environment import SparkEnvironment, is_method_of_frames
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.table.check import check_table
from hiveacid.table.check_files import check_quick, inventory_of_partitions
from hiveacid.table.compaction.request_compaction import CompactionOptions, compact
from hiveacid.table.compaction.run_compaction import CompactionReport
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of, static_values
from hiveacid.table.read import inventory
from hiveacid.table.read.change_feed import ChangeFeed
from hiveacid.table.read.history_and_time_travel import (
    HISTORY,
    SNAPSHOTS,
    HistoryRow,
    Instant,
    PointInTime,
    history_rows,
    point_of_version,
    snapshot_rows,
    utc_datetime,
)
from hiveacid.table.read.table_snapshot import extend_lease, list_snapshot, reading_transaction
from hiveacid.table.read.visible_locations import require_same_table
from hiveacid.table.tags import create_tag, drop_tag
from hiveacid.table.write.foreach_batch_writer import StreamOptions, StreamWriter
from hiveacid.table.write.insert import InsertOptions, insert, restore, with_new_columns
from hiveacid.table.write.merge import TableMerger
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.update_delete import delete, update
from hiveacid.transactions.transaction import Transaction

Spec = Mapping[str, object]


_DETAIL = (
    "format string, name string, description string, location string, createdAt timestamp, lastModified timestamp, "
    "partitionColumns array<string>, clusteringColumns array<string>, numFiles bigint, sizeInBytes bigint, "
    "properties map<string, string>"
)
_PARTITIONS = "partition string, location string, files int, bytes bigint"


@dataclass(frozen=True, repr=False)
class Scan(Displayed):
    """A prepared read; `to_df` takes the snapshot.

    ``hint``: a condition that the caller applies to the frame itself, used here only to read less. It refers to the
    table as ``hint_alias``, and means what it means in ``hint_session`` (default: the connection's). ``count_only``:
    the caller counts the rows and needs no values. ``subqueries``: conditions on the frame may have correlated
    subqueries (`spark.read.acid_rows`). ``deleted_rows``: return deleted rows, too, and the column
    ``ROW__IS__DELETED``.
    """

    context: Context
    name: TableName
    joined: Transaction | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None
    row_ids: bool = False
    as_of: PointInTime | None = None
    hint: str | None = None
    hint_alias: str | None = None
    hint_session: SparkEnvironment | None = None
    count_only: bool = False
    subqueries: bool = False
    deleted_rows: bool = False

    def to_df(self, shared: Transaction | None = None) -> DataFrame:
        """Return the rows of the current snapshot (of the transaction's, inside one).

        The DataFrame keeps its files from the cleaner as long as it can run. ``shared`` as in `reading_transaction`.
        """
        context = self.context.with_own_sql()
        where, alias = (self.where, None) if self.where else (self.hint, self.hint_alias)
        with reading_transaction(context, self.joined, shared) as reader:
            verb = "reading deleted rows"
            table = (
                context.require_full_acid(self.name, verb)
                if self.deleted_rows
                else context.require(self.name)
            )
            with translate_errors():
                txn = self.joined or reader
                session = None if self.where else self.hint_session
                snapshot = list_snapshot(
                    context, table, txn, where=where, alias=alias, session=session, as_of=self.as_of
                )
                if self.deleted_rows:
                    frame = snapshot.scan_with_deleted()
                else:
                    frame = snapshot.scan(count_only=self.count_only, subqueries=self.subqueries)
                extend_lease(context, reader, frame)
                own = {qualifier_of(self.name.name): table.column_names}
                chosen = expand_stars(self.where, own) if self.where else None
                rows = filter_rows(context.env, frame, chosen, self.name.name)
                return selected(rows, self._columns(table))

    def _columns(self, table: TableDefinition) -> list[str]:
        names = table.column_names
        columns = names if self.columns is None else self.columns
        hidden = [ROW_ID] if self.row_ids else []
        state = [ROW_IS_DELETED] if self.deleted_rows and ROW_IS_DELETED not in columns else []
        return [quote_name(name) if name.lower() in names else name for name in (*hidden, *columns, *state)]


@dataclass(frozen=True, repr=False)
class AcidTable(Displayed):
    """A table of a connection (or, inside ``acid.transaction()``, of a transaction).

    Every operation runs in a transaction of its own, unless the table belongs to a transaction.
    """

    context: Context
    name: TableName
    joined: Transaction | None = None
    snapshot_at: PointInTime | None = None

    @property
    def definition(self) -> TableDefinition:
        """Return the table's present definition. Raises NoSuchTableError."""
        return self.context.require(self.name)

    def described(self) -> Mapping[str, object]:
        """Return the facts for notebooks, with the columns; without them, if the table cannot be found."""
        try:
            table = self.definition
        except HiveAcidError:
            return self.shown()
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        partitions = ", ".join(f"{column.name} {column.type}" for column in table.partition_columns)
        kind = table.kind.name.lower().replace("_", " ")
        facts = {"kind": kind, "columns": columns, "partitioned by": partitions, "location": table.location}
        return {**self.shown(), **{name: value for name, value in facts.items() if value}}

    if not TYPE_CHECKING:  # a checker reports unknown names itself

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError; one that says how for a method of DataFrames."""
            advice = f": use t.to_df().{name}" if is_method_of_frames(name) else ""
            raise AttributeError(f"a table has no {name}{advice}", name=name, obj=self)

    # reading

    def to_df(self) -> DataFrame:
        """Return all rows of the current snapshot."""
        return self.scan().to_df()

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        row_ids: bool = False,
        deleted_rows: bool = False,
    ) -> Scan:
        """Prepare a read of some rows and columns; the filter also skips partitions and ORC row groups.

        ``where``: a SQL condition. ``columns``: default all. ``row_ids``: add the column ``ROW__ID``. ``deleted_rows``: read the
        deleted rows that files still hold, too, and add the column ``ROW__IS__DELETED``; only tables with DELETE have it.
        """
        if where is not None and not isinstance(where, str):
            raise ConfigError(
                f"scan(where=...) takes a text of SQL, not {where!r}: filter the DataFrame by a Column"
            )
        column_names = None if columns is None else _names(columns)
        return Scan(
            self.context,
            self.name,
            self.joined,
            where,
            column_names,
            row_ids,
            self.snapshot_at,
            deleted_rows=deleted_rows,
        )

    def count(self, where: str | None = None) -> int:
        """Return the number of rows: ``t.count("qty > 1")``. ``where``: a SQL condition.

        Without a condition it reads no column, and only footers where these give the count.
        """
        with translate_errors():
            needs_no_values = where is None and self.snapshot_at is None
            return replace(self.scan(where), count_only=needs_no_values).to_df().count()

    def head(self, n: int = 5) -> list[Row]:
        """Return the first rows that Spark finds, ``n`` at most; their order is arbitrary."""
        with translate_errors():
            return self.to_df().take(n)

    def show(self, n: int = 20, *, truncate: bool = True) -> None:
        """Print the first rows that Spark finds, ``n`` at most. ``truncate``: cut values at 20 characters."""
        with translate_errors():
            self.to_df().show(n, truncate)

    def as_of(
        self, write_id: int | None = None, *, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> AcidTable:
        """Return the table as it was after ``write_id``, at ``timestamp`` or at ``tag``, with its present columns.

        ``timestamp``: all commits whose commit time, by the store's clock, is not later. It is a datetime, or a text
        that Spark casts to TIMESTAMP; a text without a zone is in the session's time zone.

        Raises ConfigError for several arguments, for none, and for a value that is not a timestamp. Reading raises
        NotEnoughHistoryError, with the earliest point, if the cleaner has removed that state or the table did not
        exist. It raises UnsupportedFeatureError for a timestamp with a Hive Metastore, which keeps no commit times.
        """
        if sum(point is not None for point in (write_id, timestamp, tag)) != 1:
            raise ConfigError("as_of takes a write_id, a timestamp or a tag")
        if tag is not None:
            return replace(self, snapshot_at=point_of_version(tag))
        if timestamp is not None:
            return replace(self, snapshot_at=Instant(epoch_millis(self.context.env, timestamp)))
        if isinstance(write_id, bool) or not isinstance(write_id, int):
            raise ConfigError(
                f"as_of: {write_id!r} is not a write id (a whole number); give a time as timestamp="
            )
        return replace(self, snapshot_at=WriteId(write_id))

    def valid_write_ids(self) -> str:
        """Return the present point in time of the table: its valid write-id list, as Hive writes it.

        Write ids do not commit in ascending order, so only such a list is an exact point for `changes`.
        """
        if self.joined is not None and not self.context.read_leases.is_leased(self.joined):
            raise TransactionStateError(
                "valid_write_ids(): the transaction has not committed: ask outside it"
            )
        if self.joined is not None:
            write_ids = self.joined.valid_write_ids(self.name).to_string()
            require_same_table(self.context, self.context.require(self.name), self.joined)
            return write_ids
        store, name = self.context.store, self.context.require(self.name).name
        return current_write_ids_of(store, name).to_string()

    def changes(
        self,
        after: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
        *,
        key: Sequence[str] = (),
        net: bool = False,
        row_ids: bool = False,
    ) -> ChangeFeed:
        """Read the changes that were committed after one point in time and up to another (default: the present).

        A point is one of these:

        - a string of :meth:`valid_write_ids`
        - a write id, for itself and all smaller ones that are committed by now
        - a time as in :meth:`as_of`, for all commits up to it

        ``key``: columns that identify a row; an update is then a pair of update_before and update_after instead of a
        delete and an insert. ``net``: leave out rows that were inserted and deleted between the two points.
        """
        end = self.snapshot_at if until is None else until
        if isinstance(end, TagName):
            raise ConfigError("changes() of a tag: give its write ids, or a time, as until=")
        return ChangeFeed(self.context, self.name, self.joined, after, end, _names(key), net, row_ids)

    @property
    def inspect(self) -> Inspect:
        """Look at files, deltas and partitions as DataFrames."""
        return Inspect(self.context, self.name, self.joined)

    # writing

    def insert(
        self, frame: DataFrame, partition: Spec | None = None, *, merge_schema: bool = False
    ) -> WriteReport:
        """Insert rows; columns are matched by name. ``partition``: values of static partition columns.

        ``merge_schema``: add the columns of ``frame`` that the table lacks, and use the default, or NULL, for those
        that ``frame`` lacks.
        """
        self._require_writable("insert()")
        _require_frame("insert()", frame)
        return self._insert(
            frame, InsertOptions(partition=partition, by_name=True), merge_schema=merge_schema
        )

    def overwrite(
        self, frame: DataFrame, partition: Spec | None = None, *, merge_schema: bool = False
    ) -> WriteReport:
        """Replace the rows of the table, of one partition, or of all partitions that the new rows belong to.

        ``merge_schema`` as in `insert`.
        """
        self._require_writable("overwrite()")
        _require_frame("overwrite()", frame)
        options = InsertOptions(partition=partition, by_name=True, overwrite=True)
        return self._insert(frame, options, merge_schema=merge_schema)

    def _insert(self, frame: DataFrame, options: InsertOptions, *, merge_schema: bool) -> WriteReport:
        context = self.context.with_own_sql()
        if merge_schema:
            options = with_new_columns(context, self.name, frame, options, self.joined)
        return insert(context, self.name, frame, options, self.joined)

    def update(self, values: Mapping[str, Expression], where: Expression | None = None) -> WriteReport:
        """Set columns to expressions in the rows that ``where`` selects."""
        self._require_writable("update()")
        return update(self.context.with_own_sql(), self.name, values, where, self.joined)

    def delete(self, where: Expression | None = None) -> WriteReport:
        """Delete the rows that ``where`` selects; all rows without one."""
        self._require_writable("delete()")
        return delete(self.context.with_own_sql(), self.name, where, self.joined)

    def restore(
        self, write_id: int | None = None, *, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> WriteReport:
        """Make the rows those of a point in the past, in one commit; arguments and errors as those of :meth:`as_of`.

        Columns stay those of the present definition. Raises NotTransactionalError, WriteConflictError.
        """
        self._require_writable("restore()")
        past = self.as_of(write_id, timestamp=timestamp, tag=tag).snapshot_at
        assert past is not None  # noqa: S101 - as_of refuses it
        return restore(self.context.with_own_sql(), self.name, past, self.joined)

    def create_tag(
        self,
        name: str,
        write_id: int | None = None,
        *,
        timestamp: datetime | str | None = None,
        retain: float | None = None,
        or_replace: bool = False,
    ) -> None:
        """Name a state of the table, by default the present one, for ``as_of(tag=)`` (docs/history.md).

        ``retain``: seconds for which the cleaner keeps its files; None: until `drop_tag`. Raises as
        `hiveacid.table.tags.create_tag`.
        """
        self._require_writable("create_tag()")
        past = None
        if (write_id, timestamp) != (None, None):
            past = self.as_of(write_id, timestamp=timestamp).snapshot_at
        create_tag(self.context, self.name, name, past, retain=retain, or_replace=or_replace)

    def drop_tag(self, name: str) -> None:
        """Remove a tag. Raises NotEnoughHistoryError if there is none."""
        self._require_writable("drop_tag()")
        drop_tag(self.context, self.name, name)

    def merge(
        self,
        source: DataFrame,
        on: Expression,
        *,
        target_alias: str = "t",
        source_alias: str = "s",
        merge_schema: bool = False,
    ) -> TableMerger:
        """Start a MERGE of ``source`` (alias s) into this table (alias t).

        ``merge_schema``: add columns that the table lacks: those of the source that clauses set, all if a clause has no values.
        """
        self._require_writable("merge()")
        _require_frame("merge()", source)
        context = self.context.with_own_sql()
        source = in_session(context.env, source)
        merge = TableMerger(context, self.name, source, on, self.joined, target_alias, source_alias)
        return replace(merge, merge_schema=merge_schema)

    def stream_writer(
        self,
        query: str,
        *,
        merge_on: str | Sequence[str] = (),
        change_type: str | None = None,
        sequence_by: str | None = None,
        merge_schema: bool = False,
        restart: bool = False,
        checkpoint: str | None = None,
    ) -> StreamWriter:
        """Return a function for ``foreachBatch`` that writes each batch of a streaming query exactly once.

        ``query``: name of the query, unique in this table. Its progress is committed with its rows. If two copies of
        the query run, the older one is stopped (StreamFencedError).

        ``merge_on``: the columns of a key; rows are inserted or updated by it. Without it rows are appended.
        ``change_type``: column that marks a row as a deletion. ``sequence_by``: column that orders the changes of a key.
        ``merge_schema``: add new columns of the feed to the table, and use NULL for columns that the feed lacks; both
        are errors otherwise. ``restart``: accept another checkpoint, whose batch ids begin again. ``checkpoint``: id of
        the checkpoint, needed only outside a streaming query.

        Raises ConfigError, NoSuchColumnError, UnsupportedFeatureError, NotTransactionalError, InsertOnlyError,
        TransactionStateError.
        """
        self._require_writable("stream_writer()")
        if self.joined is not None:
            raise TransactionStateError("stream_writer() inside a transaction: every batch is one of its own")
        key_columns = (merge_on,) if isinstance(merge_on, str) else merge_on
        columns = tuple(unquoted_name(name).lower() for name in key_columns)
        options = StreamOptions(columns, change_type, sequence_by, merge_schema, restart, checkpoint)
        return StreamWriter(self.context, StreamKey(self.name, query), options)

    def _require_writable(self, verb: str) -> None:
        """Refuse to write inside ``acid.snapshot()`` and through a table of the past (``as_of``)."""
        if self.snapshot_at is not None:
            raise TransactionStateError(f"{verb}: as_of() only reads")
        if self.joined is not None and self.context.read_leases.is_leased(self.joined):
            raise TransactionStateError(f"{verb} is not possible inside acid.snapshot(): it only reads")

    # maintenance

    def compact(
        self,
        kind: str = "major",
        partition: Spec | None = None,
        *,
        wait: bool = True,
        pool: str | None = None,
        buckets: int | None = None,
        order_by: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[CompactionReport]:
        """Compact the table, or one partition (or those of a partial spec), and clean up.

        ``kind``: minor, major or rebalance. A rebalance makes ``buckets`` files with equal numbers of rows, sorted by
        ``order_by`` if given (``"a DESC NULLS LAST, b"``: columns only). It gives rows new row ids.
        ``properties``: settings for this job, named ``compactor.NAME``.

        If `hiveacid services` has a worker for the pool, that worker takes the job, and ``wait`` waits for its end.
        Otherwise the job runs in this process. Raises CompactionRefusedError if there is nothing to compact.
        """
        options = CompactionOptions(pool, buckets, order_by, tuple((properties or {}).items()))
        return compact(self.context, self.name, kind, partition, options, wait=wait)


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns as a tuple; a single name may be given as a string."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _require_frame(argument: str, frame: object) -> None:
    """Raise ConfigError for rows that are not a Spark DataFrame, such as lists or pandas."""
    if not hasattr(frame, "createOrReplaceTempView"):
        raise ConfigError(
            f"{argument} takes a DataFrame of Spark, not {type(frame).__name__}: spark.createDataFrame(...)"
        )


@dataclass(frozen=True, repr=False)
class Inspect(Displayed):
    """Views of a table's directories, history and findings, at the current snapshot."""

    context: Context
    name: TableName
    joined: Transaction | None = None

    def files(self) -> DataFrame:
        """Return every file with its state (used, obsolete, aborted, open, foreign …) and the reason."""
        return self._frame(inventory.file_rows(self._inventory()), inventory.FILES)

    def deltas(self) -> DataFrame:
        """Return every directory with its state (used, obsolete, aborted, open, staging, foreign …) and the reason.

        ``files`` and ``bytes`` count everything below the directory.
        """
        return self._frame(inventory.delta_rows(self._inventory()), inventory.DELTAS)

    def partitions(self) -> DataFrame:
        """Return the partitions with number and size of the files that the snapshot reads."""
        rows: list[inventory.Row] = []
        for location in self._inventory().locations:
            sizes = [file.bytes for file in location.files if file.state is ItemState.USED]
            rows.append((location.name, location.root, len(sizes), sum(sizes)))
        return self._frame(rows, _PARTITIONS)

    def detail(self) -> DataFrame:
        """Return one row on the table, with columns as DESCRIBE DETAIL of Delta Lake has them (docs/operate.md).

        ``lastModified`` is NULL on a Hive Metastore, which does not keep the time of commits.
        """
        table = self.context.require(self.name)
        sizes = [
            file.bytes
            for location in self._inventory().locations
            for file in location.files
            if file.state is ItemState.USED
        ]
        kind, bucketing = file_kind(table.storage), table.bucketing
        try:
            modified = max((c.committed for c in self.context.store.commits(table.name)), default=None)
        except UnsupportedFeatureError:
            modified = None
        row = (
            None if kind is None else kind.value,
            str(table.name),
            table.comment,
            table.location,
            utc_datetime(table.created_at * 1000),
            None if modified is None else utc_datetime(modified),
            table.partition_column_names,
            [] if bucketing is None else list(bucketing.columns),
            len(sizes),
            sum(sizes),
            dict(table.properties),
        )
        return self.context.env.spark.createDataFrame([row], _DETAIL)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the commits of the table, newest first: user, time, statement, write id, rows (docs/history.md).

        ``limit``: only this number of newest rows.

        Compactions are included, without a write id. Facts that were not recorded are NULL; a Hive Metastore records
        few of them. The result reflects the present state of the store.
        """
        table = self.context.require(self.name)
        rows = history_rows(self.context, table, partitions_of(self.context, table))
        return self._frame(rows[:limit], HISTORY)

    def snapshots(self) -> DataFrame:
        """Return the points in time for `AcidTable.as_of`, newest first, each with whether it can still be read.

        Raises UnsupportedFeatureError on a Hive Metastore, which does not keep the time of commits.
        """
        return self._frame(snapshot_rows(self.context, self.context.require(self.name)), SNAPSHOTS)

    def check(
        self, partition: Mapping[str, object] | None = None, *, quick: bool = False
    ) -> tuple[Finding, ...]:
        """Check the table's invariants; return the findings, worst first (docs/check.md).

        ``partition``: check only one partition (or those of a partial spec). ``quick``: check only names, side files
        and footers, not rows. The check uses the present state of the store. Raises NoSuchPartitionError.
        """
        context = self.context
        table = context.require(self.name)
        partitions, values = partitions_of(context, table), static_values(context, table, partition)
        if quick:
            return check_quick(context, table, partitions, values)
        with context.read_leases.acquire(context.settings) as reader:
            return check_table(context, inventory_of_partitions(context, table, partitions, values), reader)

    def _frame(self, rows: Iterable[inventory.Row | HistoryRow], schema: str) -> DataFrame:
        return self.context.env.spark.createDataFrame(list(rows), schema)

    def _inventory(self) -> inventory.TableInventory:
        context, txn = self.context, self.joined
        table = context.require(self.name)
        snapshot = inventory.current_snapshot(context, table)
        if txn is not None:
            snapshot = replace(snapshot, txns=txn.snapshot(), write_ids=txn.valid_write_ids(table.name))
        return inventory.inventory_of(context, table, partitions_of(context, table, txn), snapshot)


__all__ = ["AcidTable", "ChangeFeed", "Inspect", "Scan"]
