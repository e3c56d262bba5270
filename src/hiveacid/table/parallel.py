"""Threads of one statement: Spark jobs, cancelling and heartbeats treat them as the calling thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from hiveacid.spark.session.jobs import thread_with_job_properties, threads_have_own_jobs
from hiveacid.transactions.heartbeats import on_behalf_of, owner_thread

if TYPE_CHECKING:
    from hiveacid.spark.session.capabilities import SparkFacts

T = TypeVar("T")
_LOOK = 0.1  # seconds between two calls of ``stop``


def run_in_parallel(
    facts: SparkFacts, tasks: Sequence[Callable[[], T]], most: int, stop: Callable[[], None]
) -> list[T]:
    """Return what ``tasks`` return, in their order; at most ``most`` of them are under way at once.

    After an error no other begins; the first one is raised when those under way have ended. An exception that comes
    to this thread while it waits (Ctrl-C) is raised, too: until then ``stop``, which must hurry those under way, is
    called again and again, as one may just be between two jobs.

    The threads have this one's tags, pools and other properties of Spark, and what they begin is its own.
    """
    if most == 1 or len(tasks) == 1 or not threads_have_own_jobs(facts):
        return [work() for work in tasks]
    workers = _WorkerThreads(deque(enumerate(tasks)), owner_thread())
    ended = [threading.Event() for _ in range(min(most, len(tasks)))]
    threads = [
        thread_with_job_properties(facts, partial(workers.run, one), "hiveacid-beside") for one in ended
    ]
    try:
        for thread in threads:
            thread.start()
        for thread, one in zip(threads, ended, strict=True):
            # not Thread.join: interrupted, it takes a thread for dead (CPython 3.11)
            while not one.wait(1.0) and thread.is_alive():
                pass
        workers.run(
            threading.Event()
        )  # what threads left that could not even begin: the JVM has no more for them
    except BaseException:
        workers.waiting.clear()
        while workers.at_work:
            stop()
            time.sleep(_LOOK)
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
        """Do one work after the other until there is none or an error."""
        me = threading.get_ident()
        self.at_work.add(me)  # before it looks for work: who empties ``waiting`` sees who had some
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
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            self.errors.append(error)
        return True
