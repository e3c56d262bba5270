"""Lease of a plan: as long as a plan made from a snapshot can run, the cleaner must keep the snapshot's files.

Python's garbage collector cannot tell, because a derived DataFrame does not reference its parent. In the JVM all plans,
temporary views and cached plans that derive from a scan share its ``HadoopFsRelation``. A weak reference to that object
is therefore exact (``docs/internals.md``).
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from hiveacid.spark.parser.catalyst import java_class, scala_items
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.jobs import progress

_RELATION = "HadoopFsRelation"
_MAX_ROUNDS = 4
_PAUSE = 0.1  # seconds between later rounds
_ROUNDS_WITHOUT_PAUSE = 2  # the first rounds, which usually release a plan that has run


class RelationWatch:
    """Watch of the plan of a DataFrame that a scan has just made, without a reference to the DataFrame itself.

    It consists of weak references, kept in the JVM, to the file relations of the plan.
    """

    def __init__(self, env: SparkEnvironment, frame: DataFrame) -> None:
        reference = java_class(env, "java.lang.ref.WeakReference")
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        self._lock = threading.Lock()
        self._references = [
            reference(leaf.relation())
            for leaf in scala_items(plan.collectLeaves())
            if leaf.nodeName().startswith("LogicalRelation")
            and leaf.relation().getClass().getSimpleName() == _RELATION
        ]

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


def collect_garbage(env: SparkEnvironment) -> None:
    """Collect garbage in Python and in the JVM, so that watches see which plans are gone.

    One round is too early for a plan that has run, because Spark releases some of its objects in other threads.
    """
    gc.collect()
    jvm: Any = env.spark._jvm  # noqa: SLF001
    _release_java_objects(jvm._gateway_client)  # noqa: SLF001
    jvm.java.lang.System.gc()


def _release_java_objects(client: Any) -> None:
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

    ``sweep`` ends the snapshots that no plan needs any more, and returns the number of the others. A caller that wants to
    clean directories releases snapshots first. After a round, running Spark jobs end the rounds: their plans need their
    snapshots, and each round stops all threads of the JVM. ``patient``: they do not.
    """
    for turn in range(_MAX_ROUNDS):
        if not sweep():
            return
        if turn and not patient and progress(env).stages:
            return
        if turn >= _ROUNDS_WITHOUT_PAUSE:
            time.sleep(_PAUSE)
        collect_garbage(env)
    sweep()
