"""Registry of settings: a constant for each, with the names and defaults of HiveConf and MetastoreConf of Hive 4.2; the settings of a session."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import overload

from hiveacid.config.setting_types import (
    AnySetting,
    Section,
    Setting,
    T,
    Value,
    choice,
    count,
    divide_into_sections,
    duration,
    flag,
    parse_float,
    parse_int,
    parse_lineage_target,
    size,
    text,
)
from hiveacid.core.compaction.initiation_and_retry_policy import parse_quiet_hours
from hiveacid.errors import ConfigError, did_you_mean


def _parse_row_index_stride(value: str) -> int:
    stride = parse_int(value)
    if stride != 0 and stride < _SMALLEST_STRIDE:
        raise ConfigError(f"must be 0 or at least {_SMALLEST_STRIDE}, got {stride}")
    return stride


_SMALLEST_STRIDE = 1000  # ORC's writer refuses less

# --- transactions and locks ---------------------------------------------------------------------
TXN_TIMEOUT = duration(
    "hive.txn.timeout",
    "300s",
    # the shares are in ``transactions.heartbeats``
    "A transaction without a heartbeat for this long is aborted. Heartbeats are sent at half of it, at least every 150 s, and on "
    "a Hive Metastore at a third of the metastore's.",
    positive=True,
)
MAX_OPEN_TXNS = count(
    "hive.max.open.txns", "100000", "Highest number of open transactions in the store.", minimum=1
)
TXN_MAX_OPEN_BATCH = count(
    "hive.txn.max.open.batch", "1000", "Highest number of transactions that one call may open.", minimum=1
)
LOCK_NUMRETRIES = count(
    "hive.lock.numretries",
    "100",
    "How often a waiting lock is checked before the statement fails (LockTimeoutError, 10307). This bounds the wait: "
    "100 checks take 23 minutes, 10 take 41 seconds, because pauses double from 50 ms to 15 s.",
    minimum=0,
)
LOCK_SLEEP = duration(
    "hive.lock.sleep.between.retries",
    "60s",
    "The longest wait between two checks of a lock; waits start at 50 ms and double. "
    "It is never above 15 s, so that the default acts as 15 s; Hive waits up to the value, and never below 15 s.",
)
XLOCK_WRITE = flag(
    "hive.txn.xlock.write",
    "false",
    "true: UPDATE, DELETE and MERGE exclude each other, and inserts, by locks (EXCL_WRITE). "
    "false: they run side by side and the first to commit wins.",
    "Hive 4.0 had true; 4.1 and later false",
)
XLOCK_OVERWRITE = flag(
    "hive.txn.xlock.iow",
    "true",
    "INSERT OVERWRITE and TRUNCATE lock EXCLUSIVE, if hive.txn.xlock.write is true as well; otherwise EXCL_WRITE. "
    "With a Hive Metastore they always lock EXCLUSIVE.",
)
XLOCK_MERGE_INSERT = flag(
    "hive.txn.xlock.mergeinsert",
    "false",
    "A MERGE that may insert locks EXCL_WRITE, so that two of them cannot insert the same new key.",
)
XLOCK_CTAS = flag(
    "hive.txn.xlock.ctas", "true", "CREATE TABLE AS SELECT locks its new table EXCLUSIVE (zero wait)."
)
RETRY_SNAPSHOT = count(
    "hive.txn.retrysnapshot.max.count",
    "5",
    "How often a statement starts again with a new snapshot, because the first one was outdated when the locks were "
    "granted, or because another writer committed first.",
    minimum=0,
)
DML_EVENTS = choice(
    "hive.metastore.dml.events",
    ("metastore", "true", "false"),
    "With a Hive Metastore: tell its listeners before the commit which files a statement wrote. Replication and Impala "
    "need it. The value metastore takes the metastore's own setting of this name.",
    "false; Hive asks its own hive-site.xml",
)

# --- statements ---------------------------------------------------------------------------------
DROP_IGNORES_NONEXISTENT = flag(
    "hive.exec.drop.ignorenonexistent",
    "true",
    "DROP TABLE, DROP VIEW and DROP PARTITION of what does not exist are no errors, as with IF EXISTS. In native sessions "
    "Spark carries out DROP TABLE and DROP VIEW of a missing one, and raises its error.",
)
MSCK_PATH_VALIDATION = choice(
    "hive.msck.path.validation",
    ("throw", "skip", "ignore"),
    "What MSCK REPAIR TABLE does at a directory that it cannot take: throw raises an error, skip reports it and goes on. "
    "ignore also takes values whose characters Hive would write as %XX; directories that are no partition's are left.",
)
MERGE_CARDINALITY_CHECK = flag(
    "hive.merge.cardinality.check", "true", "MERGE fails if a target row matches more than one source row."
)
DYNAMIC_PARTITION = flag(
    "hive.exec.dynamic.partition",
    "true",
    "false: an INSERT must give every partition column a value; a dynamic one is refused.",
)
DYNAMIC_PARTITION_MODE = choice(
    "hive.exec.dynamic.partition.mode",
    ("nonstrict", "strict"),
    "strict: an INSERT with dynamic partitions must name at least one static one.",
    "Hive 3 had strict; Hive 4 nonstrict (HIVE-22042)",
)
CREATE_AS_ACID = flag(
    "hive.create.as.acid",
    "false",
    "Managed tables in ORC or without STORED AS, and without SORTED BY, are made full ACID unless their properties say otherwise.",
)
CREATE_AS_INSERT_ONLY = flag(
    "hive.create.as.insert.only",
    "false",
    "Managed tables are made insert-only unless their properties say otherwise.",
)
DEFAULT_FILE_FORMAT = choice(
    "hive.default.fileformat",
    ("TextFile", "ORC", "Parquet", "Avro"),
    "Format of a new table whose statement names none. Transactional tables without STORED AS are ORC.",
)
DEFAULT_FILE_FORMAT_MANAGED = choice(
    "hive.default.fileformat.managed",
    ("none", "TextFile", "ORC", "Parquet", "Avro"),
    "The same for managed tables; none: hive.default.fileformat decides.",
)

# --- files --------------------------------------------------------------------------------------
ORC_CODECS = ("ZLIB", "NONE", "SNAPPY", "LZ4", "ZSTD")
ORC_COMPRESS = choice(
    "hive.exec.orc.default.compress",
    ("AUTO", *ORC_CODECS),
    "Codec of new ORC files of a table without orc.compress. AUTO: ZSTD at layout level hive4. Hive 3.1 cannot read "
    "it, so at hive3 AUTO is ZLIB, and SNAPPY for streams.",
    "ZLIB",
)
ORC_STRIPE_SIZE = size(
    "hive.exec.orc.default.stripe.size", "67108864", "Bytes of a stripe of the ORC files that Spark writes."
)
ORC_ROW_INDEX_STRIDE = Setting(
    "hive.exec.orc.default.row.index.stride",
    "10000",
    "Rows between two entries of the row index of the ORC files that Spark writes: 1000 or more, or 0 for no index.",
    "int",
    _parse_row_index_stride,
)
LAYOUT_LEVEL = choice(
    "hiveacid.layout.level",
    ("hive4", "hive3"),
    "Names and side files of new tables: hive3 writes nothing that Hive 3.1 cannot read "
    "(no visibility txn id in names, _metadata_acid in compacted bases). Columns of ORC files are matched by position "
    "(hive4) or by name (hive3).",
    "none: the version of Hive decides",
)
WRITE_FILE_SIZE = size(
    "hiveacid.write.target.file.size",
    "256mb",
    "Bytes that a file of new rows should have after a large INSERT or UPDATE. From it follows the number of tasks and "
    "files: 4,096 at most for a partition, or for a table without partitions. Not for bucketed tables.",
    "none: Hive's tasks write a file for each bucket",
)
SMALL_CHANGES = size(
    "hiveacid.small.changes.max.bytes",
    "64mb",
    "An UPDATE, DELETE or MERGE of few rows runs in the driver, without jobs that scan or write, if it has to read at most so "
    "many bytes there: the columns of its condition and, where rows change, the stripes that have some of them. The limit is "
    "16 times as high if the driver reads them sooner than the processors of the executors; with a local master it always "
    "does. The driver also writes INSERT of VALUES and compaction of at most 16 MB. 0: never.",
    "none: all statements are jobs",
)
CHANGES_BY = choice(
    "hiveacid.changes.by",
    ("auto", "driver", "executors", "job"),
    "Who reads the rows of an UPDATE or DELETE: the driver, tasks in Python on executors, or a job of Spark. auto: the first "
    "of them that can and pays. The others are for tests and comparisons; a job also does what the one that is named cannot.",
    "none: all statements are jobs",
)
SINGLE_BUCKET = flag(
    "hiveacid.write.single.bucket",
    "false",
    "Full ACID tables that are not bucketed get new rows in bucket_00000 only: Trino cannot change rows of other "
    "buckets there. One task writes the rows of a partition, or of the table if it has none. Also a table property.",
    "none: Hive's tasks write a bucket each",
)

# --- reading ------------------------------------------------------------------------------------
EVENTS_IN_MEMORY = count(
    "hive.transactional.events.mem",
    "10000000",
    "Up to this many delete events of a snapshot become a bitmap, which the driver builds; more are joined. Building "
    "takes about 50 bytes of the driver's memory for each event.",
    minimum=0,
)
BROADCAST_DELETE_EVENTS = count(
    "hiveacid.read.broadcast.delete.events",
    "2000000",
    "Up to this many delete events are broadcast to all tasks for the join; more are joined by a shuffle.",
    "none: Hive has no such join",
    minimum=0,
)
FILE_RECORDS = flag(
    "hiveacid.read.file.records",
    "true",
    "Plan reads from the files that commits have recorded in a store of hiveacid's own, where these records are complete. "
    "false: every read lists the directories, and reads the footers.",
    "none: a Hive Metastore has no such records",
)

# --- compaction ---------------------------------------------------------------------------------
INITIATOR_ON = flag(
    "hive.compactor.initiator.on",
    "true",
    "false: the initiator does nothing; only COMPACT requests compactions.",
    "false; here an initiator runs only in `hiveacid services` or with hiveacid.auto_compact",
)
CLEANER_ON = flag("hive.compactor.cleaner.on", "true", "Remove obsolete directories.")
WORKER_THREADS = count(
    "hive.compactor.worker.threads",
    "0",
    "Number of workers that run compactions in a service process. 0 counts as 1.",
    minimum=0,
)
WORKER_TIMEOUT = duration(
    "hive.compactor.worker.timeout", "86400s", "A compaction working for longer is queued again."
)
CHECK_INTERVAL = duration("hive.compactor.check.interval", "300s", "Time between two turns of the initiator.")
DELTA_NUM_THRESHOLD = count(
    "hive.compactor.delta.num.threshold",
    "10",
    "More delta directories than this cause a minor compaction, or a major one if there is no base.",
)
DELTA_PCT_THRESHOLD = Setting(
    "hive.compactor.delta.pct.threshold",
    "0.1",
    "Deltas larger than this fraction of the base cause a major compaction.",
    "float",
    parse_float,
)
ABORTED_TXN_THRESHOLD = count(
    "hive.compactor.abortedtxn.threshold",
    "1000",
    "More aborted transactions than this cause a major compaction.",
)
ABORTED_TXN_TIME_THRESHOLD = duration(
    "hive.compactor.aborted.txn.time.threshold",
    "12h",
    "An aborted transaction older than this causes a compaction; negative: never.",
    bare_unit="h",
    negative=True,
)
FAILED_COMPACTS_THRESHOLD = count(
    "hive.compactor.initiator.failed.compacts.threshold",
    "2",
    "After this many failures in a row, automatic compaction of the table or partition stops.",
    minimum=1,
)
FAILED_RETRY_TIME = duration(
    "hive.compactor.initiator.failed.retry.time",
    "7d",
    "When the last failure is older than this, automatic compaction starts again; 0: never.",
    bare_unit="d",
)
WORKER_POOL = text(
    "hive.compactor.worker.pool",
    "",
    "Pool whose workers take the jobs; may be a property of a table or a database, too.",
)
WORKER_POOL_TIMEOUT = duration(
    "hive.compactor.worker.pool.timeout",
    "12h",
    "Workers of the default pool take jobs of any pool that have waited for longer.",
    bare_unit="h",
)
WORKER_SLEEP = duration(
    "hive.compactor.worker.sleep.time",
    "10800ms",
    "How long a worker without work sleeps; it doubles up to hive.compactor.worker.max.sleep.time.",
    bare_unit="ms",
)
WORKER_MAX_SLEEP = duration(
    "hive.compactor.worker.max.sleep.time", "320000ms", "The longest sleep of a worker.", bare_unit="ms"
)
HOUSEKEEPER_INTERVAL = duration(
    "metastore.acid.housekeeper.interval",
    "60s",
    "Time between two turns of the housekeeper, which aborts transactions without heartbeat and deletes old rows of "
    "the store.",
)
COMPACT_INSERT_ONLY = flag(
    "hive.compactor.compact.insert.only", "true", "Compact insert-only tables as well."
)
WAIT_TIMEOUT = duration(
    "hive.compactor.wait.timeout",
    "300000",
    "How long COMPACT ... AND WAIT waits; a number without a unit is in milliseconds.",
    bare_unit="ms",
)
CLEANER_RUN_INTERVAL = duration(
    "hive.compactor.cleaner.run.interval", "5000ms", "Time between two turns of the cleaner.", bare_unit="ms"
)
DELAYED_CLEANUP = flag(
    "hive.compactor.delayed.cleanup.enabled",
    "false",
    "Keep obsolete directories for hive.compactor.cleaner.retention.time.seconds after a compaction.",
)
CLEANER_RETENTION = duration(
    "hive.compactor.cleaner.retention.time.seconds",
    "300s",
    "How long the cleaner keeps obsolete directories, if delayed cleanup is enabled.",
)
CLEANER_MAX_RETRIES = count(
    "hive.compactor.cleaner.retry.maxattempts",
    "5",
    "Attempts to clean after a compaction before it counts as failed.",
    minimum=0,
)
CLEANER_RETRY_RETENTION = duration(
    "hive.compactor.cleaner.retry.retention.time",
    "300s",
    "Wait before the second attempt to clean; it doubles with every further one.",
)
HISTORY_SUCCEEDED = count(
    "hive.compactor.history.retention.succeeded", "3", "Succeeded compactions kept per table or partition."
)
HISTORY_FAILED = count(
    "hive.compactor.history.retention.failed", "3", "Failed compactions kept per table or partition."
)
HISTORY_DID_NOT_INITIATE = count(
    "hive.compactor.history.retention.did.not.initiate",
    "2",
    "Compactions that did not begin, kept per table or partition.",
)
HISTORY_REFUSED = count(
    "hive.compactor.history.retention.refused", "3", "Refused compactions kept per table or partition."
)
HISTORY_TIMEOUT = duration(
    "metastore.compactor.history.retention.timeout",
    "7d",
    "A compaction that failed or did not begin is deleted from the history at this age, once a later one of the same "
    "table or partition has succeeded.",
    bare_unit="d",
)
COMMITS_RETENTION = duration(
    "hiveacid.commits.retention",
    "30d",
    "How long a store keeps the records of commits, which the history of a table and reading as of a timestamp need. "
    "The table property hiveacid.history.retention decides how long files are kept.",
    bare_unit="d",
)
FIGURES_INTERVAL = duration(
    "hiveacid.figures.interval",
    "3600s",
    "How often a housekeeper records deltas, files, bytes and rows of the tables that were written or compacted, which "
    "`hiveacid web` shows over time. After two days one record of each day stays. 0: never. A Hive Metastore keeps none.",
)
FIGURES_RETENTION = duration(
    "hiveacid.figures.retention",
    "30d",
    "How long a store keeps the recorded figures of tables.",
    bare_unit="d",
)
AUTO_COMPACT = flag(
    "hiveacid.auto_compact",
    "false",
    "Compact and clean automatically in the background of this session, without a service process.",
)
PRIORITY = count(
    "hiveacid.compactor.priority",
    "0",
    "Jobs of a higher priority are taken first; may be a property of a table or a database, too.",
)
QUIET_HOURS = "quiet hours"
"""Kind of a setting or property that is always, or windows of the day."""
MAJOR_INTERVAL = duration(
    "hiveacid.compactor.major.interval",
    "0s",
    "A major compaction is due when the base is older than this and there are deltas. 0: never by time. May be a property of a "
    "table or a database, too.",
)
COMPACTION_WINDOW: Setting[str] = Setting(
    "hiveacid.compactor.window",
    "always",
    "When major compactions that the initiator requests may start: always, or times such as `22:00-06:00` or "
    "`Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin` (without a zone in UTC). May be a property of a table or a database, "
    "too.",
    QUIET_HOURS,
    lambda text: str(parse_quiet_hours(text)),
)
COMPACT_HERE = flag(
    "hiveacid.compactor.here",
    "false",
    "With a Hive Metastore (4.x): this session carries out COMPACT at once. false: a worker of Hive or of "
    "`hiveacid services` takes the request from the metastore's queue.",
)
COMPACT_THREADS = count(
    "hiveacid.compactor.threads",
    "4",
    "How many partitions one COMPACT compacts at the same time, each in a job of its own.",
    minimum=1,
)
TARGET_FILE_SIZE = size(
    "hiveacid.compactor.target.file.size",
    "268435456",
    "Smallest desired size in bytes of the files that a rebalance compaction without CLUSTERED INTO writes.",
)
UNSORTED_FILE_SIZE = size(
    "hiveacid.compactor.unsorted.file.size",
    "8388608",
    "A compaction copies a file of at least this size without sorting its rows, if its keys are below all others of the "
    "bucket (usually a base). A file that holds three quarters of its bucket needs an eighth of this size.",
)

# --- lineage --------------------------------------------------------------------------------------
OPENLINEAGE_TO = Setting(
    "hiveacid.openlineage.to",
    "off",
    "Where an OpenLineage event of each commit goes: file:///DIRECTORY/FILE, or http(s)://HOST[:PORT] of a receiver; "
    "off: nowhere.",
    "text",
    parse_lineage_target,
)
OPENLINEAGE_NAMESPACE = text(
    "hiveacid.openlineage.namespace", "hiveacid", "Namespace of jobs and tables in the events of lineage."
)

SECTIONS: tuple[Section[AnySetting], ...] = divide_into_sections(
    tuple(globals().values()),
    (
        ("Transactions and locks", TXN_TIMEOUT),
        ("Statements", DROP_IGNORES_NONEXISTENT),
        ("Files", ORC_COMPRESS),
        ("Reading", EVENTS_IN_MEMORY),
        ("Compaction", INITIATOR_ON),
        ("Lineage", OPENLINEAGE_TO),
    ),
)
REGISTRY: Mapping[str, AnySetting] = MappingProxyType(
    {setting.name: setting for section in SECTIONS for setting in section.entries}
)


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The settings of one session: an immutable value; every change makes a new one.

    ``changed`` holds the names and texts that were set, sorted by name. Unknown names are kept, too, because a script
    for Hive may set any name. Unknown names that begin with ``hiveacid.`` are refused.
    """

    changed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, str] | Iterable[tuple[str, str]]) -> Settings:
        """Make settings from names and texts. Raises ConfigError as `with_value` does."""
        settings = cls()
        for name, value in dict(values).items():
            settings = settings.with_value(name, value)
        return settings

    @overload
    def get(self, setting: Setting[T]) -> T: ...

    @overload
    def get(self, setting: str) -> Value: ...

    def get(self, setting: Setting[T] | str) -> T | Value:
        """Return the value of a setting, given as a constant of ``setting_definitions`` or by name.

        Durations are seconds, sizes bytes. The value of an unknown name that was set is its text. Raises ConfigError
        for a name that is neither known nor set.
        """
        if isinstance(setting, Setting):
            return setting.parse(self.text(setting.name))
        entry = REGISTRY.get(setting)
        text = self.text(setting)
        return text if entry is None else entry.parse(text)

    def text(self, name: str) -> str:
        """Return a value as the text that SET prints. Raises ConfigError for a name that is neither known nor set."""
        changed_text = dict(self.changed).get(name)
        if changed_text is not None:
            return changed_text
        entry = REGISTRY.get(name)
        if entry is None:
            near = did_you_mean(name, REGISTRY)
            raise ConfigError(f"{name} is not a setting: SET -v lists the settings{near}")
        return entry.default

    def with_value(self, name: str, text: str) -> Settings:
        """Return a copy with one setting changed; ConfigError if the text does not fit its type.

        An unknown name is kept with a logged warning; an unknown ``hiveacid.`` one is a ConfigError.
        """
        name = name.strip()
        entry = REGISTRY.get(name)
        if entry is not None:
            try:
                entry.parse(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from error
        elif not name or name.startswith("hiveacid."):
            near = did_you_mean(name, REGISTRY)
            raise ConfigError(f"{name!r} is not a setting: SET -v lists the settings{near}")
        else:
            logger.warning(
                "hiveacid does not know the setting %s; it keeps the value and does not use it", name
            )
        return Settings(tuple(sorted((dict(self.changed) | {name: text.strip()}).items())))

    def without(self, name: str) -> Settings:
        """Return a copy with one setting back at its default (RESET)."""
        return Settings(tuple(pair for pair in self.changed if pair[0] != name))

    def items(self) -> tuple[tuple[str, str], ...]:
        """List every known setting and every changed one with its text, sorted (SET -v)."""
        defaults = {name: setting.default for name, setting in REGISTRY.items()}
        return tuple(sorted((defaults | dict(self.changed)).items()))
