"""Lower the numbers in ``prose_budget.toml`` to the present violations: python tests/tidy/prose_budget.py."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import test_prose

FILE = Path(__file__).with_suffix(".toml")
HEAD = (
    "# Violations of the rules of test_prose.py that are still there, by document or package. A number may only fall:\n"
    "# python tests/tidy/prose_budget.py lowers them.\n"
)


def present() -> dict[str, dict[str, int]]:
    """Return rule -> document or package -> number of violations."""
    found = test_prose.docstring_findings()
    counts = {
        f"{rule} of docstrings": {name: len(some) for name, some in found[rule].items()} for rule in found
    }
    for rule, findings in test_prose.DOCUMENT_RULES.items():
        counts[f"{rule} of documents"] = {name: len(findings(name)) for name in test_prose.DOCUMENTS}
    return counts


def lowered(budget: Mapping[str, Mapping[str, int]]) -> str:
    """Return the budget's text with each number at most the present one; zeros are left out."""
    counts = present()
    parts = [HEAD]
    for rule, known in budget.items():
        numbers = {name: min(limit, counts.get(rule, {}).get(name, 0)) for name, limit in known.items()}
        lines = [f'"{name}" = {number}' for name, number in sorted(numbers.items()) if number]
        parts.append("\n".join([f'["{rule}"]', *lines, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(lowered(tomllib.loads(FILE.read_text(encoding="utf-8"))), encoding="utf-8")
