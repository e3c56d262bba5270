"""Capabilities of a Spark session, the settings that it needs, and the time zones of its JVMs."""

from __future__ import annotations

import operator
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.orc.footer_summary import LruCache

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession


# Spark's own push-down into nested ORC columns skips nothing on ACID files and would overwrite ours.
_NESTED_PUSHDOWN = "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources"
# Speed only: a RESET, another session or the user may change them at any time.
_SETTINGS = {_NESTED_PUSHDOWN: "parquet", "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000"}
# Spark's 4096 rows of many columns, decimals above all, leave the processor's cache before they are used.
_PERFORMANCE_SETTINGS = {"spark.sql.orc.columnarReaderBatchSize": "1024"}


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return a ``SparkSession.builder`` with the settings that hiveacid works best with.

    With a local master it also makes Python workers use this interpreter (Spark's default is the ``python3`` on the PATH).
    Other machines may have none at its path. The batch size of ORC reads stays unchanged if the builder sets it.
    """
    given = getattr(builder, "_options", {})
    if is_local_master(_master(given)):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    faster = {key: value for key, value in _PERFORMANCE_SETTINGS.items() if key not in given}
    for key, value in (_SETTINGS | faster).items():
        builder = builder.config(key, value)
    return builder


def without_hiveacid_parser(spark: SparkSession) -> SparkSession:
    """Return a session whose SQL knows no tables of a native session: ``spark`` itself, or a copy if its parser does."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the command line works without it

    native: object = SparkSession._instantiatedSession  # noqa: SLF001 - what getOrCreate() returns
    if not hasattr(native, "for_other_warehouse") or not hasattr(spark, "_jsparkSession"):
        return spark
    session: SparkSession = native.for_other_warehouse(spark)
    return session


def is_method_of_frames(name: str) -> bool:
    """Tell whether a DataFrame has a public attribute of this name."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - the command line works without it

    return not name.startswith("_") and hasattr(DataFrame, name)


def is_classic(spark: SparkSession) -> bool:
    """Tell whether this process can call the session's JVM; False for a client of Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def is_local_master(master: str) -> bool:
    """Tell whether a master runs its tasks in the driver's process, or in others of this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _master(given: Mapping[str, str]) -> str:
    """Return the master that a builder's session will have, as far as it can be known before Spark starts."""
    named = given.get("spark.master") or given.get("spark.remote")
    if named:
        return named
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, whose JVM runs already
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - the command line works without it

        SparkContext._ensure_initialized()  # noqa: SLF001 - PySpark offers no other way to its defaults
        return SparkConf().get("spark.master") or "local"
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    following = [after for word, after in pairwise(words) if word == "--master"]
    return following[-1] if following else os.environ.get("MASTER", "local")


_OPTION = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_OPTIONS = "spark.executor.extraJavaOptions"
_ASK = "reflect('java.time.ZoneId', 'systemDefault') AS zone"
_TASKS = 4  # for each core: enough for every executor to get some


@dataclass
class ExecutorTimeZones:
    """Known time zones of executors' JVMs, by the set of executors that was asked.

    Spark's ORC reader and writer use the default time zone of the JVM that runs the task. This is the driver's JVM only on
    a local master.
    """

    by_executors: dict[str, str] = field(default_factory=dict)
    fixed: str | None = None  # of all executors that this Spark application can have
    alike: dict[tuple[str, str], bool] = field(default_factory=dict)  # pairs of names that were compared

    def zone(self, spark: SparkSession, driver: str) -> str:
        """Return the zone of the JVMs that run tasks; ``driver``: the driver's.

        Runs no job on a local master, or if ``spark.executor.extraJavaOptions`` names the zone. Otherwise a job asks the
        executors, and another one asks again after executors came or went. Raises ConfigError if zones differ.
        """
        if self.fixed is None and driver_runs_tasks(str(spark.conf.get("spark.master", "local"))):
            self.fixed = driver
        if self.fixed is None:
            self.fixed = named_zone(str(spark.conf.get(_OPTIONS, "")))
        if self.fixed is not None:
            return self.fixed
        executors = _executors(spark)
        if executors not in self.by_executors:
            zone = require_single_zone(
                _ask_executors(spark), driver, lambda zone, other: self.are_alike(spark, zone, other)
            )
            self.by_executors[executors] = self.by_executors[_executors(spark)] = zone
        return self.by_executors[executors]

    def are_alike(self, spark: SparkSession, zone: str, other: str) -> bool:
        """Tell whether two names mean zones with the same rules (``UTC`` and ``Etc/UTC``); ask the JVM once."""
        if zone != other and (zone, other) not in self.alike:
            jvm: JavaObject = spark._jvm  # noqa: SLF001
            zone_of: Callable[[str], JavaObject] = (
                jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId
            )
            self.alike[zone, other] = bool(zone_of(zone).getRules().equals(zone_of(other).getRules()))
        return zone == other or self.alike[zone, other]


@dataclass
class ExecutorPython:
    """Knowledge of whether an application's executors can run tasks of hiveacid (`spark.session.python_workers`); None: not yet asked.

    ``without_access``: scheme and host of file systems that they could not read.
    """

    usable: bool | None = None
    without_access: set[tuple[str, str]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


def driver_runs_tasks(master: str) -> bool:
    """Tell whether the driver runs the tasks itself."""
    return master.startswith("local") and not master.startswith("local-cluster")


def named_zone(options: str) -> str | None:
    """Return the time zone in the options of a JVM; the last one counts."""
    zones = _OPTION.findall(options)
    return str(zones[-1]) if zones else None


def require_single_zone(
    names: Iterable[str], driver: str, alike: Callable[[str, str], bool] = operator.eq
) -> str:
    """Return the only zone. Raises ConfigError if there are several, as values would depend on the executor of a task.

    ``alike``: tells whether two names mean the same zone.
    """
    zones = sorted(set(names))
    if not all(alike(zones[0], zone) for zone in zones):
        raise ConfigError(
            f"the executors have different time zones ({', '.join(zones)}), and ORC files keep times in the zone of "
            f"the JVM that writes them: start the session with {_OPTIONS}=-Duser.timezone={driver}"
        )
    return zones[0]


def _executors(spark: SparkSession) -> str:
    context: JavaObject = spark.sparkContext._jsc  # noqa: SLF001
    return str(context.sc().getExecutorIds().mkString(","))


def _ask_executors(spark: SparkSession) -> list[str]:
    tasks = max(spark.sparkContext.defaultParallelism, 1) * _TASKS
    return [str(row[0]) for row in spark.range(0, tasks, 1, tasks).selectExpr(_ASK).collect()]


_QUOTED_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"
_WHOLE_FILE = 1 << 60  # bytes: no task takes a second file or part of one


@dataclass(frozen=True)
class SparkEnvironment:
    """Facts about a session: its version, the time zone of its JVM.

    ``copies_timestamps``: values are only copied, so timestamps are not converted to the session's time zone.
    ``files_in_driver_zone``: values are stored in the zone of the driver's JVM (Parquet, Avro), not in that of the JVMs that run
    tasks (ORC). ``zones``: the executors' time zones. ``executor_python``: whether they run hiveacid.
    ``parser``: Spark's own parser if hiveacid's parser wraps it in the session (``sql.native``), else None.
    """

    spark: SparkSession
    copies_timestamps: bool = False
    files_in_driver_zone: bool = False
    zones: ExecutorTimeZones = field(default_factory=ExecutorTimeZones, compare=False, repr=False)
    executor_python: ExecutorPython = field(default_factory=ExecutorPython, compare=False, repr=False)
    parser: JavaObject = field(default=None, compare=False, repr=False)

    @cached_property
    def local(self) -> bool:
        """True if tasks run on this machine (``local[4]``)."""
        return is_local_master(str(self.spark.sparkContext.master))

    @cached_property
    def driver_heap(self) -> int:
        """Bytes that the driver's JVM may use for objects (``spark.driver.memory``, 1 GB by default)."""
        return int(self.spark._jvm.java.lang.Runtime.getRuntime().maxMemory())  # type: ignore[union-attr] # noqa: SLF001

    @cached_property
    def empty_frames(self) -> LruCache[DataFrame]:
        """Frames without rows, in which conditions are analysed: to make one takes longer than the analysis."""
        return LruCache(max_size=100, max_values=100)

    @cached_property
    def hive_support(self) -> bool:
        """True if Spark's own catalog is a Hive Metastore (``enableHiveSupport``)."""
        return str(self.spark.conf.get("spark.sql.catalogImplementation")) == "hive"

    @cached_property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.spark.version.split(".")[:2]
        return int(major), int(minor)

    @cached_property
    def state(self) -> JavaObject:
        """The session's state in the JVM (``SessionState``), which stays the same."""
        return self.spark._jsparkSession.sessionState()  # noqa: SLF001

    @cached_property
    def session_catalog(self) -> JavaObject:
        """Spark's own catalog in the session's state (``SessionCatalog``)."""
        return self.state.catalog()

    @cached_property
    def catalog_manager(self) -> JavaObject:
        """Spark's ``CatalogManager``: the session's current catalog."""
        return self.state.catalogManager()

    @cached_property
    def jvm_time_zone(self) -> str:
        """Time zone of the driver's JVM."""
        return str(self.spark._jvm.java.util.TimeZone.getDefault().getID())  # type: ignore[union-attr] # noqa: SLF001

    @property
    def stored_time_zone(self) -> str:
        """Time zone of timestamps in files. Raises ConfigError if executors have different zones."""
        return (
            self.jvm_time_zone
            if self.files_in_driver_zone
            else self.zones.zone(self.spark, self.jvm_time_zone)
        )

    @property
    def session_time_zone(self) -> str:
        """Time zone in which the session shows timestamps."""
        if self.copies_timestamps:
            return self.stored_time_zone
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def case_sensitive(self) -> bool:
        """True if names must be written as they are stored (``spark.sql.caseSensitive``)."""
        return str(self.spark.conf.get("spark.sql.caseSensitive")).lower() == "true"

    @property
    def ansi(self) -> bool:
        """True if a cast that fails is an error (``spark.sql.ansi.enabled``)."""
        return str(self.spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"

    def with_own_sql(self) -> SparkEnvironment:
        """Return this environment, or one with Spark's own SQL if its session became a native one later.

        The parser inside a native session would find the tables of its warehouse by names that mean this connection's.
        """
        if self.parser is not None or not is_classic(self.spark):
            return self
        spark = without_hiveacid_parser(self.spark)
        return self if spark is self.spark else replace(self, spark=spark)

    def require_plain_names(self) -> None:
        """Refuse a session whose parser reads names in back-quotes as patterns, because hiveacid's expressions use them.

        Spark leaves out a column whose pattern matches no field. Raises UnsupportedFeatureError.
        """
        if str(self.spark.conf.get(_QUOTED_PATTERNS)).lower() == "true":
            raise UnsupportedFeatureError(
                f"{_QUOTED_PATTERNS}=true turns the back-quoted names that hiveacid passes to Spark into patterns: SET {_QUOTED_PATTERNS}"
                "=false (a query may name its columns one by one)"
            )

    def require_absolute_warehouse(self, warehouse: str | None) -> None:
        """Refuse a relative warehouse in cluster mode: Spark chooses the driver's machine and directory. Raises ConfigError."""
        mode = str(self.spark.conf.get("spark.submit.deployMode", "client"))
        if (
            warehouse
            and mode == "cluster"
            and "://" not in warehouse
            and not warehouse.startswith(("/", "file:/"))
        ):
            raise ConfigError(
                f"warehouse={warehouse}: in cluster mode Spark chooses the driver's working directory; give the whole path, one "
                "that all machines share"
            )

    def apply_settings(self) -> None:
        """Apply the settings of `configure` to an existing session (all of them can be changed at run time)."""
        for key, value in _SETTINGS.items():
            self.spark.conf.set(key, value)

    def prepare_scan(self) -> None:
        """Make the session ready for a scan: keep Spark's push-down out of ORC's nested columns.

        New sessions, and those after RESET, have Spark's default, which costs a scan its search argument.
        Raises UnsupportedFeatureError as `require_plain_names` does.
        """
        self.require_plain_names()
        sources = str(self.spark.conf.get(_NESTED_PUSHDOWN)).split(",")
        others = [name for name in sources if name.strip().lower() != "orc"]
        if others != sources:
            self.spark.conf.set(_NESTED_PUSHDOWN, ",".join(others))

    def session_with_task_per_file(self, part: int | None) -> SparkEnvironment:
        """Return a new session like this one, in which each file of a scan has its own task.

        ``part``: size in bytes of the parts of larger files, each with its own task (None: files are not split). The
        session is separate, because the user may change these settings and run other queries at the same time.
        """
        sizes = {"maxPartitionBytes": str(part or _WHOLE_FILE), "openCostInBytes": str(_WHOLE_FILE)}
        env = self.with_settings({f"spark.sql.files.{key}": size for key, size in sizes.items()})
        env.spark.conf.unset("spark.sql.files.maxPartitionNum")
        return env

    def with_settings(self, changed: Mapping[str, str]) -> SparkEnvironment:
        """Return a new session like this one with some other settings of Spark."""
        from pyspark.sql import SparkSession as Plain  # noqa: PLC0415 - not with the module

        context = self.spark.sparkContext
        session = Plain(context, self.spark._jsparkSession.cloneSession())  # noqa: SLF001
        for key, value in changed.items():
            session.conf.set(key, value)
        return replace(self, spark=session).with_own_sql()  # a copy has the parser that was injected
