"""Sentences of the documents and docstrings, as the style rules count them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sources import PythonFile

MOST_WORDS = 30

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_BLOCK_START = re.compile(r"^\s*([-*+]|\d+\.)\s+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)[\"')*_]*\s+(?=[\"'(*_]*(?:[A-Z0-9]|hiveacid\b))"
)
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Sentence:
    """A sentence with the line that its paragraph begins on; code counts as one word."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """Return the number of words: whatever stands between blanks and holds a letter or a digit."""
        return sum(bool(_WORD.search(word)) for word in self.text.split())


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def markdown_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a page. Code blocks are left out; cells of tables and list items stand alone."""
    for line, paragraph in _paragraphs(_COMMENT.sub(_blank, _FENCE.sub(_blank, text)).splitlines()):
        yield from _split(line, paragraph)


def _paragraphs(lines: list[str]) -> Iterator[tuple[int, str]]:
    start, in_list = 1, False
    gathered: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        item = _BLOCK_START.match(line)
        code = not in_list and not gathered and line.startswith("    ")
        alone = line.lstrip().startswith(("|", "#"))
        if gathered and (not line.strip() or item or alone):
            yield start, " ".join(gathered)
            gathered.clear()
        if line.strip() and not line.startswith(" ") and not item:
            in_list = False
        if not line.strip() or code:
            continue
        if alone:
            for cell in line.replace("\\|", "/").split("|"):
                yield number, cell.strip().lstrip("#")
            continue
        in_list = in_list or item is not None
        if not gathered:
            start = number
        gathered.append(line[item.end() if item else 0 :].strip())


def _split(line: int, paragraph: str) -> Iterator[Sentence]:
    text = _CODE.sub("Code", _LINK.sub(r"\1", paragraph))
    for sentence in _SENTENCE_END.split(text):
        if sentence.strip():
            yield Sentence(line, sentence.strip())


def docstrings(file: PythonFile) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring of a module, class or function, and of documented constants."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text


def docstring_sentences(file: PythonFile) -> Iterator[Sentence]:
    """Yield the sentences of a file's docstrings."""
    for start, text in docstrings(file):
        for line, paragraph in _paragraphs(text.splitlines()):
            yield from _split(start + line - 1, paragraph)
