"""Work for one statement in several threads, as far as Spark, cancelling and heartbeats are concerned all its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from hiveacid.heartbeats import beginner, on_behalf_of
from hiveacid.spark.jobs import thread_like_this, threads_are_apart

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts

T = TypeVar("T")
_LOOK = 0.1  # seconds between two calls of ``stop``


def side_by_side(
    facts: SparkFacts, works: Sequence[Callable[[], T]], most: int, stop: Callable[[], None]
) -> list[T]:
    """Return what ``works`` return, in their order; at most ``most`` of them are under way at once.

    After an error no other begins; the first one is raised when those under way have ended. An exception that comes
    to this thread while it waits (Ctrl-C) is raised, too: until then ``stop``, which must hurry those under way, is
    called again and again, as one may just be between two jobs.

    The threads have this one's tags, pools and other properties of Spark, and what they begin is its own.
    """
    if most == 1 or len(works) == 1 or not threads_are_apart(facts):
        return [work() for work in works]
    crew = _Crew(deque(enumerate(works)), beginner())
    ended = [threading.Event() for _ in range(min(most, len(works)))]
    threads = [thread_like_this(facts, partial(crew.run, one), "hiveacid-beside") for one in ended]
    try:
        for thread in threads:
            thread.start()
        for thread, one in zip(threads, ended, strict=True):
            # not Thread.join: interrupted, it takes a thread for dead (CPython 3.11)
            while not one.wait(1.0) and thread.is_alive():
                pass
        crew.run(
            threading.Event()
        )  # what threads left that could not even begin: the JVM has no more for them
    except BaseException:
        crew.waiting.clear()
        while crew.at_work:
            stop()
            time.sleep(_LOOK)
        raise
    if crew.errors:
        for other in crew.errors[1:]:
            crew.errors[0].add_note(str(other))
        raise crew.errors[0]
    return [crew.found[number] for number in range(len(works))]


@dataclass(frozen=True)
class _Crew(Generic[T]):
    """What the threads share: works by their place, what they returned, who is at work."""

    waiting: deque[tuple[int, Callable[[], T]]]
    first: int
    found: dict[int, T] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)
    at_work: set[int] = field(default_factory=set)

    def run(self, ended: threading.Event) -> None:
        """Do one work after the other until there is none or an error."""
        me = threading.get_ident()
        self.at_work.add(me)  # before it looks for work: who empties ``waiting`` sees who had some
        try:
            with on_behalf_of(self.first):
                while not self.errors and self._one():
                    pass
        finally:
            self.at_work.discard(me)
            ended.set()

    def _one(self) -> bool:
        try:
            number, work = self.waiting.popleft()
        except IndexError:
            return False
        try:
            self.found[number] = work()
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            self.errors.append(error)
        return True
