"""Threads of one statement, which Spark jobs, cancellation and heartbeats treat like the calling thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.running_jobs_and_plans import thread_with_job_properties, threads_have_own_jobs
from hiveacid.transactions.heartbeats import on_behalf_of, owner_thread

T = TypeVar("T")
_STOP_INTERVAL = 0.1  # seconds between two calls of ``stop``


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
    if most == 1 or len(tasks) == 1 or not threads_have_own_jobs(env):
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
