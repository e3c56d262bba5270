"""The list of what only ``make test-all`` runs, the samples of ``make test``, and absent servers."""

from __future__ import annotations

import pytest

from support import exhaustive
from support.exhaustive import EXHAUSTIVE, SAMPLED, left_out, sample
from support.servers.absent import separate, skip_without


def test_every_entry_has_a_reason() -> None:
    assert [name for name, reason in EXHAUSTIVE.items() if not reason] == []
    assert [name for name, (share, reason) in SAMPLED.items() if share < 2 or not reason] == []


@pytest.fixture(autouse=True)
def _as_make_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "ALL", False)
    monkeypatch.setattr(exhaustive, "ONCE", False)


def test_ci_leaves_out_what_repeats_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "ALL", True)
    monkeypatch.setattr(exhaustive, "ONCE", True)
    repeated = {name for name, reason in EXHAUSTIVE.items() if reason in exhaustive.REPEATED}
    assert 0 < len(repeated) < len(EXHAUSTIVE)
    assert left_out(EXHAUSTIVE) >= repeated
    cases = [f"{next(iter(SAMPLED))}[{number}]" for number in range(8)]
    assert 0 < len(left_out(cases)) < len(cases)


def test_each_script_runs_by_one_of_both_interfaces() -> None:
    names = {name.partition("[")[2]: name for name in EXHAUSTIVE if name.startswith("sql/")}
    scripts = {f"{name}]" for name in exhaustive._SCRIPTS}
    assert names.keys() == scripts
    other = "sql/test_scripts.py::test_there_are_many_statements_for_each_door"
    assert left_out([*names.values(), other]) == set(names.values())


def test_test_all_leaves_out_what_a_cluster_has_only(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [next(iter(exhaustive.CLUSTER)), next(iter(EXHAUSTIVE)), "unit/test_other.py::test_other"]
    monkeypatch.setattr(exhaustive, "ON_CLUSTER", False)
    assert left_out(names) == set(names[:2])
    monkeypatch.setattr(exhaustive, "ALL", True)
    assert left_out(names) == set(names[:1])
    monkeypatch.setattr(exhaustive, "ON_CLUSTER", True)
    assert left_out(names) == set()


def test_of_many_cases_some_stay_and_others_with_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix, (share, _) = next(iter(SAMPLED.items()))
    cases = [f"{prefix}test_{number}" for number in range(10 * share + 1)]
    monkeypatch.setenv("HIVEACID_TEST_SEED", "3")
    left = left_out(cases)
    assert (len(cases) - len(left), left_out(reversed(cases))) == (11, left)
    monkeypatch.setenv("HIVEACID_TEST_SEED", "4")
    assert left_out(cases) not in (left, set(cases))
    assert left_out(cases[:1]) == set()


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
