"""Work that threads do beside each other: its order, its bound, its errors."""

from __future__ import annotations

import threading

import pytest

from hiveacid.table.arrow_read.record_batches import map_in_order


@pytest.mark.parametrize("threads", [1, 3])
def test_results_have_the_order_of_the_tasks(threads: int) -> None:
    assert [*map_in_order(lambda a, b: a * b, [(n, 2) for n in range(20)], threads)] == [*range(0, 40, 2)]


def test_tasks_run_beside_each_other_but_no_more_than_threads_are_begun() -> None:
    both, begun = threading.Barrier(2, timeout=60), []

    def work(number: int) -> int:
        begun.append(number)
        if number < 2:
            both.wait()
        return number

    results = map_in_order(work, ((number,) for number in range(9)), 2)
    assert next(results) == 0
    assert set(begun) == {0, 1}
    assert [*results] == [*range(1, 9)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_the_work(threads: int) -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        return 10 // (2 - number)

    with pytest.raises(ZeroDivisionError):
        [*map_in_order(work, ((number,) for number in range(99)), threads)]
    assert len(begun) <= 2 + threads


def test_a_caller_that_stops_early_ends_the_threads() -> None:
    results = map_in_order(lambda number: number, ((number,) for number in range(99)), 4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hiveacid-read")]
