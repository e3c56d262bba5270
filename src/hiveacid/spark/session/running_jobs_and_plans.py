"""Running jobs, with their threads, groups and tags, and plans that still can run and hold a snapshot.

As long as a plan made from a snapshot can run, the cleaner must keep the snapshot's files. Python's garbage collector cannot
tell, because a derived DataFrame does not reference its parent. In the JVM all plans, temporary views and cached plans that
derive from a scan share its ``HadoopFsRelation``. A weak reference to that object is therefore exact.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import unquote

from py4j.clientserver import ClientServer
from py4j.java_gateway import GatewayClient, JavaObject, JVMView
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from hiveacid.config.setting_definitions import OPENLINEAGE_TO
from hiveacid.core.model import TableName
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_class, scala_items, session_of
from hiveacid.storage.paths import spark_path
from hiveacid.transactions.heartbeats import on_behalf_of, owner_thread
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Names are compared and expressions made by them, so that analysis asks for them at each step.
_ASKED_FOR = ("spark.sql.caseSensitive", "spark.sql.ansi.enabled", "spark.sql.codegen.wholeStage")
_REFUSED = "neither true nor false: the statement was cancelled"
TABLE_OPTION = "hiveacid.table"
"""Option of the scans of a table: its name."""
_RELATION = "HadoopFsRelation"
_MAX_ROUNDS = 4
_LATER_PAUSE = 0.1  # seconds between later rounds
_STOP_INTERVAL = 0.1  # seconds between two calls of ``stop``
_LITTLE_TIME = 0.25  # seconds of a round that is always worthwhile
_ROUNDS_WITHOUT_PAUSE = 2  # the first rounds, which usually release a plan that has run


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

    def _values(self) -> JavaObject:
        """Return Java's map of the session's settings, which checks no values."""
        return session_of(self._env).sessionState().conf().settings()


def thread_with_job_properties(run: Callable[[], None], name: str) -> threading.Thread:
    """Return a new thread, not started, whose Spark jobs have the tags, pool and other properties of this one."""
    # given a session, Spark 4 would also copy its tags, which the job properties contain already
    return InheritableThread(target=run, name=name, daemon=True)


def run_in_parallel(
    env: SparkEnvironment, tasks: Sequence[Callable[[], T]], most: int, stop: Callable[[], None]
) -> list[T]:
    """Return the results of ``tasks`` in their order; at most ``most`` of them run at the same time.

    After an error no further task begins, and the first error is raised when all running tasks have ended. The same
    applies to an exception in this thread while it waits (Ctrl-C). ``stop`` must then cancel the running tasks. It is
    called repeatedly, because a task may be between two Spark jobs.

    The threads inherit this thread's tags, pools and other local properties of Spark. Transactions that they begin
    count as this thread's.
    """
    # no ClientServer: PYSPARK_PIN_THREAD=false, and threads have no job groups and tags of their own
    if most == 1 or len(tasks) == 1 or not isinstance(env.spark.sparkContext._gateway, ClientServer):  # noqa: SLF001
        return [work() for work in tasks]
    workers = _WorkerThreads(deque(enumerate(tasks)), owner_thread())
    ended = [threading.Event() for _ in range(min(most, len(tasks)))]
    threads = [thread_with_job_properties(partial(workers.run, event), "hiveacid-beside") for event in ended]
    try:
        for thread in threads:
            thread.start()
        for thread, event in zip(threads, ended, strict=True):
            # not Thread.join: after an interruption it treats the thread as dead (CPython 3.11)
            while not event.wait(1.0) and thread.is_alive():
                pass
        # tasks of threads that could not start, because the JVM had no more threads
        workers.run(threading.Event())
    except BaseException:
        workers.waiting.clear()
        while workers.at_work:
            stop()
            time.sleep(_STOP_INTERVAL)
        raise
    if workers.errors:
        for other in workers.errors[1:]:
            workers.errors[0].add_note(str(other))
        raise workers.errors[0]
    return [workers.results[number] for number in range(len(tasks))]


@dataclass(frozen=True)
class _WorkerThreads(Generic[T]):
    """State that the threads share: waiting work, results by number, errors, and idents of running threads."""

    waiting: deque[tuple[int, Callable[[], T]]]
    first: int
    results: dict[int, T] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    at_work: set[int] = field(default_factory=set)

    def run(self, ended: threading.Event) -> None:
        """Run waiting tasks one after the other until none is left or one has failed."""
        me = threading.get_ident()
        # before taking a task: a thread that empties ``waiting`` then sees all that took one
        self.at_work.add(me)
        try:
            with on_behalf_of(self.first):
                while not self.errors and self._run_next():
                    pass
        finally:
            self.at_work.discard(me)
            ended.set()

    def _run_next(self) -> bool:
        try:
            number, work = self.waiting.popleft()
        except IndexError:
            return False
        try:
            self.results[number] = work()
        except BaseException as error:  # noqa: BLE001 - raised by the calling thread
            self.errors.append(error)
        return True


@dataclass(frozen=True)
class Progress:
    """Progress of the running stages: their number, tasks done, tasks in total, and the stages' ids."""

    stages: int = 0
    done: int = 0
    total: int = 0
    ids: tuple[int, ...] = ()


def progress(env: SparkEnvironment) -> Progress:
    """Return the progress of all running stages of the SparkContext, whatever session runs them."""
    tracker = env.spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [stage for stage in infos if stage is not None]
    return Progress(
        stages=len(stages),
        done=sum(stage.numCompletedTasks for stage in stages),
        total=sum(stage.numTasks for stage in stages),
        ids=tuple(sorted(stage.stageId for stage in stages)),
    )


class RelationWatch:
    """Watch of the plan of a DataFrame that a scan has just made, without a reference to the DataFrame itself.

    It consists of weak references, kept in the JVM, to the file relations of the plan.
    """

    def __init__(self, env: SparkEnvironment, frame: DataFrame) -> None:
        reference = java_class(env, "java.lang.ref.WeakReference")
        self._lock = threading.Lock()
        self._references = [reference(relation) for relation in _file_relations(frame)]

    def alive(self) -> bool:
        """Tell whether any plan made from the DataFrame can still run; False if it reads no files.

        After the last use it may stay True until the JVM has collected its garbage.
        """
        # Cleared references are dropped on the way. Usually the first one is alive, which costs one round trip.
        with self._lock:
            try:
                while self._references and self._references[-1].get() is None:
                    self._references.pop()
            except (Py4JError, OSError):  # the JVM is gone, and every plan with it
                self._references.clear()
            return bool(self._references)


def rows_without_files(env: SparkEnvironment, table: TableName, count: int) -> DataFrame:
    """Return rows that a scan makes without a file, with a mark by which `reads_from` finds them."""
    return env.spark.range(count).alias(f"{TABLE_OPTION}({table})")


def reads_from(frame: DataFrame, name: TableName, locations: Iterable[str]) -> bool:
    """Tell whether a plan reads a table, by the name that its scan had or by files below one of the locations."""
    if f"{TABLE_OPTION}({name})" in str(frame._jdf.queryExecution().analyzed()):  # noqa: SLF001 - `rows_without_files`
        return True
    places = tuple(f"{spark_path(location).rstrip('/')}/" for location in locations)

    def is_of_table(leaf: JavaObject) -> bool:
        if _table_of(leaf) == name:
            return True
        if leaf.relation().getClass().getSimpleName() != _RELATION:
            return False
        files = leaf.relation().location().inputFiles()[:1]  # each relation has files of one table
        return any(unquote(str(file)).startswith(places) for file in files)

    return any(map(is_of_table, _relations_of(frame)))


def note_sources(txn: Transaction, frame: DataFrame) -> None:
    """Note the tables whose files a plan reads, if lineage tells of the commit. Never raises."""
    if txn.settings.text(OPENLINEAGE_TO.name) == OPENLINEAGE_TO.default:
        return
    try:
        txn.reads.sources.update(
            name for leaf in _relations_of(frame) for name in [_table_of(leaf)] if name is not None
        )
    except Exception as error:  # noqa: BLE001 - a statement does not fail because its lineage is unknown
        logger.warning("lineage: the sources of transaction %s are unknown: %s", txn.txn_id, error)


def _relations_of(frame: DataFrame) -> Iterator[JavaObject]:
    """Yield the leaves of a plan and of its subqueries that read files."""
    plan: JavaObject = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    for part in (plan, *scala_items(plan.subqueriesAll())):
        for leaf in scala_items(part.collectLeaves()):
            if leaf.nodeName().startswith("LogicalRelation"):
                yield leaf


def _table_of(leaf: JavaObject) -> TableName | None:
    """Return the table that a relation reads: of hiveacid by the option of its scan, of Spark by its catalog."""
    if leaf.catalogTable().isDefined():
        identifier = leaf.catalogTable().get().identifier()
        return TableName(str(identifier.database().get()), str(identifier.table()))
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != _RELATION:
        return None
    named = relation.options().get(TABLE_OPTION)
    return TableName.parse(str(named.get())) if named.isDefined() else None


def _file_relations(frame: DataFrame) -> list[JavaObject]:
    plan: JavaObject = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    return [
        leaf.relation()
        for leaf in scala_items(plan.collectLeaves())
        if leaf.nodeName().startswith("LogicalRelation")
        and leaf.relation().getClass().getSimpleName() == _RELATION
    ]


def collect_garbage(env: SparkEnvironment) -> None:
    """Collect garbage in Python and in the JVM, so that watches see which plans are gone.

    One round is too early for a plan that has run, because Spark releases some of its objects in other threads.
    """
    gc.collect()
    jvm: JVMView = env.spark._jvm  # noqa: SLF001
    _release_java_objects(jvm._gateway_client)  # noqa: SLF001
    jvm.java.lang.System.gc()


def _release_java_objects(client: GatewayClient) -> None:
    """Release the Java objects whose Python references are gone.

    Py4J's own thread does so, but sleeps for a second when its queue is empty (``FinalizerWorker``). Without pinned
    threads (``PYSPARK_PIN_THREAD=false``) Py4J releases objects at once and has no queue.
    """
    waiting = getattr(client, "finalizer_deque", None)
    while waiting:
        try:
            task = waiting.pop()
        except IndexError:  # Py4J's thread was quicker
            return
        if isinstance(task, str):  # the word that ends its thread
            waiting.append(task)
            return
        owner, number = task
        owner.garbage_collect_object(number, enqueue=False)


def release_unused_plans(env: SparkEnvironment, sweep: Callable[[], int], *, patient: bool = False) -> None:
    """Collect garbage, in four rounds at most, until ``sweep`` finds that no snapshot is held.

    A third or fourth round needs a round before that freed a snapshot, or took little time. In the large heap of a session
    that has planned 100,000 files, a round takes 0.3 s.

    ``sweep`` ends the snapshots that no plan needs any more, and returns the number of the others. A caller that wants to
    clean directories releases snapshots first. After a round, running Spark jobs end the rounds: their plans need their
    snapshots, and each round stops all threads of the JVM. ``patient``: they do not.
    """
    held, freed, took = sweep(), False, 0.0
    for turn in range(_MAX_ROUNDS):
        if not held or (turn and not patient and progress(env).stages):
            return
        if turn >= _ROUNDS_WITHOUT_PAUSE:
            if not (freed or patient) and took > _LITTLE_TIME:
                return
            time.sleep(_LATER_PAUSE)
        begun, before = time.monotonic(), held
        collect_garbage(env)
        held, took = sweep(), time.monotonic() - begun
        freed = held < before
