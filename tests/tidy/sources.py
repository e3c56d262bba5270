"""The project's own files, as the style rules see them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class PythonFile:
    """A Python file with its syntax tree; ``name`` is relative to the project's root."""

    name: str

    @cached_property
    def text(self) -> str:
        """Source text."""
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree."""
        return ast.parse(self.text, filename=self.name)

    def functions(self) -> Iterator[FunctionNode]:
        """Every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                yield node

    def where(self, node: ast.AST) -> str:
        """Return ``file:line`` of a node."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


@cache
def tracked_files() -> tuple[str, ...]:
    """Files that git knows or would add, relative to the root; ignored ones are left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted({name for name in listed.splitlines() if (ROOT / name).is_file()}))


def python_files(*prefixes: str) -> tuple[PythonFile, ...]:
    """Python files below the given directories (all, if none is given)."""
    return tuple(
        _python_file(name)
        for name in tracked_files()
        if name.endswith(".py") and (not prefixes or name.startswith(prefixes))
    )


@cache
def _python_file(name: str) -> PythonFile:
    """Return the one object of a file, whose tree is made once for all rules."""
    return PythonFile(name)


def texts() -> Iterator[tuple[str, str]]:
    """Name and content of every text file; packed data and other binaries are left out."""
    for name in tracked_files():
        data = (ROOT / name).read_bytes()
        if b"\0" in data[:8192]:
            continue
        try:
            yield name, data.decode("utf-8")
        except UnicodeDecodeError:
            continue


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for a name or attribute, otherwise an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""
