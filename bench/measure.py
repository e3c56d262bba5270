"""Wall clock and CPU of an action, and runs of several actions in turn."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Run:
    """Seconds on the clock, and of the processors (JVMs and Python; NaN where the system doesn't tell)."""

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
    """Measures what this process, a session's JVM and its executors do.

    ``workers``: sessions of processes of a cluster's workers, to which their executors and the Python of these belong.
    """

    spark: SparkSession
    jvm: int
    workers: tuple[int, ...] = ()

    @classmethod
    def of(cls, spark: SparkSession, workers: Sequence[int] = ()) -> Meter:
        """Return the meter of a session."""
        return cls(spark, int(spark.sparkContext._gateway.proc.pid), tuple(workers))  # type: ignore[union-attr] # noqa: SLF001

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
        if not Path(f"/proc/{self.jvm}/stat").exists():
            return float("nan")
        own = os.times()
        ticks = sum(_ticks(self.jvm, of_session=None)[:2])
        for process in Path("/proc").glob("[0-9]*") if self.workers else ():
            ticks += sum(_ticks(int(process.name), of_session=self.workers))
        return own.user + own.system + ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: int, *, of_session: Sequence[int] | None) -> list[int]:
    """Return a process's time in user mode and in the system, and that of its children that have ended.

    None of a process that has ended itself, or is in none of the sessions.
    """
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [*map(int, stat[11:15])] if of_session is None or int(stat[3]) in of_session else []
