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


def separate(
    skipped: list[pytest.TestReport],
) -> tuple[list[pytest.TestReport], list[pytest.TestReport], str]:
    """Return the skipped tests that lack no server, those that do, and one line about the latter."""
    reasons = [report.longrepr[2] if isinstance(report.longrepr, tuple) else "" for report in skipped]
    others = [report for report, reason in zip(skipped, reasons, strict=True) if _MARK not in reason]
    absent = [report for report, reason in zip(skipped, reasons, strict=True) if _MARK in reason]
    counts = Counter(reason.partition(_MARK)[2] for reason in reasons if _MARK in reason)
    said = "; ".join(f"{count} because {reason}" for reason, count in sorted(counts.items()))
    return others, absent, f"{len(absent)} tests need servers that are not here: {said}"
