"""Groups and tags of Spark jobs, by which operators recognise them and hiveacid cancels them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException

from hiveacid.spark.parser.catalyst import session_of
from hiveacid.spark.session.capabilities import SparkEnvironment

# Names are compared and expressions made by them, so that analysis asks for them at each step.
_ASKED_FOR = ("spark.sql.caseSensitive", "spark.sql.ansi.enabled", "spark.sql.codegen.wholeStage")
_REFUSED = "neither true nor false: the statement was cancelled"


@contextmanager
def named_jobs(env: SparkEnvironment, group: str, description: str) -> Iterator[None]:
    """Put all Spark jobs that this thread starts in the block into a job group."""
    context = env.spark.sparkContext
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield
    finally:
        with suppress(Py4JError, OSError):  # the JVM may be gone
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(key, None)  # type: ignore[arg-type]


def cancel_jobs(env: SparkEnvironment, group: str) -> None:
    """Stop the jobs of a group; callers that wait for them get an error."""
    with suppress(Py4JError, PySparkException, OSError):
        env.spark.sparkContext.cancelJobGroup(group)


@contextmanager
def tagged_jobs(env: SparkEnvironment, tag: str) -> Iterator[None]:
    """Put a tag on all Spark jobs that this thread starts in the block, whatever group they are in."""
    context = env.spark.sparkContext
    context.addJobTag(tag)
    context.setInterruptOnCancel(interruptOnCancel=True)
    try:
        yield
    finally:
        with suppress(Py4JError, OSError):  # the JVM may be gone
            context.removeJobTag(tag)
            context.setInterruptOnCancel(interruptOnCancel=False)


def cancel_tagged(env: SparkEnvironment, tag: str) -> None:
    """Stop the running jobs with a tag; callers that wait for them get an error."""
    with suppress(Py4JError, PySparkException, OSError):
        env.spark.sparkContext.cancelJobsWithTag(tag)


class AnalysisStop:
    """Stops the analysis and planning of a session's statement, which Spark offers no call for.

    Some settings that Spark asks for on its way get a value that it refuses, so that the next question raises. The session
    must run nothing else until `restore`.
    """

    def __init__(self, env: SparkEnvironment) -> None:
        """Serve one session."""
        self._env = env
        self._before: dict[str, str | None] = {}

    def stop(self) -> None:
        """Make the next question for a setting raise."""
        with suppress(Py4JError, PySparkException, OSError):
            values = self._values()
            for key in _ASKED_FOR:
                if key not in self._before:
                    self._before[key] = values.get(key)
                    values.put(key, _REFUSED)

    def restore(self) -> None:
        """Give the settings their values again, except those that the statement itself has given one."""
        before, self._before = self._before, {}
        if not before:
            return
        with suppress(Py4JError, PySparkException, OSError):
            values = self._values()
            for key, value in before.items():
                if values.get(key) != _REFUSED:
                    continue
                if value is None:
                    values.remove(key)
                else:
                    values.put(key, value)

    def _values(self) -> Any:
        """Return Java's map of the session's settings, which checks no values."""
        return session_of(self._env).sessionState().conf().settings()


def thread_with_job_properties(run: Callable[[], None], name: str) -> threading.Thread:
    """Return a new thread, not started, whose Spark jobs have the tags, pool and other properties of this one."""
    # given a session, Spark 4 would also copy its tags, which the job properties contain already
    return InheritableThread(target=run, name=name, daemon=True)


def threads_have_own_jobs(env: SparkEnvironment) -> bool:
    """Tell whether each thread has its own job groups and tags, which PYSPARK_PIN_THREAD=false prevents."""
    return isinstance(env.spark.sparkContext._gateway, ClientServer)  # noqa: SLF001


@dataclass(frozen=True)
class Progress:
    """Progress of the running stages: their number, tasks done, tasks in total."""

    stages: int = 0
    done: int = 0
    total: int = 0


def progress(env: SparkEnvironment) -> Progress:
    """Return the progress of all running stages of the SparkContext, whatever session runs them."""
    tracker = env.spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [stage for stage in infos if stage is not None]
    return Progress(
        stages=len(stages),
        done=sum(stage.numCompletedTasks for stage in stages),
        total=sum(stage.numTasks for stage in stages),
    )
