"""Every regular expression of the code on long hostile texts: the time grows with the length, and not faster.

A pattern that is matched holds Python's lock. While it runs, no other client is served and no heartbeat is sent.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
import re._constants as sre
import re._parser as sre_parser
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hiveacid
from hiveacid.serve.metadata import matches
from hiveacid.sql.execute.show_rows import matching
from hiveacid.storage.paths import compile_wildcards

SOURCES = Path(hiveacid.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "split", "findall", "finditer", "subn")
SHORT, LONG = 6_000, 18_000
SUSPICIOUS = 0.004
"""Seconds for a short text, from which on the time for a long one is compared: 3 times as much if it is linear, or else 9."""
TOO_LONG = 0.25
BLANKS_AND_SIGNS = " \n\t\"'`\\()[]<>,.:;-_*/a0Z"


def _module_name(path: Path) -> str:
    return ".".join(("hiveacid", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")


def _uses(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the methods that are called on each name."""
    used: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                used.setdefault(node.value.id, set()).add(node.attr)
    return used


def _patterns() -> Iterator[tuple[str, Any, str]]:
    """Yield place, compiled pattern and method of each use: constants of modules, and patterns written into a call of ``re``."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.rglob("*.py"))}
    used_anywhere = _uses(trees.values())
    for path, tree in trees.items():
        place = path.relative_to(SOURCES).as_posix()
        if path.name == "__main__.py":
            continue
        used_here = _uses([tree])
        for name, value in vars(importlib.import_module(_module_name(path))).items():
            entries = value.items() if isinstance(value, dict) else [(None, value)]
            for key, entry in entries:
                if isinstance(entry, re.Pattern):
                    used = used_here if name.startswith("_") else used_anywhere
                    methods = used.get(name, set()) if key is None else {"match"}
                    for method in sorted(methods or {"match"}):
                        yield f"{place}:{name}{'' if key is None else f'[{key}]'}", entry, method
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            module, pattern = node.func.value, node.args[0]
            if isinstance(module, ast.Name) and module.id == "re" and isinstance(pattern, ast.Constant):
                method = node.func.attr if node.func.attr in METHODS else ""
                if method:
                    yield f"{place}:{node.lineno}", re.compile(pattern.value), method


USES = [pytest.param(*use, id=f"{use[0]}-{use[2]}") for use in dict.fromkeys(_patterns())]


def _letter(items: list[Any], random_: random.Random) -> str:
    """Return a letter of a class."""
    if items and items[0][0] is sre.NEGATE:
        refused = {chr(value) for code, value in items[1:] if code is sre.LITERAL}
        return random_.choice([letter for letter in BLANKS_AND_SIGNS if letter not in refused])
    code, value = random_.choice(items)
    if code is sre.RANGE:
        return chr(random_.randint(*value))
    if code is sre.CATEGORY:
        kinds = {sre.CATEGORY_DIGIT: "07", sre.CATEGORY_SPACE: " \n", sre.CATEGORY_WORD: "a0_"}
        return random_.choice(kinds.get(value, "-.!"))
    return chr(value)


def _sample(parsed: Any, random_: random.Random, groups: dict[int, str]) -> list[str]:
    """Return pieces of a text that a parsed pattern probably matches: one for each repetition and each letter."""
    pieces: list[str] = []
    for code, value in parsed:
        if code is sre.LITERAL:
            pieces.append(chr(value))
        elif code is sre.NOT_LITERAL:
            pieces.append(random_.choice([letter for letter in BLANKS_AND_SIGNS if ord(letter) != value]))
        elif code is sre.IN:
            pieces.append(_letter(value, random_))
        elif code is sre.ANY:
            pieces.append(random_.choice(BLANKS_AND_SIGNS))
        elif code is sre.BRANCH:
            pieces += _sample(random_.choice(value[1]), random_, groups)
        elif code in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, inner = value
            for _ in range(random_.randint(least, min(max(least, 2), int(most)))):
                pieces.append("".join(_sample(inner, random_, groups)))
        elif code is sre.SUBPATTERN:
            found = _sample(value[3], random_, groups)
            groups[value[0] or 0] = "".join(found)
            pieces += found
        elif code is sre.ATOMIC_GROUP:
            pieces += _sample(value, random_, groups)
        elif code is sre.GROUPREF:
            pieces.append(groups.get(value, ""))
    return [piece for piece in pieces if piece]


def _hostile_texts(pattern: Any) -> Iterator[tuple[str, str, str]]:
    """Yield texts that begin as a match does, repeat a piece very often, and end wrongly: start, piece and end."""
    is_text = isinstance(pattern.pattern, str)
    source = pattern.pattern if is_text else pattern.pattern.decode("latin-1")
    parsed = sre_parser.parse(source, pattern.flags & (re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE))
    random_ = random.Random(source)
    for letter in BLANKS_AND_SIGNS:
        yield "", letter, "!"
    for _ in range(80):
        pieces = _sample(parsed, random_, {})
        at = random_.randrange(len(pieces) + 1)
        nearby = [*pieces[max(0, at - 1) : at + 2], "".join(pieces), " ", random_.choice(BLANKS_AND_SIGNS)]
        pump = random_.choice([piece for piece in nearby if piece])
        yield "".join(pieces[:at]), pump, random_.choice(("!", "\x00", ""))


def _seconds(pattern: Any, method: str, text: Any) -> float:
    empty = "" if isinstance(text, str) else b""
    call = getattr(pattern, method)
    began = time.thread_time()
    result = call(empty, text) if method in ("sub", "subn") else call(text)
    if method == "finditer":
        deque(result, maxlen=0)  # a list of them would be visited by garbage collections
    return time.thread_time() - began


def _assert_linear(pattern: Any, method: str, parts: tuple[str, str, str]) -> None:
    """Match longer and longer texts, so that a pattern of exponential time ends the test early, too."""
    start, pump, end = parts

    def seconds(length: int) -> float:
        text: Any = start + pump * (length // len(pump)) + end
        if isinstance(pattern.pattern, bytes):
            text = text.encode("latin-1", "replace")
        return _seconds(pattern, method, text)

    for length in (*range(20, 60, 2), 100, 200, 400, 1000):
        assert seconds(length) < TOO_LONG or seconds(length) < TOO_LONG, (
            pattern.pattern,
            method,
            length,
            parts,
        )
    if seconds(SHORT) > SUSPICIOUS:
        short, long = (min(seconds(length) for _ in range(3)) for length in (SHORT, LONG))
        assert long < 5.5 * short, (pattern.pattern, method, short, long, parts)


def _assert_all_linear(pattern: Any, method: str) -> None:
    for parts in _hostile_texts(pattern):
        _assert_linear(pattern, method, parts)


@pytest.mark.parametrize(("place", "pattern", "method"), USES)
def test_each_pattern_takes_a_time_in_proportion_to_its_text(place: str, pattern: Any, method: str) -> None:
    """Whatever the text: letters repeated, and mutations of texts that match."""
    assert place
    _assert_all_linear(pattern, method)


def test_quadratic_and_exponential_patterns_are_found() -> None:
    for source, method in ((r"\s*x", "search"), (r"(\d+)\s*([a-z]*)\s*", "fullmatch"), (r"(a|a)*b", "match")):
        pattern = re.compile(source)
        with pytest.raises(AssertionError):
            _assert_all_linear(pattern, method)


def test_wildcards_match_in_time_that_no_pattern_blows_up() -> None:
    began = time.thread_time()
    assert not matches("%a" * 200 + "b", "a" * 250)
    assert matching(["a" * 128, "ab"], "*a" * 100 + "*b|x|*a*b") == ["ab"]
    assert compile_wildcards(["", *["a"] * 60, "b"], "[^/]").fullmatch("a" * 255) is None
    assert time.thread_time() - began < 5


def test_wildcards_match_any_text_between_their_pieces() -> None:
    assert matching(["sales", "Sales_old", "x"], "sal*|X") == ["sales", "Sales_old", "x"]
    assert matching(["abab", "ab", "aab", "b"], "a%b") == ["abab", "ab", "aab"]
    assert matching(["aba"], "aba*aba") == []
    assert matching(["a\nb"], "a*b") == ["a\nb"]
    assert matching(["abc", "bc"], "abc") == ["abc"]
