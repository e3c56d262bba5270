"""Time zone of the executors' JVMs, in which ORC files are written and read.

Spark's ORC reader and writer use the default time zone of the JVM that runs the task. This is the driver's JVM only on
a local master.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hiveacid.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTION = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']+)")
_OPTIONS = "spark.executor.extraJavaOptions"
_ASK = "reflect('java.time.ZoneId', 'systemDefault') AS zone"
_TASKS = 4  # for each core: enough for every executor to get some
_CONNECT = "connect"
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Z", "+00:00"})


@dataclass
class ExecutorTimeZones:
    """Known time zones of executors, by the set of executors that was asked."""

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
        if (zone, other) not in self.alike:
            self.alike[zone, other] = zone == other or _same_rules(spark, zone, other)
        return self.alike[zone, other]


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


def _same_rules(spark: SparkSession, name: str, other: str) -> bool:
    if not hasattr(spark, "_jsparkSession"):  # SQL alone cannot compare rules
        return {name, other} <= _UTC
    zone: Any = spark._jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId  # type: ignore[union-attr] # noqa: SLF001
    return bool(zone(name).getRules().equals(zone(other).getRules()))


def _executors(spark: SparkSession) -> str:
    if not hasattr(spark, "_jsparkSession"):
        return _CONNECT
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    return str(context.sc().getExecutorIds().mkString(","))


def _ask_executors(spark: SparkSession) -> list[str]:
    cores = spark.sparkContext.defaultParallelism if hasattr(spark, "_jsparkSession") else 16
    tasks = max(cores, 1) * _TASKS
    return [str(row[0]) for row in spark.range(0, tasks, 1, tasks).selectExpr(_ASK).collect()]
