"""Tasks on some threads, whose results come in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def map_in_order(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], threads: int) -> Iterator[Any]:
    """Yield the results of ``work`` in the order of the tasks; at most ``threads`` tasks are ahead of the caller."""
    if threads < 2:  # noqa: PLR2004 - the calling thread
        yield from (work(*task) for task in tasks)
        return
    running: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="hiveacid-read")
    try:
        for task in tasks:
            running.append(pool.submit(work, *task))
            if len(running) == threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
