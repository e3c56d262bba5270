"""Every piece of Python and SQL in README.md and docs/ runs, page by page, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.sql.native.session import NativeSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = tuple(
    sorted(path for path in (ROOT / "docs").glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8")))
)


def run_blocks(text: str, names: dict[str, object]) -> int:
    """Run the blocks of a page in order, all with the same names; return how many there were."""
    blocks = BLOCK.findall(text)
    for language, code in blocks:
        if language == "python":
            exec(compile(code, "<document>", "exec"), names)  # noqa: S102 - our own documents
            continue
        for statement in code.split(";\n"):
            names["acid"].sql(statement).collect()  # type: ignore[attr-defined]
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_true(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        with hiveacid.connect(spark, warehouse="page") as acid:
            assert run_blocks(page.read_text(encoding="utf-8"), {"spark": spark, "acid": acid}) > 0
    finally:
        for one in spark.catalog.listTables():
            if one.isTemporary:  # the next page may use the name, too
                spark.catalog.dropTempView(one.name)


def test_the_first_lines_of_the_readme_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(first[2], "README.md", "exec"), names)  # noqa: S102 - our own document
    session = names["spark"]
    assert isinstance(session, NativeSession)
    try:
        rows = session.sql("SELECT id, item, qty FROM sales").collect()
    finally:
        session.close()
    assert [tuple(row) for row in rows] == [(1, "tea", 3)]
    assert spark.version
