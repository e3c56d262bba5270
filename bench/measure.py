"""Wall clock and CPU of an action, and runs of several actions in turn."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Run:
    """Seconds on the clock, and of the processors (JVM and Python; NaN where the system doesn't tell)."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Figure:
    """Medians of some runs and the lowest and highest clock time."""

    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """Return the median on the clock."""
        return median(run.seconds for run in self.runs)

    @property
    def cpu(self) -> float:
        """Return the median of the processors."""
        return median(run.cpu for run in self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the lowest and the highest on the clock."""
        found = [run.seconds for run in self.runs]
        return min(found), max(found)


@dataclass(frozen=True)
class Meter:
    """Measures what a session's JVM and this process do."""

    spark: SparkSession
    jvm: int

    @classmethod
    def of(cls, spark: SparkSession) -> Meter:
        """Return the meter of a local session."""
        return cls(spark, int(spark.sparkContext._gateway.proc.pid))  # type: ignore[union-attr] # noqa: SLF001

    def run(self, action: Callable[[], object]) -> Run:
        """Do something and see what it costs."""
        self.spark._jvm.System.gc()  # type: ignore[union-attr] # noqa: SLF001
        cpu, start = self._cpu(), time.perf_counter()
        action()
        return Run(time.perf_counter() - start, self._cpu() - cpu)

    def in_turn(
        self, actions: Mapping[str, Callable[[], object]], runs: int, *, warm_up: bool = True
    ) -> dict[str, Figure]:
        """Run each action once to warm up, then all of them in turn, the order turned round every other time."""
        if warm_up:
            for action in actions.values():
                action()
        found: dict[str, list[Run]] = {name: [] for name in actions}
        for nth in range(runs):
            for name in list(actions) if nth % 2 == 0 else list(actions)[::-1]:
                found[name].append(self.run(actions[name]))
        return {name: Figure(tuple(some)) for name, some in found.items()}

    def peak(self) -> int:
        """Return the JVM's resident peak since the last call in MB; 0 where the system doesn't tell."""
        status = Path(f"/proc/{self.jvm}/status")
        if not status.exists():
            return 0
        peak = re.search(r"VmHWM:\s+(\d+)", status.read_text())
        Path(f"/proc/{self.jvm}/clear_refs").write_text("5")
        return int(peak[1]) // 1024 if peak else 0

    def _cpu(self) -> float:
        stat = Path(f"/proc/{self.jvm}/stat")
        if not stat.exists():
            return float("nan")
        own = os.times()
        used = stat.read_text().rpartition(")")[2].split()[11:13]
        return own.user + own.system + sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
