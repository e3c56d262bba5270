"""Type hints of libraries that ship no types name classes that exist: mypy takes every name of them for Any."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

from sources import dotted, python_files

UNTYPED = {"pyarrow", "pandas", "polars", "duckdb", "py4j"}


def names_of_libraries(tree: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield the uses of untyped libraries: the node, the module and the name of its attribute."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in UNTYPED:
            yield from ((node, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in UNTYPED:
                    modules[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (module := modules.get(dotted(node.value))):
            yield node, module, node.attr


def exists(module: str, name: str) -> bool:
    """Tell whether a module has an attribute or a submodule."""
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def test_names_of_untyped_libraries_exist() -> None:
    unknown = [
        f"{file.where(node)} {module}.{name}"
        for file in python_files("src/")
        for node, module, name in names_of_libraries(file.tree)
        if not exists(module, name)
    ]
    assert unknown == []


def test_the_rule_finds_a_misspelt_name() -> None:
    tree = ast.parse("import pyarrow as pa\ndef f(x: pa.Tabel) -> pa.Table: ...\nfrom pyarrow import fs")
    found = {(module, name, exists(module, name)) for _, module, name in names_of_libraries(tree)}
    assert found == {("pyarrow", "fs", True), ("pyarrow", "Tabel", False), ("pyarrow", "Table", True)}
