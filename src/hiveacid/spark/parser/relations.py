"""Tables that a query names, with the positions of their names, found with Spark's own parser.

Spark names tables in its parsed plan by `UnresolvedRelation`, with the place in the text. Names of common table
expressions look the same there and are told apart here, by Spark's scoping rule (``CTESubstitution``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hiveacid.errors import ParseError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import common_tables, parser_of, scala_items
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.error_translation import translate_errors

_PREFIX = "SELECT ("
# Commands that hold a query where a walk over children does not get.
_HIDDEN_PLANS = {"ExplainCommand": "logicalPlan", "DescribeQueryCommand": "plan"}
_AT_VERSION = re.compile(r"\s*@\s*v?\d+", re.IGNORECASE)
_OF = re.compile(r"^.*?\bOF\b\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class TimeTravel:
    """``[FOR] VERSION|TIMESTAMP AS OF value`` after a table's name: kind, text of the value, offsets of the clause."""

    kind: str  # VERSION | TIMESTAMP
    value: str
    start: int
    end: int


@dataclass(frozen=True)
class Relation:
    """A table's name in a query.

    ``parts``: lower case, without quotes. ``start``, ``end`` (excluded): offsets of the name in code points.
    ``has_alias``: the query gives it another name. ``name``: the last part as written.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    has_alias: bool
    name: str
    travel: TimeTravel | None = None

    @property
    def whole_end(self) -> int:
        """The offset behind the name and AS OF."""
        return self.end if self.travel is None else self.travel.end


def find_relations(facts: SparkFacts, query_text: str) -> list[Relation]:
    """Return the tables that a query names, in the order of the text; names of CTEs are left out.

    Also looks into EXPLAIN, CACHE, CREATE VIEW and the like, and into the query (not the target) of an INSERT.
    Streams (``STREAM t``) are left out. Raises ParseError with line and column; UnsupportedFeatureError for
    names that are only known when the query runs (``IDENTIFIER('a' || 'b')``), and for a text with ``${variables}``, which `substitute_variables` must replace first.
    """
    parser = _parser(facts, query_text)
    with translate_errors():
        plan = parser.parsePlan(query_text)
    return _RelationFinder(parser, query_text).find(plan)


def find_relations_in_expression(facts: SparkFacts, text: str) -> list[Relation]:
    """Return the tables that the subqueries of an expression name; as :func:`find_relations`."""
    parser = _parser(facts, text)
    with translate_errors():
        parser.parseExpression(text)
        # The line break ends a trailing comment.
        whole = f"{_PREFIX}{text}\n)"
        plan = parser.parsePlan(whole)
    return [shift_relation(relation, -len(_PREFIX)) for relation in _RelationFinder(parser, whole).find(plan)]


def substitute_variables(facts: SparkFacts, text: str) -> str:
    """Return a text with its ``${variables}`` replaced as Spark does (``spark.sql.variable.substitute``)."""
    if "${" not in text:
        return text
    jvm: Any = facts.spark._jvm  # noqa: SLF001
    return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))


def shift_relation(relation: Relation, by: int) -> Relation:
    """Return a relation with its offsets moved."""
    travel = relation.travel
    return replace(
        relation,
        start=relation.start + by,
        end=relation.end + by,
        travel=travel and replace(travel, start=travel.start + by, end=travel.end + by),
    )


def _parser(facts: SparkFacts, text: str) -> Any:
    if substitute_variables(facts, text) != text:
        raise UnsupportedFeatureError("variables (${...}) must be replaced before table names are looked for")
    return parser_of(facts)


@dataclass(frozen=True)
class _Visit:
    """A node to visit: the names of CTEs in its scope, and whether its parent gives it an alias."""

    node: Any
    scope: frozenset[str]
    aliased: bool = False


class _RelationFinder:
    """Visitor of one parsed plan, which collects relations."""

    def __init__(self, parser: Any, text: str) -> None:
        self._parser = parser
        self._text = text
        self._found: list[Relation] = []
        self._inner = True

    def find(self, plan: Any) -> list[Relation]:
        # Most queries have neither WITH nor subqueries in expressions, and need only half of the calls.
        self._inner = (
            bool(re.search(r"\bwith\b", self._text, re.IGNORECASE)) or plan.subqueriesAll().size() > 0
        )
        todo = [_Visit(plan, frozenset())]
        while todo:
            todo += self._visit(todo.pop())
        return sorted(self._found, key=lambda relation: relation.start)

    def _visit(self, visit: _Visit) -> Iterator[_Visit]:
        node, scope = visit.node, visit.scope
        kind = node.nodeName()
        match kind:
            case "UnresolvedRelation":
                self._add(node, visit)
            case "RelationTimeTravel":
                self._add(node.relation(), visit, self._travel(node))
            case "PlanWithUnresolvedIdentifier":
                self._add_identifier(node, visit)
            case "UnresolvedWith":
                yield from _with(node, scope)
            case _ if kind in _HIDDEN_PLANS:
                yield _Visit(getattr(node, _HIDDEN_PLANS[kind])(), scope)
            case _:
                aliased = kind == "SubqueryAlias" or (
                    visit.aliased and kind == "UnresolvedSubqueryColumnAliases"
                )
                yield from (_Visit(child, scope, aliased) for child in scala_items(node.children()))
                if self._inner:
                    yield from (_Visit(child, scope) for child in scala_items(node.innerChildren()))

    def _travel(self, node: Any) -> TimeTravel:
        start, end = _place(node)
        text, version = self._text[start:end], node.version()
        kind = "VERSION" if version.isDefined() else "TIMESTAMP"
        name_end = _place(node.relation())[1]
        if (suffix := _AT_VERSION.match(self._text, name_end)) is not None:  # t@v1, since Spark 4.3
            value = version.get() if version.isDefined() else node.timestamp().get().sql()
            return TimeTravel(kind, str(value), name_end, suffix.end())
        return TimeTravel(kind, _OF.sub("", text), start, end)

    def _add(self, node: Any, visit: _Visit, travel: TimeTravel | None = None) -> None:
        if node.nodeName() == "PlanWithUnresolvedIdentifier":
            self._add_identifier(node, visit, travel)
        elif node.nodeName() == "UnresolvedRelation" and not self._is_stream(node):
            self._append(list(scala_items(node.multipartIdentifier())), _place(node), visit, travel)

    def _is_stream(self, node: Any) -> bool:
        return "stream" in self._text.lower() and bool(node.isStreaming())

    def _add_identifier(self, node: Any, visit: _Visit, travel: TimeTravel | None = None) -> None:
        """Add the name in ``IDENTIFIER('db.t')``; the parser of Spark 4.1 and later resolves it itself."""
        expression = node.identifierExpr()
        if expression.nodeName() != "Literal":
            raise UnsupportedFeatureError("the name in IDENTIFIER(...) must be a string literal")
        with translate_errors():
            parts = self._parser.parseMultipartIdentifier(str(expression.value().toString()))
        self._append(list(scala_items(parts)), _place(node), visit, travel)

    def _append(
        self, names: list[str], place: tuple[int, int], visit: _Visit, travel: TimeTravel | None
    ) -> None:
        parts = tuple(name.lower() for name in names)
        if len(parts) == 1 and parts[0] in visit.scope:
            return
        start, end = place
        self._found.append(Relation(parts, start, end, visit.aliased, names[-1], travel=travel))


def _with(node: Any, scope: frozenset[str]) -> Iterator[_Visit]:
    """Visit each CTE and the query."""
    plans, scope = common_tables(node, scope)
    yield from (_Visit(plan, visible) for plan, visible in plans)
    yield from (_Visit(child, scope) for child in scala_items(node.children()))


def _place(node: Any) -> tuple[int, int]:
    origin = node.origin()
    if origin.startIndex().isEmpty():
        raise ParseError("Spark's parser does not give the position of a table's name")
    return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
