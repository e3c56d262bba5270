"""What the marks of tests leave out at each value of HIVEACID_TEST_ALL, samples, and absent servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import exhaustive
from support.exhaustive import LEVELS, left_out, sample
from support.servers.absent import separate, skip_without

MARKED = """
import pytest
@pytest.mark.exhaustive("a smaller test stays")
def test_long(): ...
@pytest.mark.exhaustive("another case stays", cases=("b", "1]"))
@pytest.mark.parametrize("case", ["a", "b", "bb", "1", "12"])
def test_case(case): ...
@pytest.mark.cluster("a local one stays")
def test_on_workers(): ...
@pytest.mark.sampled(8, "the cases differ in one value each")
@pytest.mark.parametrize("number", range(33))
def test_number(number): ...
@pytest.mark.exhaustive("the same on another server stays", cases=("test_a",))
class TestServer:
    def test_a(self): ...
    def test_b(self): ...
def test_plain(): ...
"""


@pytest.fixture
def collect(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[pytest.Item]]:
    """Return a function that collects a text as a test module."""

    def collected(text: str) -> list[pytest.Item]:
        path = tmp_path / "test_marked.py"
        path.write_text(text)
        session = request.session
        module = pytest.Module.from_parent(session, path=path, name=path.name, nodeid=path.name)
        return list(session.genitems(module))

    at_level(monkeypatch, "")
    return collected


def at_level(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(exhaustive, "LEVEL", LEVELS.index(value))
    monkeypatch.setattr(exhaustive, "ALL", value != "")


def names_left(items: list[pytest.Item]) -> set[str]:
    return {item.name for item in left_out(items) if "number" not in item.name}


def test_each_level_runs_more(
    collect: Callable[[str], list[pytest.Item]], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = collect(MARKED)
    repeated, on_workers = {"test_case[b]", "test_case[bb]", "test_case[1]"}, {"test_on_workers"}
    assert names_left(items) == {"test_long", "test_a", *repeated, *on_workers}
    for value, left in (
        ("1", on_workers),
        ("cluster", set()),
        ("stress", set()),
    ):
        at_level(monkeypatch, value)
        assert names_left(items) == left, value


def test_of_many_cases_some_stay_and_others_with_another_seed(
    collect: Callable[[str], list[pytest.Item]], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [item for item in collect(MARKED) if "number" in item.name]
    monkeypatch.setenv("HIVEACID_TEST_SEED", "3")
    left = left_out(items)
    assert (len(items) - len(left), left_out(reversed(items))) == (5, left)
    monkeypatch.setenv("HIVEACID_TEST_SEED", "4")
    assert left_out(items) not in (left, set(items))
    at_level(monkeypatch, "1")
    assert left_out(items) == set()


def test_a_mark_for_a_case_that_is_gone_is_told(collect: Callable[[str], list[pytest.Item]]) -> None:
    items = collect(MARKED.replace('cases=("b", "1]")', 'cases=("b", "2]")'))
    with pytest.raises(pytest.UsageError, match=r"test_marked\.py::test_case is marked exhaustive for '2\]'"):
        left_out(items)


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ("exhaustive", "gives no reason"),
        ("exhaustive('')", "gives no reason"),
        ("sampled(8)", "gives no reason"),
        ("sampled(1, 'why')", "keeps all"),
    ],
)
def test_a_mark_has_a_reason(collect: Callable[[str], list[pytest.Item]], mark: str, complaint: str) -> None:
    items = collect(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): ...\n")
    with pytest.raises(pytest.UsageError, match=complaint):
        left_out(items)


def test_a_sample_is_drawn_by_the_seed_and_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVEACID_TEST_SEED", "3")
    monkeypatch.setattr(exhaustive, "ALL", False)
    drawn = sample(range(100), 5)
    assert (len(drawn), drawn) == (5, sorted(drawn))
    assert sample(range(100), 5) == drawn
    assert sample("abc", 3) == ["a", "b", "c"]
    monkeypatch.setenv("HIVEACID_TEST_SEED", "4")
    assert sample(range(100), 5) != drawn
    monkeypatch.setattr(exhaustive, "ALL", True)
    assert sample(range(100), 5) == list(range(100))


def report(reason: str) -> pytest.TestReport:
    return pytest.TestReport(
        "x", ("x", 1, "x"), {}, "skipped", ("x.py", 1, f"Skipped: {reason}"), "setup", duration=0.1
    )


def test_absent_servers_are_reported_in_one_line() -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        skip_without("no PostgreSQL server is installed")
    skip_without(None)
    absent = [report(str(skipped.value))] * 3
    other = report("only root may do this")
    line = "3 tests need servers that are not here: 3 because no PostgreSQL server is installed"
    assert separate([*absent, other]) == ([other], absent, line)
    assert separate([other])[:2] == ([other], [])
