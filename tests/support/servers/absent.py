"""Servers that are not installed here: their tests are skipped, and the report has one line for all of them."""

from __future__ import annotations

from collections import Counter

import pytest

_MARK = "without its server: "


def skip_without(why_not: str | None) -> None:
    """Skip a test if there is a reason why its server cannot run here.

    >>> skip_without(PostgresServer.why_not())
    """
    if why_not is not None:
        pytest.skip(_MARK + why_not)


def gather(skipped: list[pytest.TestReport]) -> tuple[list[pytest.TestReport], str]:
    """Return the skipped tests that lack no server, and one line about the others (empty if there are none)."""
    others: list[pytest.TestReport] = []
    reasons: Counter[str] = Counter()
    for report in skipped:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, mark, reason = text.partition(_MARK)
        if mark:
            reasons[reason] += 1
        else:
            others.append(report)
    said = "; ".join(f"{count} because {reason}" for reason, count in sorted(reasons.items()))
    return others, f"{sum(reasons.values())} tests need servers that are not here: {said}" if said else ""
