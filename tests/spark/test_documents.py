"""Every piece of Python and SQL in README.md and docs/ runs, page by page, as it stands there."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.sql.native.session import NativeSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
"""Code, and what it prints, if a block of text follows it at once."""
PAGES = tuple(
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if path.name not in {"index.md", "start.md", "tutorial.md"}
    and BLOCK.search(path.read_text(encoding="utf-8"))
)


def run_blocks(text: str, names: dict[str, object]) -> int:
    """Run the blocks of a page in order, all with the same names, and compare what they print; return their number."""
    blocks = BLOCK.findall(text)
    for language, code, expected in blocks:
        printed = io.StringIO()
        if language == "python":
            with redirect_stdout(printed):
                exec(compile(code, "<document>", "exec"), names)  # noqa: S102 - our own documents
        else:
            for statement in code.split(";\n"):
                frame = names["acid"].sql(statement)  # type: ignore[attr-defined]
                frame.collect()
            if expected:
                with redirect_stdout(printed):
                    frame.show()
        if expected:
            assert printed.getvalue().strip() == expected.strip(), code
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


def test_the_tutorial_runs_as_it_stands_with_its_results(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "tutorial"}
    try:
        assert run_blocks(page, names) == len(BLOCK.findall(page))
    finally:
        names["spark"].close()  # type: ignore[attr-defined]
    assert [heading[:1] for heading in re.findall(r"^## (\d.*)$", page, re.MULTILINE)] == [*"12345"]
    assert sum(bool(expected) for *_, expected in BLOCK.findall(page)) > 9
    assert spark.version


COMMAND = re.compile(r'^    ((?=\S)(?:\\\n|"[^"]*"|[^"\n])*)$', re.MULTILINE)
"""Lines go on behind a backslash, and inside double quotes."""


@pytest.mark.exhaustive("the tutorial runs as it stands, and the blocks of the other pages")
def test_the_start_page_runs_as_one_script(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands but those that install, in a shell as a reader types them; then its Python, in the same directory."""
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    commands = [
        command
        for command in COMMAND.findall(BLOCK.sub("", page))
        if "pip " not in command and "venv" not in command
    ]
    begins = ["hiveacid doctor", "hiveacid sql", "hiveacid serve", "JARS=", "java", "python -c"]
    assert [command for command in commands if not command.startswith(tuple(begins))] == []
    assert len(commands) == len(begins)
    doctor, create, serve, *second_terminal = commands
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert "ok pyspark" in shell(doctor)
    shell(create)
    options = "--port 0 --conf spark.driver.memory=1g --grace 0"
    with subprocess.Popen(
        ["bash", "-c", f"exec {serve} {options}"], stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            serves = next(line for line in server.stderr if "serving on 127.0.0.1:" in line)
            port = serves.split("127.0.0.1:")[1].split()[0]
            printed = shell("\n".join(second_terminal).replace("localhost:10000", f"localhost:{port}"))
        finally:
            server.terminate()
            server.stderr.read()
    *_, frame = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert frame in printed
    names: dict[str, object] = {"__name__": "start"}
    assert run_blocks(page, names) == len(BLOCK.findall(page))
    session = names["spark"]
    assert isinstance(session, NativeSession)
    session.close()
    assert spark.version


def shell(commands: str) -> str:
    """Run commands as one script of bash, which ends at the first that fails; return what they print."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_first_lines_of_the_readme_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [
        (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md", "docs/start.md")
    ]
    first, *others = map(BLOCK.search, pages)
    assert first is not None
    assert [other is not None and other[2] for other in others] == [first[2]] * 2
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
