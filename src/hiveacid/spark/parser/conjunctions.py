"""Conjunctions in a condition: the texts between its outermost ANDs."""

from __future__ import annotations

from hiveacid.spark.parser.lexer import Token, scan


def split_conjunction(text: str) -> list[str]:
    """Cut a condition at its outermost ANDs; a condition without one, or with an OR beside it, stays whole.

    Parentheses around the condition or a part are removed, and the parts inside of them are cut, too. The caller
    puts each part into parentheses before it joins them again.
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


def _cuts(text: str) -> list[Token]:
    cuts: list[Token] = []
    depth = betweens = 0
    for token in scan(text):
        keyword = token.keyword
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
            cuts.append(token)
    return cuts


def _without_parentheses(text: str) -> str:
    while text.startswith("("):
        depth, last = 0, None
        for last in scan(text):
            depth += (last.keyword == "(") - (last.keyword == ")")
            if depth == 0:
                break
        if depth or last is None or last.end != len(text):
            return text
        text = text[1:-1].strip()
    return text
