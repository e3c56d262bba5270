"""The documents stay true: what they name exists, and what is generated is up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from sources import ROOT, dotted, python_files, tracked_files

DOCUMENTS = tuple(
    name for name in tracked_files() if name.endswith(".md") and not name.startswith("tests/golden/")
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SHORT_PATH = re.compile(r"`([a-z_]+/[\w/]+\.py)`")
TEST_PATH = re.compile(r"[\w/]*test_\w+\.py")
CODE_PATH = re.compile(r"`((?:src|tests|tools|bench|docs|requirements)/[\w./-]+)`")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    links = LINK.findall(path.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith(("http:", "https:", "mailto:"))]
    assert [link for link in local if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_named_files_exist(name: str) -> None:
    named = CODE_PATH.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_flows_name_files_that_exist() -> None:
    named = SHORT_PATH.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert len(named) > 10
    places = (ROOT / "src/hiveacid", ROOT)
    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def test_each_question_has_one_module_and_each_second_one_a_test() -> None:
    section = (
        (ROOT / "ARCHITECTURE.md")
        .read_text(encoding="utf-8")
        .partition("## One module answers each question")[2]
    )
    rows = [line.split("|")[1:4] for line in section.partition("\n## ")[0].splitlines() if "?" in line]
    assert len(rows) > 10
    for question, module, second in rows:
        assert len(SHORT_PATH.findall(module)) == 1, question
        assert second.strip() == "none" or CODE_PATH.findall(second), question


def test_the_tests_that_stay_for_others_exist() -> None:
    """The reason of a mark may name files below ``tests``, or beside its own."""
    reasons = [
        (file.name, node.args[-1].value)
        for file in python_files("tests/")
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call)
        and dotted(node.func).removeprefix("pytest.mark.") in {"exhaustive", "repeats", "cluster", "sampled"}
        and node.args
        and isinstance(node.args[-1], ast.Constant)
    ]
    assert len(reasons) > 100
    named = [(name, path) for name, reason in reasons for path in TEST_PATH.findall(str(reason))]
    assert len(named) > 20
    places = {(name, path): (ROOT / "tests" / path, (ROOT / name).parent / path) for name, path in named}
    assert [each for each, paths in places.items() if not any(path.exists() for path in paths)] == []


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "tools/generated_pages.py", "--check"]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [name.removeprefix("docs/") for name in DOCUMENTS if name.startswith("docs/")]
    assert pages
    assert [page for page in pages if page not in navigation] == []


def test_the_changelog_knows_this_version() -> None:
    version = re.search(
        r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'__version__ = "{version[1]}"' in (ROOT / "src/hiveacid/__init__.py").read_text(encoding="utf-8")


def test_the_versions_of_the_compatibility_page_are_those_that_ci_installs() -> None:
    page = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
    of_sets = {
        "test": ("pyspark", "pyarrow", "pandas"),
        "spark-4.0": ("pyspark",),
        "spark-3.5": ("pyspark",),
        "arrow": ("polars", "duckdb"),
    }
    for name, packages in of_sets.items():
        pins = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
        for package in packages:
            version = re.search(rf"^{package}==(\S+)", pins, re.MULTILINE)
            assert version is not None, (name, package)
            assert re.search(rf"(?<![\d.]){re.escape(version[1])}(?![\d.]*\d)", page), (
                name,
                package,
                version[1],
            )
