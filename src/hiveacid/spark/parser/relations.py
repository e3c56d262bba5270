"""Tables that a statement names, found in Spark's parsed plan by one walk.

`find_relations` returns those that a query reads, with their places in the text, so that each can be bound to a snapshot.
`named_tables` returns all that a statement reads, writes, defines or drops, so that Spark never touches a transactional
table by itself. Unlike the statement's text, the plan shows names inside ``IDENTIFIER(...)``, in double quotes
(``spark.sql.ansi.doubleQuotedIdentifiers``), from ``${variables}`` and in scripts (``BEGIN ... END``).

Names of common table expressions look like those of tables and are told apart here, by Spark's scoping rule
(``CTESubstitution``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hiveacid.errors import HiveAcidError, ParseError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import parser_of, scala_items
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import spark_catalog_tables
from hiveacid.spark.session.error_translation import translate_errors

_PREFIX = "SELECT ("
_AT_VERSION = re.compile(r"\s*@\s*v?\d+", re.IGNORECASE)
_OF = re.compile(r"^.*?\bOF\b\s*", re.IGNORECASE | re.DOTALL)
_ALLOWS_RECURSION = 2  # the third field of UnresolvedWith, since Spark 4
_HANDLERS = 3  # the fourth field of CompoundBody, since Spark 4.1
# Fields of PlanWithUnresolvedIdentifier since Spark 4; before, its function holds the children.
_WITH_CHILDREN = 3
_NAMED = frozenset({"UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView"})
# Parts of scripts that are no query plans.
_SCRIPTING = frozenset({"CompoundBody", "ExceptionHandler", "ErrorHandler"})
_WITHOUT_SUBQUERIES = _SCRIPTING | {"UnresolvedWith"}  # of a WITH they are the tables visited already
_USES = frozenset({"SetCatalogAndNamespace", "SetCatalogCommand", "SetNamespaceCommand"})
_COMPUTED = (
    "{} takes a text that is computed when the statement runs, so that hiveacid cannot tell whether it names a "
    "transactional table"
)


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
    names that are only known when the query runs (``IDENTIFIER('a' || 'b')``), and for a text with ``${variables}``, which
    `substitute_variables` must replace first.
    """
    parser = _parser(facts, query_text)
    with translate_errors():
        plan = parser.parsePlan(query_text)
    return _QueryWalk(facts, query_text).relations(plan)


def find_relations_in_expression(facts: SparkFacts, text: str) -> list[Relation]:
    """Return the tables that the subqueries of an expression name; as :func:`find_relations`."""
    parser = _parser(facts, text)
    with translate_errors():
        parser.parseExpression(text)
        # The line break ends a trailing comment.
        whole = f"{_PREFIX}{text}\n)"
        plan = parser.parsePlan(whole)
    return [shift_relation(relation, -len(_PREFIX)) for relation in _QueryWalk(facts, whole).relations(plan)]


def named_tables(facts: SparkFacts, text: str) -> list[tuple[str, ...]]:
    """Return the parts of each name in a statement, in lower case; names of common table expressions are left out.

    ``named_tables(facts, "INSERT INTO IDENTIFIER('db.t') SELECT * FROM s")`` is ``[("db", "t"), ("s",)]``.
    DROP DATABASE … CASCADE names all tables of the database. The result is empty for a text that Spark's parser refuses,
    because Spark does not run it.

    Raises UnsupportedFeatureError for a name, or a statement of EXECUTE IMMEDIATE, that is computed when the statement
    runs. Also raises it for a script with USE and a name without a database, because USE changes that database.
    """
    walk = _StatementWalk(facts)
    walk.read(text)
    if walk.uses_other and any(len(parts) == 1 for parts in walk.names):
        raise UnsupportedFeatureError(
            "USE in a script changes the database of the names after it, so that hiveacid cannot tell whether they are "
            "those of transactional tables of the metastore: write USE before the script, or database.table in it"
        )
    return walk.names


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
    """A node to visit.

    ``kind``: the name of the node's class, for which Spark is asked once. ``scope``: the names of common table expressions
    that it sees. ``has_alias``: its parent gives it an alias. ``is_table``: False below a statement that defines or drops a
    function or a variable. ``has_subqueries``: of its plan.
    """

    node: Any
    kind: str
    scope: frozenset[str] = frozenset()
    has_alias: bool = False
    is_table: bool = True
    has_subqueries: bool = True


class _Walk:
    """Visitor of the nodes of a parsed plan; `take` gets each that names a table by `UnresolvedRelation`."""

    def __init__(self, facts: SparkFacts) -> None:
        self.facts = facts
        self._todo: list[_Visit] = []

    def visit(self, plan: Any, scope: frozenset[str] = frozenset()) -> None:
        """Schedule a visit of a whole plan. Most have no subqueries in expressions, and need only half of the calls."""
        kind = str(plan.nodeName())
        has_subqueries = kind in _SCRIPTING or plan.subqueriesAll().size() > 0
        self._todo.append(_Visit(plan, kind, scope, has_subqueries=has_subqueries))

    def run(self) -> None:
        """Visit all that is scheduled."""
        while self._todo:
            self.look(self._todo.pop())

    def look(self, visit: _Visit) -> None:
        """Take a node's name, or schedule the nodes below it."""
        node = visit.node
        match visit.kind:
            case "UnresolvedRelation":
                self._take(tuple(map(str, scala_items(node.multipartIdentifier()))), visit)
            case "RelationTimeTravel":
                self.travel(visit)
            case "PlanWithUnresolvedIdentifier":
                self._identifier(visit)
            case "UnresolvedWith":
                self.below(replace(visit, scope=self._common_tables(visit)))
            case "ExplainCommand":  # a walk over children does not get to these two plans
                self.visit(node.logicalPlan(), visit.scope)
            case "DescribeQueryCommand":
                self.visit(node.plan(), visit.scope)
            case _:
                self.below(visit)

    def below(self, visit: _Visit) -> None:
        """Schedule the children and subqueries of a node."""
        node, kind = visit.node, visit.kind
        has_alias = kind == "SubqueryAlias" or (visit.has_alias and kind == "UnresolvedSubqueryColumnAliases")
        for child in scala_items(node.children()):
            self._todo.append(replace(visit, node=child, kind=str(child.nodeName()), has_alias=has_alias))
        if visit.has_subqueries and kind not in _WITHOUT_SUBQUERIES:
            for query in scala_items(node.subqueries()):
                self._todo.append(_Visit(query, str(query.nodeName()), visit.scope))

    def _take(self, names: tuple[str, ...], visit: _Visit) -> None:
        if len(names) > 1 or names[0].lower() not in visit.scope:
            self.take(names, visit)

    def take(self, names: tuple[str, ...], visit: _Visit) -> None:
        """Keep the name of a table, as it is written."""
        raise NotImplementedError

    def travel(self, visit: _Visit) -> None:
        """Visit the table before AS OF, which is not a child."""
        table = visit.node.relation()
        self.look(replace(visit, node=table, kind=str(table.nodeName())))

    def _common_tables(self, visit: _Visit) -> frozenset[str]:
        """Schedule each common table expression with the names that it sees: those before it, and its own if it may be recursive.

        Return the names that the query sees.
        """
        node, scope = visit.node, visit.scope
        recursive = node.productArity() > _ALLOWS_RECURSION and bool(node.productElement(_ALLOWS_RECURSION))
        for relation in scala_items(node.cteRelations()):
            name = str(relation._1()).lower()  # noqa: SLF001 - Scala's name of a tuple's element
            self.visit(relation._2(), scope | {name} if recursive else scope)  # noqa: SLF001
            scope |= {name}
        return scope

    def _identifier(self, visit: _Visit) -> None:
        """Take the name in ``IDENTIFIER('db.t')``; Spark 4.1 and later resolve a literal themselves."""
        node = visit.node
        expression = node.identifierExpr()
        if expression.nodeName() != "Literal":
            raise UnsupportedFeatureError(f"{_COMPUTED.format('IDENTIFIER(...)')}: write the name itself")
        with translate_errors():
            parts = parser_of(self.facts).parseMultipartIdentifier(str(expression.value().toString()))
        self.identified(parts, visit)

    def identified(self, parts: Any, visit: _Visit) -> None:
        """Take a name that is known now."""
        self._take(tuple(map(str, scala_items(parts))), visit)
        if visit.node.productArity() >= _WITH_CHILDREN:
            self.below(visit)


class _QueryWalk(_Walk):
    """Walk that finds the tables that a query reads, and their places."""

    def __init__(self, facts: SparkFacts, text: str) -> None:
        super().__init__(facts)
        self._text = text
        self._found: list[Relation] = []
        self._travel: TimeTravel | None = None

    def relations(self, plan: Any) -> list[Relation]:
        """Return the tables in the order of the text."""
        self.visit(plan)
        self.run()
        return sorted(self._found, key=lambda relation: relation.start)

    def take(self, names: tuple[str, ...], visit: _Visit) -> None:
        node = visit.node
        if "stream" in self._text.lower() and visit.kind == "UnresolvedRelation" and node.isStreaming():
            return
        parts = tuple(name.lower() for name in names)
        start, end = _place(node)
        self._found.append(Relation(parts, start, end, visit.has_alias, names[-1], self._travel))

    def travel(self, visit: _Visit) -> None:
        self._travel = self._clause(visit.node)
        super().travel(visit)
        self._travel = None

    def _clause(self, node: Any) -> TimeTravel:
        start, end = _place(node)
        text, version = self._text[start:end], node.version()
        kind = "VERSION" if version.isDefined() else "TIMESTAMP"
        name_end = _place(node.relation())[1]
        if (suffix := _AT_VERSION.match(self._text, name_end)) is not None:  # t@v1, since Spark 4.3
            value = version.get() if version.isDefined() else node.timestamp().get().sql()
            return TimeTravel(kind, str(value), name_end, suffix.end())
        return TimeTravel(kind, _OF.sub("", text), start, end)


class _StatementWalk(_Walk):
    """Walk that collects all names of tables in a statement."""

    def __init__(self, facts: SparkFacts) -> None:
        super().__init__(facts)
        self.names: list[tuple[str, ...]] = []
        self.uses_other = False  # a USE was seen; outside scripts it is a statement without names

    def read(self, text: str) -> None:
        """Visit the whole plan of a statement; a text that Spark's parser refuses has no names."""
        try:
            with translate_errors():
                plan = parser_of(self.facts).parsePlan(text)
        except HiveAcidError:
            return
        self.visit(plan)
        self.run()

    def look(self, visit: _Visit) -> None:
        node, kind = visit.node, visit.kind
        if kind == "SingleStatement":  # of a script; its children would be those of the plan
            self.visit(node.parsedPlan())
        elif kind == "UnresolvedIdentifier":
            self.names += [_parts(node.nameParts())] if visit.is_table else []
        elif kind in _NAMED:
            self.names.append(_parts(node.multipartIdentifier()))
        else:
            if kind in _SPECIAL:
                _SPECIAL[kind](self, node)
            self.uses_other = self.uses_other or kind in _USES
            super().look(replace(visit, is_table="Function" not in kind and "Variable" not in kind))

    def take(self, names: tuple[str, ...], visit: _Visit) -> None:  # noqa: ARG002 - of `_Walk`
        self.names.append(tuple(name.lower() for name in names))

    def travel(self, visit: _Visit) -> None:
        super().travel(visit)
        self.below(visit)

    def identified(self, parts: Any, visit: _Visit) -> None:
        # Up to Spark 3.5 the function holds the rest of the statement.
        if visit.node.productArity() < _WITH_CHILDREN:
            self.visit(visit.node.planBuilder().apply(parts), visit.scope)
        else:
            super().identified(parts, visit)

    def target(self, node: Any) -> None:
        """Visit an INSERT's table, which is not a child, and never a common table expression."""
        self.visit(node.table())

    def like(self, node: Any) -> None:
        """Take the names of CREATE TABLE … LIKE up to Spark 4.0."""
        self.names += [_parts(name.nameParts()) for name in (node.targetTable(), node.sourceTable())]

    def handlers(self, node: Any) -> None:
        """Visit the handlers of a script's block."""
        for handler in scala_items(node.productElement(_HANDLERS)) if node.productArity() > _HANDLERS else ():
            self.visit(handler)

    def database(self, node: Any) -> None:
        """Take all tables of a database that is dropped with them."""
        namespace = node.namespace()
        if node.cascade() and namespace.nodeName() == "PlanWithUnresolvedIdentifier":  # up to Spark 4.0
            raise UnsupportedFeatureError(
                "DROP DATABASE IDENTIFIER(...) CASCADE may drop transactional tables: write the name"
            )
        if node.cascade():
            database = _parts(namespace.multipartIdentifier())[-1]
            self.names += [(database, table) for table in spark_catalog_tables(self.facts, database)]

    def immediate(self, node: Any) -> None:
        """Visit the statement that EXECUTE IMMEDIATE is about to run."""
        if node.nodeName() == "ExecuteImmediateQuery":  # Spark 4.0: a text, or the name of a variable
            text = node.query().left().toOption()
            statement = text.get() if text.isDefined() else None
        else:
            expression = node.productElement(0)
            statement = expression.value() if expression.nodeName() == "Literal" else None
        if statement is None:
            raise UnsupportedFeatureError(
                f"{_COMPUTED.format('EXECUTE IMMEDIATE')}: write the statement itself"
            )
        self.read(statement if isinstance(statement, str) else str(statement.toString()))

    def function(self, node: Any) -> None:
        """Take the names in a function's body, which the plan keeps as a text."""
        for body, form in ((node.exprText(), "SELECT ({}\n)"), (node.queryText(), "{}")):
            if body.isDefined():
                self.names += named_tables(self.facts, form.format(body.get()))


# Nodes with names outside their children.
_SPECIAL: Mapping[str, Callable[[_StatementWalk, Any], None]] = {
    "InsertIntoStatement": _StatementWalk.target,
    "DropNamespace": _StatementWalk.database,
    "CreateTableLikeCommand": _StatementWalk.like,
    "CompoundBody": _StatementWalk.handlers,
    "UnresolvedExecuteImmediate": _StatementWalk.immediate,
    "ExecuteImmediateQuery": _StatementWalk.immediate,
    "CreateUserDefinedFunction": _StatementWalk.function,
    "CreateUserDefinedFunctionCommand": _StatementWalk.function,
    "CreateSQLFunctionCommand": _StatementWalk.function,
}


def _parts(names: Any) -> tuple[str, ...]:
    return tuple(str(part).lower() for part in scala_items(names))


def _place(node: Any) -> tuple[int, int]:
    origin = node.origin()
    if origin.startIndex().isEmpty():
        raise ParseError("Spark's parser does not give the position of a table's name")
    return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
