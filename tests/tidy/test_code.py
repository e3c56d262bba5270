"""STYLE.md's rules for code, as far as a machine can check them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator

import pytest
from sources import ROOT, FunctionNode, PythonFile, dotted, python_files

MOST_LINES_OF_A_MODULE = 600
MOST_LINES_OF_A_FUNCTION = 100
MOST_MODULES_OF_A_PACKAGE = 20  # besides __init__.py

# The only packages that may use pyspark when they run (for type hints everybody may).
SPARK_PACKAGES = (
    "src/hiveacid/spark/",
    "src/hiveacid/datasource/",
    "src/hiveacid/sql/native",
    "src/hiveacid/serve/",
)
# Where the time of day may be asked: the clock itself, and what talks to a person.
CLOCK_PACKAGES = ("src/hiveacid/ports/clock.py", "src/hiveacid/cli/", "tools/", "bench/")
WALL_CLOCK = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "date.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
}
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)(_|$)")

SOURCES = python_files("src/")
EVERYTHING = python_files()


def test_there_is_code_to_look_at() -> None:
    assert any(file.name == "src/hiveacid/errors.py" for file in SOURCES)


def test_modules_are_short() -> None:
    lengths = {file.name: file.text.count("\n") for file in EVERYTHING}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_MODULE} == {}


def test_packages_are_small() -> None:
    modules = Counter(
        file.name.rpartition("/")[0] for file in SOURCES if not file.name.endswith("/__init__.py")
    )
    assert {name: count for name, count in modules.items() if count > MOST_MODULES_OF_A_PACKAGE} == {}


def test_functions_are_short() -> None:
    long = [
        f"{file.where(node)} {node.name}: {length} lines"
        for file in EVERYTHING
        for node in file.functions()
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_module_names_say_what_they_hold() -> None:
    names = [file.name for file in SOURCES if EMPTY_NAMES.search(file.name.rsplit("/", 1)[-1][: -len(".py")])]
    assert names == []


def public_definitions(file: PythonFile) -> Iterator[ast.AST]:
    """Yield the module, its public classes and functions, and the public methods of the former."""
    yield file.tree
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in file.tree.body:
        if not isinstance(node, definitions) or node.name.startswith("_"):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            yield from (
                item for item in node.body if isinstance(item, definitions) and not item.name.startswith("_")
            )


def is_overload(node: ast.AST) -> bool:
    """Tell whether a function is only a signature for the type checker."""
    return any(dotted(item).endswith("overload") for item in getattr(node, "decorator_list", ()))


def test_the_public_surface_is_documented() -> None:
    bare = [
        f"{file.where(node)} {getattr(node, 'name', 'module')}"
        for file in SOURCES
        if file.text.strip()
        for node in public_definitions(file)
        if not is_overload(node) and not ast.get_docstring(node)  # type: ignore[arg-type]
    ]
    assert bare == []


def imports_at_run_time(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield imports outside ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and dotted(child.test).endswith("TYPE_CHECKING"):
            for branch in child.orelse:
                yield from imports_at_run_time(branch)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from imports_at_run_time(child)


def imported_packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the top-level packages that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        return set() if node.level else {(node.module or "").split(".")[0]}
    return {alias.name.split(".")[0] for alias in node.names}


def imports_outside(package: set[str], packages: tuple[str, ...]) -> list[str]:
    return [
        file.where(node)
        for file in SOURCES
        if not file.name.startswith(packages)
        for node in imports_at_run_time(file.tree)
        if imported_packages(node) & package
    ]


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the type hints of arguments, results and variables."""
    for node in ast.walk(tree):
        hint = node.returns if isinstance(node, FunctionNode) else getattr(node, "annotation", None)
        if isinstance(hint, ast.expr):
            yield hint


def is_for_type_hints(tree: ast.AST, node: ast.Import | ast.ImportFrom) -> bool:
    """Tell whether all names that an import binds stand in type hints only."""
    names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    hints = {id(part) for hint in annotations(tree) for part in ast.walk(hint)}
    uses = (part for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id in names)
    return all(id(use) in hints for use in uses)


def test_spark_stays_in_its_packages() -> None:
    outside = [
        file.where(node)
        for file in SOURCES
        if not file.name.startswith(SPARK_PACKAGES)
        for node in imports_at_run_time(file.tree)
        if imported_packages(node) & {"pyspark", "py4j"} and not is_for_type_hints(file.tree, node)
    ]
    assert outside == []


def test_the_rule_about_spark_tells_uses_from_type_hints() -> None:
    line = "from pyspark.sql import DataFrame"
    for use, is_allowed in (
        ("def f(x: DataFrame) -> list[DataFrame]: ...", True),
        ("class C:\n    frame: DataFrame | None = None", True),
        ("def f(x: object) -> bool:\n    return isinstance(x, DataFrame)", False),
        ("def f(x: DataFrame) -> object:\n    return DataFrame(x)", False),
    ):
        tree = ast.parse(f"{line}\n{use}")
        imported = tree.body[0]
        assert isinstance(imported, ast.ImportFrom)
        assert is_for_type_hints(tree, imported) is is_allowed, use


def test_sql_libraries_stay_in_their_package() -> None:
    assert imports_outside({"sqlalchemy"}, ("src/hiveacid/stores/",)) == []


# Modules that still import each other. The list may only become shorter.
CYCLES_LEFT: set[str] = set()


def names_given_twice(tree: ast.Module) -> set[str]:
    given = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]
    return {name for name in given if given.count(name) > 1}


def test_no_module_gives_a_name_to_two_values() -> None:
    """Of two settings of one name the first would be unknown everywhere, and the linters do not tell."""
    assert names_given_twice(ast.parse("A = 1\nB = 2\nA: int = 3")) == {"A"}
    assert {file.name: twice for file in SOURCES if (twice := names_given_twice(file.tree))} == {}


def module_name(file: PythonFile) -> str:
    return file.name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_modules(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """Yield the modules that a file imports: at its top, in its functions, and for typing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            yield from submodules or {node.module} & modules


def modules_in_cycles(imports: dict[str, set[str]]) -> set[str]:
    """Take away, as long as there is one, a module that imports no other one or is imported by no other one."""
    left = dict(imports)
    while True:
        imported = set().union(*left.values()) & set(left)
        ends = {name for name, needs in left.items() if not needs & set(left) or name not in imported}
        if not ends:
            return set(left)
        left = {name: needs for name, needs in left.items() if name not in ends}


def test_modules_do_not_import_each_other() -> None:
    names = {module_name(file) for file in SOURCES}
    imports = {
        name: set(imported_modules(file.tree, names)) - {name}
        for file in SOURCES
        for name in [module_name(file)]
    }
    assert modules_in_cycles(imports) == CYCLES_LEFT


def test_the_rule_about_cycles_sees_those_of_functions_and_types() -> None:
    first = "if TYPE_CHECKING:\n    from package.second import B"
    second = "def late():\n    from package import first"
    names = {"package", "package.first", "package.second", "package.third"}
    imports = {
        "package.first": set(imported_modules(ast.parse(first), names)),
        "package.second": set(imported_modules(ast.parse(second), names)),
        "package.third": set(imported_modules(ast.parse("import package.first"), names)),
    }
    assert modules_in_cycles(imports) == {"package.first", "package.second"}


def test_the_core_needs_the_standard_library_only() -> None:
    import sys  # noqa: PLC0415

    foreign = [
        f"{file.where(node)} {package}"
        for file in SOURCES
        if file.name.startswith("src/hiveacid/core/")
        for node in imports_at_run_time(file.tree)
        for package in imported_packages(node)
        if package != "hiveacid" and package not in sys.stdlib_module_names
    ]
    assert foreign == []


def test_the_time_comes_from_the_clock() -> None:
    asked = [
        f"{file.where(node)} {dotted(node.func)}"
        for file in SOURCES
        if not file.name.startswith(CLOCK_PACKAGES)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and dotted(node.func) in WALL_CLOCK
    ]
    assert asked == []


def lacks_reason(node: ast.Call) -> bool:
    """Tell whether a skip or xfail says nothing about why."""
    name = dotted(node.func).removeprefix("pytest.")
    keywords = {keyword.arg for keyword in node.keywords}
    if name in {"mark.skip", "mark.skipif", "mark.xfail"}:
        return "reason" not in keywords and not (name == "mark.skip" and node.args)
    if name in {"skip", "xfail"}:
        return not node.args and "reason" not in keywords
    return False


def test_skips_say_why() -> None:
    silent = []
    for file in python_files("tests/"):
        called = {id(node.func) for node in ast.walk(file.tree) if isinstance(node, ast.Call)}
        for node in ast.walk(file.tree):
            bare = isinstance(node, ast.Attribute) and id(node) not in called
            if (isinstance(node, ast.Call) and lacks_reason(node)) or (
                bare and dotted(node) in {"pytest.mark.skip", "pytest.mark.xfail"}
            ):
                silent.append(file.where(node))
    assert silent == []


@pytest.mark.parametrize(
    ("call", "silent"),
    [
        ("pytest.skip()", True),
        ("pytest.skip('no Hive here')", False),
        ("pytest.mark.skip", False),  # not a call: the caller looks at it
        ("pytest.mark.skip(reason='x')", False),
        ("pytest.mark.skipif(True)", True),
        ("pytest.mark.skipif(True, reason='x')", False),
        ("pytest.mark.xfail(strict=True)", True),
    ],
)
def test_the_rule_about_skips_sees_what_it_should(call: str, *, silent: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert (isinstance(node, ast.Call) and lacks_reason(node)) is silent


def code_lines(file: PythonFile) -> int:
    """Count the lines that are neither blank, comments, docstrings nor imports."""
    lines = enumerate(file.text.splitlines(), 1)
    left = {number for number, line in lines if line.strip() and not line.lstrip().startswith("#")}
    for node in ast.walk(file.tree):
        is_docstring = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            left -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(left)


def test_packages_keep_their_budget_of_code_lines() -> None:
    """`pyproject.toml` has the budgets; a commit that raises one says why."""
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hiveacid"][
        "code-lines"
    ]
    lines: Counter[str] = Counter()
    for file in SOURCES:
        parts = file.name.removeprefix("src/hiveacid/").split("/")
        lines[parts[0] if len(parts) > 1 else "hiveacid"] += code_lines(file)
    assert {
        name: (count, budgets.get(name)) for name, count in lines.items() if count > budgets.get(name, 0)
    } == {}
    assert set(budgets) == set(lines)


def test_lines_of_code_are_counted_without_what_explains_them() -> None:
    text = '"""Doc."""\n\nimport os\n\n# why\nX = (\n    1,\n)\n\n\ndef f():\n    """Do."""\n    return os\n'
    file = PythonFile("x.py")
    file.__dict__.update(text=text, tree=ast.parse(text))
    assert code_lines(file) == 5
