"""The names of the ACID columns and the bits of the bucket property stand in one module; all others build on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sources import python_files

HOME = "src/hiveacid/core/format/acid_columns.py"
# Names that mean nothing else ("operation", "bucket" and "row" do).
NAMES = re.compile(r"\b((original|current)[Tt]ransaction|row[Ii]d|bucketid|writeid)\b")
SHIFTS_IN_SQL = re.compile(r"(\bshift\w*\([^()]*|^), ?(16|29)\)")  # ^: after the value in an f-string
MASKS = {1 << 29, 0xFFF}
# The metastore's structs have a field ``writeid``.
OTHER_FORMATS = "src/hiveacid/stores/hms/"


def docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of texts that stand alone as statements: docstrings and those of constants."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def number(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def copies(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the literals that repeat a fact of the format."""
    ignored = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in ignored:
            text = node.value if isinstance(node.value, str) else ""
            if NAMES.search(text) or SHIFTS_IN_SQL.search(text) or node.value in MASKS:
                yield node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.RShift):
            shifts_variable = number(node.left) is None and isinstance(node.op, ast.LShift)
            if number(node.right) == 29 or (number(node.right) == 16 and shifts_variable):
                yield node


def test_format_facts_have_one_home() -> None:
    found = [
        file.where(node)
        for file in python_files("src/")
        if file.name != HOME and not file.name.startswith(OTHER_FORMATS)
        for node in copies(file.tree)
    ]
    assert found == []


def test_the_rule_finds_copies() -> None:
    for code, expected in (
        ("x = f'{a} AS originalTransaction'", 1),
        ("x = 'struct(a AS writeid, b AS bucketid)'", 1),
        ("x = f'shiftright({value}, 16) & 1'", 1),
        ("x = 'shiftright(bucket, 29)'", 1),
        ("x = bucket << 16", 1),
        ("x = value >> 29", 1),
        ("x = 1 << 16", 0),
        ("x = value & 0xFFF", 1),
        ("def f():\n    '''Return originalTransaction.'''", 0),
    ):
        assert len([*copies(ast.parse(code))]) == expected, code
