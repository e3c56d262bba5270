"""The words of a piece of Spark SQL with their places, where Spark's parser itself tells too little.

Only as much as ``SqlBaseLexer`` needs for telling strings, quoted names and comments from the rest. Places are
Python's (code points), as are those that Spark's parser reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEXEME = re.compile(
    r"""
      (?P<blank>   \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment> /\* )
    | (?P<string>  [rR]'[^']*' | [rR]"[^"]*"
                 | '[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*" )
    | (?P<quoted>  `(?:[^`]|``)*` )
    | (?P<word>    \w+ )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a symbol, a quoted name or a string: its text, where it begins and ends (excluded)."""

    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """The text in upper case, '' for strings and names in back-quotes."""
        return "" if self.text[-1] in "'\"`" else self.text.upper()

    @property
    def name(self) -> str:
        """The text of a name without its back-quotes."""
        return self.text[1:-1].replace("``", "`") if self.text[0] == "`" else self.text


def words(text: str) -> Iterator[Word]:
    """Yield what is neither blank nor comment (hints count as comments)."""
    at = 0
    while found := _LEXEME.match(text, at):
        end = _comment_end(text, at) if found.lastgroup == "comment" else found.end()
        if found.lastgroup not in {"blank", "comment"}:
            yield Word(found.group(), at, end)
        at = end


def _comment_end(text: str, start: int) -> int:
    if text.startswith("/*+", start):
        closing = text.find("*/", start)
        return closing + 2 if closing >= 0 else len(text)
    depth, end = 0, start
    while found := _COMMENT_EDGE.search(text, end):
        depth += -1 if found.group() == "*/" else 1
        end = found.end()
        if depth == 0:
            return end
    return len(text)


def split_conjunction(text: str) -> list[str]:
    """Cut a condition at its outermost ANDs; [the condition] where there is none, or an OR stands beside.

    Parentheses around the whole or a part are taken off and looked into. Whoever joins the parts again has to
    put each into parentheses.
    """
    inner = _without_parentheses(text.strip())
    cuts = _cuts(inner)
    if not cuts:
        return [inner]
    parts, start = [], 0
    for cut in cuts:
        parts.append(inner[start : cut.start])
        start = cut.end
    parts.append(inner[start:])
    return [piece for part in parts for piece in split_conjunction(part)]


def _cuts(text: str) -> list[Word]:
    cuts: list[Word] = []
    depth = betweens = 0
    for word in words(text):
        keyword = word.keyword
        if keyword in {"(", "[", "CASE"}:
            depth += 1
        elif keyword in {")", "]", "END"}:
            depth -= 1
        elif depth:
            continue
        elif keyword == "OR":
            return []
        elif keyword == "BETWEEN":
            betweens += 1
        elif keyword == "AND" and betweens:
            betweens -= 1
        elif keyword == "AND":
            cuts.append(word)
    return cuts


def _without_parentheses(text: str) -> str:
    while text.startswith("("):
        depth, last = 0, None
        for last in words(text):
            depth += (last.keyword == "(") - (last.keyword == ")")
            if depth == 0:
                break
        if depth or last is None or last.end != len(text):
            return text
        text = text[1:-1].strip()
    return text
