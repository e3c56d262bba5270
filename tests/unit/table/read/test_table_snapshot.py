"""Runs of Python's garbage collector while a plan is made: rare, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from hiveacid.table.read.table_snapshot import rare_collections


@pytest.fixture(autouse=True)
def own() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield 700, 10, 10
    gc.set_threshold(*before)


def test_thresholds_return_after_the_last_of_several_users(own: tuple[int, int, int]) -> None:
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (100_000, 100_000, 100_000)
    first.__exit__(None, None, None)  # they overlap, as those of two threads
    assert gc.get_threshold() == (100_000, 100_000, 100_000)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == own


def test_thresholds_return_after_an_error(own: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="damaged"), rare_collections():
        raise ValueError("damaged")
    assert gc.get_threshold() == own


@pytest.mark.parametrize("young", [0, 200_000])
def test_a_program_that_has_rarer_runs_keeps_its_own(young: int) -> None:
    gc.set_threshold(young, 10, 10)
    with rare_collections():
        assert gc.get_threshold()[0] == young
    assert gc.get_threshold()[0] == young


def test_thresholds_set_meanwhile_stay() -> None:
    with rare_collections():
        gc.set_threshold(500, 5, 5)
    assert gc.get_threshold() == (500, 5, 5)
