"""Read the rows that the snapshot of a transaction sees in a table, as a DataFrame.

`list_snapshot` lists the files, and `scan_locations` plans a scan of their live rows. Meanwhile the JVM makes Spark's index
of the files (`index_made_ahead`). The delete events become a bitmap where they fit into memory (`load_delete_bitmap`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.config import setting_definitions
from hiveacid.core.format.names import ROW_IS_DELETED
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import CatalogError, StatementError, UnsupportedFeatureError, acid_v1
from hiveacid.orc.build_delete_bitmap import NO_DELETE_KEYS, build_delete_bitmap, read_delete_keys
from hiveacid.spark.predicates.column_conditions import prune_partitions, table_conjuncts, with_char_metadata
from hiveacid.spark.predicates.search_argument import SearchArgument, search_argument
from hiveacid.spark.read.acid_rows import is_indexed, make_index
from hiveacid.spark.read.delete_events import BitmapLookup
from hiveacid.spark.read.delete_joins import rows_with_deleted
from hiveacid.spark.read.scan_frames import scan
from hiveacid.spark.read.scan_source import FileGroup, ReadOptions, ScanSource, partition_key
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import active_session
from hiveacid.spark.session.running_jobs_and_plans import RelationWatch
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location, PlanMemo
from hiveacid.table.context import Context
from hiveacid.table.partitions import partitions_of, require_changeable
from hiveacid.table.read.footers import Footers, files_to_skip, footers_are_known, read_footers
from hiveacid.table.read.history_and_time_travel import PointInTime
from hiveacid.table.read.visible_locations import list_as_of, warn_of_foreign_files, write_ids_of
from hiveacid.transactions.transaction import Transaction

_OBJECTS = 100_000
"""Threshold of the garbage collector's youngest generation during a plan, in objects. The older generations practically do not run meanwhile."""

MIN_FILES = 1000
"""Files from which a thread that makes their index is worthwhile."""

_THREADS = 16
_MAX_PARTITIONS = 1000
"""Partitions whose delete files the driver reads; of more partitions Spark reads them."""


@dataclass
class _Thresholds:
    """Number of those who asked for rare runs, and the process's own thresholds, to be put back after the last one."""

    users: int = 0
    own: tuple[int, int, int] = (0, 0, 0)
    lock: threading.Lock = field(default_factory=threading.Lock)


_THRESHOLDS = _Thresholds()  # like the collector itself, one of the process


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python's cyclic garbage collector run rarely while a plan makes very many objects that stay.

    It runs whenever 700 objects were added, and every older generation follows. For a table of 100,000 files it went through
    the same listings again and again, which took half of the CPU time of the listing. A program that has turned it off, or
    set higher thresholds, keeps its settings.
    """
    with _THRESHOLDS.lock:
        _THRESHOLDS.users += 1
        if _THRESHOLDS.users == 1:
            _THRESHOLDS.own = gc.get_threshold()
            if 0 < _THRESHOLDS.own[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, _OBJECTS, _OBJECTS)
    try:
        yield
    finally:
        with _THRESHOLDS.lock:
            _THRESHOLDS.users -= 1
            # unless the program has set others meanwhile
            if not _THRESHOLDS.users and gc.get_threshold()[0] == _OBJECTS:
                gc.set_threshold(*_THRESHOLDS.own)


@contextmanager
def reading_transaction(
    context: Context, joined: Transaction | None, shared: Transaction | None = None
) -> Iterator[Transaction]:
    """Yield a transaction that keeps the files of a plan from the cleaner: the caller's, or one with a read lease.

    ``shared``: a read transaction taken by the caller, so that several tables are read at one point.
    """
    if shared is None and joined is not None:
        shared = joined.lease or joined  # a statement's own transaction outlives its plans
    if shared is not None:
        yield shared
        return
    with context.read_leases.acquire(context.settings) as reader:
        yield reader


def extend_lease(context: Context, reader: Transaction, frame: DataFrame) -> None:
    """Let a read lease last as long as the plan of a DataFrame can run."""
    if context.read_leases.is_leased(reader):
        context.read_leases.add_holder(reader, RelationWatch(context.env, frame).alive)


@dataclass(frozen=True)
class TableSnapshot:
    """Locations of a table, listed for one snapshot, and the search argument that skips rows of their files."""

    context: Context
    table: TableDefinition
    txn: Transaction
    locations: tuple[Location, ...]
    write_ids: ValidWriteIdList
    argument: SearchArgument | None

    @property
    def size(self) -> int:
        """Return the size in bytes of all files with rows."""
        return sum(map(_size, self.locations))

    @property
    def largest_location(self) -> int:
        """Return the size in bytes of the files with rows of the largest partition, or of the table if it has none."""
        return max(map(_size, self.locations), default=0)

    def scan(
        self, *, changing: bool = False, count_only: bool = False, subqueries: bool = False
    ) -> DataFrame:
        """Return the rows, with ``ROW__ID`` and ``INPUT__FILE__NAME`` as last columns.

        ``changing``: the caller changes some of the rows; raises UnsupportedFeatureError if files hold update events of
        ACID v1, or if rows do not tell their partition (`require_changeable`).
        ``count_only`` as in `spark.read.scan_frames.scan`, ``subqueries`` as in `ScanSource`.
        """
        if changing:
            require_changeable(self.context, self.table, (each.partition for each in self.locations))
        frame = scan_locations(
            self.context,
            self.table,
            self.locations,
            self.write_ids,
            self.txn,
            argument=self.argument,
            changing=changing,
            count_only=count_only,
            subqueries=subqueries,
        )
        return with_char_metadata(self.table, frame)

    def scan_with_deleted(self) -> DataFrame:
        """Return the rows and the deleted ones that files hold (``spark.read.delete_joins``).

        Raises UnsupportedFeatureError if files hold update events of ACID v1, or if a column has the name of the deletion state.
        """
        if ROW_IS_DELETED.lower() in self.table.column_names:
            raise UnsupportedFeatureError(
                f"{self.table.name} has a column {ROW_IS_DELETED}, which hides the deletion state: rename it"
            )
        self.context.env.prepare_scan()
        footers = read_footers(self.context, self.table, self.locations, self.txn)
        if footers.has_acid_v1_events:
            raise acid_v1(self.table.name)
        source = ScanSource(
            self.context.env, self.context.fs, self.table, self.write_ids, footers.plans, memo=footers.memo
        )
        return with_char_metadata(self.table, rows_with_deleted(source, self.locations, footers.bounds))


def _size(location: Location) -> int:
    state = location.state
    files = [*state.originals, *(file for directory in state.row_directories for file in directory.files)]
    return sum(file.size for file in files)


@rare_collections()
def list_snapshot(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    *,
    where: str | None = None,
    alias: str | None = None,
    session: SparkEnvironment | None = None,
    as_of: PointInTime | None = None,
) -> TableSnapshot:
    """List the partitions of a table and select the directories that ``txn`` sees.

    ``where``: a condition, used only to skip partitions and row groups; the caller still filters the rows by it.
    ``alias``: the table's name in ``where``. ``session``: the session that analyses ``where`` (default: the
    connection's). ``as_of``: a point in the past to read, instead of the present.
    """
    write_ids = write_ids_of(context, table, txn, as_of)
    partitions, argument = partitions_of(context, table, txn), None
    if where is not None:
        # An invalid condition raises its error, with the position, when the rows are filtered by it.
        env = session or context.env
        with suppress(CatalogError, StatementError), active_session(env) if session else nullcontext():
            conditions = table_conjuncts(env, table, where, alias=alias)
            if partitions is not None:
                partitions = prune_partitions(env, table, partitions, conditions, alias=alias)
            argument = search_argument(context.env, table, conditions)
    locations = list_as_of(context, table, partitions, write_ids, txn, as_of)
    warn_of_foreign_files(table, locations, txn)
    return TableSnapshot(context, table, txn, locations, write_ids, argument)


@rare_collections()
def scan_locations(
    context: Context,
    table: TableDefinition,
    locations: Sequence[Location],
    write_ids: ValidWriteIdList,
    txn: Transaction,
    *,
    argument: SearchArgument | None = None,
    current: bool = False,
    changing: bool = False,
    count_only: bool = False,
    subqueries: bool = False,
) -> DataFrame:
    """Return the live rows of listed locations (``spark.read.scan_frames``); ``changing`` as in `TableSnapshot.scan`."""
    context.env.prepare_scan()
    with index_made_ahead(context, table, locations, wanted=not count_only) as index_ahead:
        footers = read_footers(context, table, locations, txn)
        if changing and footers.has_acid_v1_events:
            raise acid_v1(table.name)
        delete_bitmap = partial(load_delete_bitmap, context, table, write_ids, footers)
        source = ScanSource(
            context.env,
            context.fs,
            table,
            write_ids,
            footers.plans,
            delete_bitmap=delete_bitmap,
            memo=footers.memo,
            index_ahead=index_ahead,
            subqueries=subqueries,
        )
        if argument is not None:
            source = replace(source, arguments=argument.reader_options)
            skipped = files_to_skip(context, table, locations, footers, argument.predicate)
            if skipped:
                plans = {
                    partition: plan._replace(
                        rows=tuple(file for file in plan.rows if file.path not in skipped)
                    )
                    for partition, plan in footers.plans.items()
                }
                source = replace(source, plans=plans, memo=PlanMemo())
        return scan(source, locations, footers.bounds, current=current, count_only=count_only)


@contextmanager
def index_made_ahead(
    context: Context, table: TableDefinition, locations: Sequence[Location], *, wanted: bool
) -> Iterator[Callable[[FileGroup], JavaObject | None]]:
    """Begin to make Spark's index of a first plan; yield a function that returns it if a group has its files, else None.

    Only the footers tell which files a scan reads together. So the index is a guess, which a scan takes only if it holds
    exactly the scan's files. ``wanted``: files will be scanned.
    """
    group = None
    if wanted and table.kind is TableKind.FULL_ACID and not footers_are_known(context, table, locations):
        group = _expected_group(locations)
    if group is None or len(group.files) < MIN_FILES or not is_indexed(group):
        yield lambda _: None
        return
    with ThreadPoolExecutor(1, thread_name_prefix="hiveacid-file-index") as pool:
        made = pool.submit(make_index, context.env, group)
        yield lambda asked: made.result() if asked.files == group.files else None


def _expected_group(locations: Sequence[Location]) -> FileGroup:
    """Return the files that no delete event can match, in the order of a scan, as if each had rows and the same columns."""
    files, sizes = [], []
    for location in locations:
        root = spark_path(location.root)
        for directory in () if location.state.delete_deltas else location.state.row_directories:
            for file in directory.acid_files if directory.validity is RangeShare.ALL else ():
                if file.size and file.flush_length_path is None:
                    files.append(f"{root}/{file.path}")
                    sizes.append((file.size, file.modified))
    return FileGroup(tuple(files), 0, ReadOptions(), (), (), None, sizes=tuple(sizes))


def load_delete_bitmap(
    context: Context,
    table: TableDefinition,
    write_ids: ValidWriteIdList,
    footers: Footers,
    locations: Sequence[Location],
) -> BitmapLookup | None:
    """Return the bitmap of the deleted rows in locations; None if a join has to find them.

    A join is needed for too many events, partitions or write ids, without statistics, and for files that
    pyarrow cannot read. Raises FormatError if statistics are wrong.
    """
    bounds = footers.bounds
    if bounds is None or not bounds.boxes or len(locations) > _MAX_PARTITIONS:
        return None
    if bounds.events > context.settings.get(setting_definitions.EVENTS_IN_MEMORY):
        return None
    places = {
        partition_key(table, location): footers.plans[location.partition].events for location in locations
    }
    if len(places) < len(locations):
        return None
    cache = context.delete_cache
    key = tuple((root, tuple(_key(file, write_ids) for file in files)) for root, files in places.items())
    now = context.clock.now()
    cacheable = all(file.listed.is_identified(now) for files in places.values() for file in files)
    if cacheable and (cached := cache.bits.get(key)):
        return cached[0]
    try:
        tables = _read(context, write_ids, list(places.values()))
    except (pa.ArrowException, OSError):
        return None  # if a file is damaged, the join raises the error
    rows = build_delete_bitmap(tables, bounds.boxes)
    lookup = None if rows is None else BitmapLookup.of(context.env, rows)
    if cacheable:
        size = 1 if rows is None else rows.size_in_memory
        cache.bits.put(key, lookup, size)
    return lookup


def _key(file: ScanFile, write_ids: ValidWriteIdList) -> Hashable:
    checked = write_ids.to_string() if file.partly_valid else None
    return file.path, file.length, file.listed.modified, checked


def _read(
    context: Context, write_ids: ValidWriteIdList, places: Sequence[Sequence[ScanFile]]
) -> list[pa.Table]:
    """Return the delete keys of each location as one table; several files are read at a time."""
    cache = context.delete_cache.files

    def read(file: ScanFile) -> pa.Table:
        key, cacheable = _key(file, write_ids), file.listed.is_identified(context.clock.now())
        if cacheable and (cached := cache.get(key)):
            return cached[0]
        data = context.fs.read_bytes(file.path, 0, file.length)
        delete_keys = read_delete_keys(data, write_ids if file.partly_valid else None)
        if cacheable:
            cache.put(key, delete_keys, delete_keys.num_rows)
        return delete_keys

    files = [file for group in places for file in group]
    if len(files) == 1:
        tables = iter([read(files[0])])
    else:
        with ThreadPoolExecutor(min(_THREADS, len(files) or 1)) as pool:
            tables = iter(list(pool.map(read, files)))
    return [pa.concat_tables([NO_DELETE_KEYS, *islice(tables, len(group))]) for group in places]
