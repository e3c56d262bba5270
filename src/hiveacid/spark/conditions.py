"""What a condition says about single columns, as Spark itself understands its text.

Spark parses and analyses the text against an empty frame of the table's columns; the analysed tree is then read
from Python. What is not understood is left out: callers may only use the answer to read less, never to decide
which rows qualify.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.errors import ParseException
from pyspark.sql import types as T

from hiveacid.spark.catalyst import explained, java_class, parser_of, session_of
from hiveacid.spark.lexer import Word, split_conjunction, words
from hiveacid.spark.simple import ConditionReader, Simple

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts


@dataclass(frozen=True)
class Conjunct:
    """One of the conditions that all must be true.

    ``text``: the user's own words (put them into parentheses before joining them with others). ``columns``: top-level columns it refers to. ``simple``: set where it is of that form.
    """

    text: str
    columns: frozenset[str]
    simple: Simple | None


def conjuncts(
    facts: SparkFacts, schema: T.StructType, where: str, *, alias: str | None = None
) -> list[Conjunct]:
    """Return those of a condition's conjuncts that depend on nothing but the row.

    Left out: subqueries, functions that are not deterministic, and those that depend on the time or the user
    (a frame may run much later than it is made). ``alias``: a name the columns may be qualified with. On Spark
    Connect, where no tree can be seen, only those of columns, literals and comparisons are known.

    Raises ParseError; NoSuchColumnError naming candidates; SchemaMismatchError, StatementError.
    """
    if not facts.classic:
        return [*_plain(schema, where, alias)]
    patterns = java_class(facts, "org.apache.spark.sql.catalyst.trees.TreePattern")
    with explained():
        pieces = _pieces(parser_of(facts), where, patterns.PLAN_EXPRESSION())
        trees = _analysed(facts, schema, [piece.text for piece in pieces], alias) if pieces else []
    known = []
    for piece in pieces:
        mine, trees = trees[: piece.leaves], trees[piece.leaves :]
        if all(t.deterministic() and not t.containsPattern(patterns.CURRENT_LIKE()) for t in mine):
            known.append(_conjunct(schema, piece.text, mine))
    return known


_COMPARING = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP"}
)
_SYMBOLS = frozenset("()<>=!,.-+*/%")
_MOMENTS = ("now", "today", "tomorrow", "yesterday")  # DATE 'today' is another day when the frame runs


def _plain(schema: T.StructType, where: str, alias: str | None) -> Iterator[Conjunct]:
    """Yield the conjuncts whose words tell that they can mean nothing else: no call, no name but of a column."""
    names = {name.lower() for name in schema.fieldNames()}
    for text in split_conjunction(where):
        seen = list(words(text))
        columns = {word.name.lower() for word in seen if word.name.lower() in names}
        if all(_is_plain(word, names, alias) for word in seen) and not _calls(seen):
            yield Conjunct(text, frozenset(columns), None)


def _is_plain(word: Word, names: set[str], alias: str | None) -> bool:
    if word.text[0] in "'\"":
        return word.text.strip("'\" ").lower() not in _MOMENTS
    if word.text.isdecimal() or word.text in _SYMBOLS:
        return True
    name = word.name.lower()
    return word.keyword in _COMPARING or name in names or (alias is not None and name == alias.lower())


def _calls(seen: Sequence[Word]) -> bool:
    """Tell whether a name stands where a function's would."""
    return any(
        after.text == "(" and before.name.isidentifier() and before.keyword not in _COMPARING
        for before, after in pairwise(seen)
    )


@dataclass(frozen=True)
class _Piece:
    """A conjunct's text and how many conditions Spark makes of it (BETWEEN is two in Spark 3)."""

    text: str
    leaves: int


def _pieces(parser: Any, where: str, subquery: Any) -> list[_Piece]:
    """Return the conjuncts without subqueries; the cut is checked against Spark's own reading."""
    whole = _leaves(parser.parseExpression(where))
    texts = split_conjunction(where)
    try:
        parsed = [_leaves(parser.parseExpression(text)) for text in texts] if len(texts) > 1 else [whole]
    except ParseException:  # cut at an AND that is a name
        parsed = []
    ours = [leaf for leaves in parsed for leaf in leaves]
    if len(ours) != len(whole) or not all(_same(a, b, subquery) for a, b in zip(ours, whole, strict=True)):
        texts, parsed = [where], [whole]
    pairs = zip(texts, parsed, strict=True)
    return [
        _Piece(text.strip(), len(leaves))
        for text, leaves in pairs
        if not any(leaf.containsPattern(subquery) for leaf in leaves)
    ]


def _same(ours: Any, theirs: Any, subquery: Any) -> bool:
    # Two readings of one subquery differ by their ids.
    return bool(ours.equals(theirs)) or (ours.containsPattern(subquery) and theirs.containsPattern(subquery))


def _leaves(tree: Any) -> list[Any]:
    if tree.nodeName() != "And":
        return [tree]
    return [*_leaves(tree.left()), *_leaves(tree.right())]


def _conjunct(schema: T.StructType, text: str, trees: Sequence[Any]) -> Conjunct:
    reader = ConditionReader(schema)
    columns = reader.columns(trees)
    return Conjunct(text, columns, reader.simple(trees) if len(columns) == 1 else None)


def _analysed(facts: SparkFacts, schema: T.StructType, texts: Sequence[str], alias: str | None) -> list[Any]:
    types = java_class(facts, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    frame = session_of(facts).createDataFrame(java_class(facts, "java.util.ArrayList")(), types)
    frame = frame.alias(alias) if alias is not None else frame
    # The line break ends a trailing comment.
    condition = " AND ".join(f"({text}\n)" for text in texts)
    return _leaves(frame.filter(condition).queryExecution().analyzed().condition())
