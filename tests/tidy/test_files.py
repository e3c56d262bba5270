"""Rules for every tracked file: the project stands alone and names no machine."""

from __future__ import annotations

import re

import pytest
from sources import ROOT, texts, tracked_files

# Written so that this file keeps the rules it checks.
REGISTRY_HOSTS = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1\.maven\.org|repo\.maven\.apache\.org|registry\.npmjs\.org"
    r"|static\.crates\.io|proxy\.golang\.org|deb\.debian\.org",
    re.IGNORECASE,
)
NEIGHBOUR = re.compile(r"\.\./shared")
MACHINE_PATHS = re.compile(r"/(work|root|home/(?!somebody\b|user\b)\w+|tmp/w)/")
LARGEST_FILE = 5_000_000  # bytes
# What lies at the root, and nothing else: programs that were run there leave their checkpoints and databases.
AT_THE_ROOT = frozenset(
    {".ci", ".github", ".gitignore", "bench", "docs", "examples", "requirements", "src", "tests", "tools"}
    | {
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "STYLE.md",
    }
    | {"CITATION.cff", "Makefile", "mkdocs.yml", "pyproject.toml"}
)
# Left behind by Spark, Hive and streaming queries, wherever they were run.
LEFTOVERS = frozenset(
    {"metastore_db", "spark-warehouse", "derby.log", "commits", "offsets", "sources", "_spark_metadata"}
    | {".hiveacid", "store.db"}
)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_reads_what_lies_beside_the_project() -> None:
    assert lines_with(NEIGHBOUR) == []


def test_no_file_names_a_place_on_a_machine() -> None:
    assert lines_with(MACHINE_PATHS) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY_HOSTS) == []


def test_pinned_requirements_have_hashes_and_no_addresses() -> None:
    compiled = sorted((ROOT / "requirements").glob("*.txt"))
    assert compiled
    for path in compiled:
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, path.name
        assert "index-url" not in text, path.name
        joined = text.replace("\\\n", "")
        pins = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
        assert [line[:40] for line in pins if "==" not in line or "--hash=sha256:" not in line] == []
        assert path.with_suffix(".in").exists()


def test_only_known_names_lie_at_the_root() -> None:
    assert {name.partition("/")[0] for name in tracked_files()} - AT_THE_ROOT == set()


def test_no_warehouse_database_or_checkpoint_was_left_behind() -> None:
    assert [name for name in tracked_files() if LEFTOVERS.intersection(name.split("/"))] == []


def test_no_lock_file_that_records_hosts() -> None:
    forbidden = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json"}
    assert [name for name in tracked_files() if name.rsplit("/", 1)[-1] in forbidden] == []


def test_files_are_of_a_bearable_size() -> None:
    large = {name: size for name in tracked_files() if (size := (ROOT / name).stat().st_size) > LARGEST_FILE}
    assert large == {}


@pytest.mark.parametrize("suffix", [".py", ".md", ".toml", ".sh", ".in", ".yml"])
def test_text_files_end_with_one_newline_and_have_no_loose_ends(suffix: str) -> None:
    untidy = []
    for name, text in texts():
        if not name.endswith(suffix) or name.startswith("tests/golden/"):
            continue
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            untidy.append(f"{name}: end of file")
        untidy += [
            f"{name}:{number}: trailing space or tab"
            for number, line in enumerate(text.splitlines(), 1)
            if line != line.rstrip() or (suffix == ".py" and "\t" in line)
        ]
    assert untidy == []
