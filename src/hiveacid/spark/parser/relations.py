"""Tables that a statement names, found in Spark's parsed plan by one walk.

`read_query` returns those that a query reads, with their nodes in the plan, so that rows of a snapshot can take their place.
`named_tables` returns all that a statement reads, writes, defines or drops, so that Spark never touches a transactional
table by itself. Unlike the statement's text, the plan shows names inside ``IDENTIFIER(...)``, in double quotes
(``spark.sql.ansi.doubleQuotedIdentifiers``), from ``${variables}`` and in scripts (``BEGIN ... END``).

Names of common table expressions look like those of tables; Spark's own rule (``CTESubstitution``) tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from py4j.java_gateway import JavaObject

from hiveacid.errors import HiveAcidError, ParseError, UnsupportedFeatureError
from hiveacid.spark.session.classic_session import spark_catalog_tables
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_spark_error, translate_errors
from hiveacid.spark.session.jvm import java_class, parser_of, scala_items, substitute_variables

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_CTE_RULE = "org.apache.spark.sql.catalyst.analysis.CTESubstitution"
_AT_VERSION = re.compile(r"\s*@\s*v?\d+", re.IGNORECASE)
_OF = re.compile(r"^.*?\bOF\b\s*", re.IGNORECASE | re.DOTALL)
_HANDLERS = 3  # the fourth field of CompoundBody, since Spark 4.1
# Fields of PlanWithUnresolvedIdentifier since Spark 4; before, its function holds the children.
_WITH_CHILDREN = 3
_NAMED = frozenset({"UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView"})
# Parts of scripts that are no query plans.
_SCRIPTING = frozenset({"CompoundBody", "ExceptionHandler", "ErrorHandler"})
# Commands that hide a plan from the functions that visit plans, and their method that returns it.
_HIDING = {"ExplainCommand": "logicalPlan", "DescribeQueryCommand": "plan"}
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
    ``name``: the last part as written. ``node``: the name, with AS OF, in the plan. ``alias``: the node of an alias
    directly above it. ``condition``: the WHERE that all its rows go through first, unless it may refer to other tables.
    ``count_only``: all of the query is a count of its rows. ``derived``: the node of the derived table around it.
    ``changes``: the node of a clause CHANGES FROM behind the name, which Spark has since 4.2.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    name: str
    travel: TimeTravel | None = None
    node: JavaObject = field(default=None, compare=False)
    alias: JavaObject = field(default=None, compare=False)
    condition: JavaObject = field(default=None, compare=False)
    count_only: bool = field(default=False, compare=False)
    derived: JavaObject = field(default=None, compare=False)
    changes: JavaObject = field(default=None, compare=False)

    def text_around(self, text: str) -> str:
        """Return the part of the whole text with the names that may mean columns of the table."""
        origin = None if self.derived is None else self.derived.origin()
        if origin is None or origin.startIndex().isEmpty():
            return text
        return text[int(origin.startIndex().get()) : int(origin.stopIndex().get()) + 1]


@dataclass(frozen=True)
class FunctionCall:
    """A call of a table function in a query: its name as written, its offset in the text, and its node in the plan.

    ``alias``: the node of an alias directly above it.
    """

    name: str
    start: int
    node: JavaObject = field(compare=False)
    alias: JavaObject = field(default=None, compare=False)

    @property
    def arguments(self) -> list[tuple[str, JavaObject]]:
        """The arguments, expressions, each with its name (empty without one)."""
        given = scala_items(self.node.functionArgs())
        return [
            (str(each.key()), each.value()) if each.nodeName() == "NamedArgumentExpression" else ("", each)
            for each in given
        ]


@dataclass(frozen=True)
class QueryReads:
    """Tables and calls that a query names, in the order of its text.

    ``plan``: the parsed plan, without names of common table expressions. ``command``: EXPLAIN or DESCRIBE QUERY around it.
    ``has_subqueries``: in expressions.
    """

    plan: JavaObject
    command: JavaObject
    has_subqueries: bool
    relations: tuple[Relation, ...]
    calls: tuple[FunctionCall, ...]

    def whole(self, plan: JavaObject) -> JavaObject:
        """Return the command around another plan."""
        if self.command is None:
            return plan
        if self.command.nodeName() == "ExplainCommand":
            return self.command.copy(plan, self.command.mode())
        return self.command.copy(self.command.queryText(), plan)


def parsed_query(env: SparkEnvironment, text: str) -> JavaObject:
    """Return Spark's parsed plan of a text. Raises Spark's error."""
    return _parser(env, text).parsePlan(text)


def parsed_expression(env: SparkEnvironment, text: str) -> JavaObject:
    """Return a parsed plan whose ``condition()`` is an expression. Raises Spark's error."""
    no_table = java_class(env, f"{_PLANS}.OneRowRelation")()
    return java_class(env, f"{_PLANS}.Filter")(_parser(env, text).parseExpression(text), no_table)


def read_query(env: SparkEnvironment, text: str, plan: JavaObject, start: int = 0) -> QueryReads:
    """Return what the parsed plan of a text reads; ``start``: from where offsets count.

    Tables are in the order of the text; names of CTEs and streams (``STREAM t``) are left out. Also looks into EXPLAIN, CACHE,
    CREATE VIEW and the like, and into the query (not the target) of an INSERT. Raises UnsupportedFeatureError for names that
    are only known when the query runs (``IDENTIFIER('a' || 'b')``), and for a text with ``${variables}``, which
    `substitute_variables` must replace first.
    """
    hidden = _HIDING.get(str(plan.nodeName()))
    walk = _QueryWalk(env, text, start)
    inner = walk.visit(plan if hidden is None else getattr(plan, hidden)())
    has_subqueries = walk.todo[0].has_subqueries
    walk.run()
    found = sorted(walk.found, key=lambda relation: relation.start)
    command = None if hidden is None else plan
    return QueryReads(inner, command, has_subqueries, tuple(found), tuple(walk.calls))


def named_tables(env: SparkEnvironment, text: str) -> list[tuple[str, ...]]:
    """Return the parts of each name in a statement, in lower case; names of common table expressions are left out.

    ``named_tables(env, "INSERT INTO IDENTIFIER('db.t') SELECT * FROM s")`` is ``[("db", "t"), ("s",)]``.
    DROP DATABASE … CASCADE names all tables of the database. The result is empty for a text that Spark's parser refuses,
    because Spark does not run it.

    Raises UnsupportedFeatureError for a name, or a statement of EXECUTE IMMEDIATE, that is computed when the statement
    runs. Also raises it for a script with USE and a name without a database, because USE changes that database.
    """
    walk = _StatementWalk(env)
    walk.read(text)
    if walk.uses_other and any(len(parts) == 1 for parts in walk.names):
        raise UnsupportedFeatureError(
            "USE in a script changes the database of the names after it, so that hiveacid cannot tell whether they are "
            "those of transactional tables of the metastore: write USE before the script, or database.table in it"
        )
    return walk.names


def _parser(env: SparkEnvironment, text: str) -> JavaObject:
    if substitute_variables(env, text) != text:
        raise UnsupportedFeatureError("variables (${...}) must be replaced before table names are looked for")
    return parser_of(env)


@dataclass(frozen=True)
class _Visit:
    """A node to visit.

    ``kind``: the name of the node's class, for which Spark is asked once. ``parent``: the visit of the node above it in the same
    query. ``is_table``: False below a statement that defines or drops a function or a variable. ``has_subqueries``: of its
    plan. ``nested``: it stands in an expression, and may refer to tables around it.
    """

    node: JavaObject
    kind: str
    parent: _Visit | None = None
    is_table: bool = True
    has_subqueries: bool = True
    nested: bool = False


class _Walk:
    """Visitor of the nodes of a parsed plan; `take` gets each that names a table by `UnresolvedRelation`."""

    def __init__(self, env: SparkEnvironment) -> None:
        self.env = env
        self.todo: list[_Visit] = []

    def visit(self, plan: JavaObject) -> JavaObject:
        """Schedule a visit of a whole plan; return it without names of common table expressions.

        Most plans have no subqueries in expressions, and need only half of the calls.
        """
        kind = str(plan.nodeName())
        if kind in _SCRIPTING:
            has_subqueries = True
        else:
            plan = java_class(self.env, _CTE_RULE).apply(plan)
            has_subqueries = plan.subqueriesAll().size() > 0
            kind = str(plan.nodeName())
        self.todo.append(_Visit(plan, kind, has_subqueries=has_subqueries))
        return plan

    def run(self) -> None:
        """Visit all that is scheduled."""
        while self.todo:
            self.look(self.todo.pop())

    def look(self, visit: _Visit) -> None:
        """Take a node's name, or schedule the nodes below it."""
        match visit.kind:
            case "UnresolvedRelation":
                self.take(tuple(map(str, scala_items(visit.node.multipartIdentifier()))), visit)
            case "RelationTimeTravel" | "RelationChanges":
                self.travel(visit)
            case "PlanWithUnresolvedIdentifier":
                self._identifier(visit)
            case kind if kind in _HIDING:
                self.visit(getattr(visit.node, _HIDING[kind])())
            case _:
                self.below(visit)

    def below(self, visit: _Visit) -> None:
        """Schedule the children and subqueries of a node."""
        node = visit.node
        for child in scala_items(node.children()):
            self.todo.append(replace(visit, node=child, kind=str(child.nodeName()), parent=visit))
        if visit.has_subqueries and visit.kind not in _SCRIPTING:
            for query in scala_items(node.subqueries()):
                self.todo.append(_Visit(query, str(query.nodeName()), nested=True))

    def take(self, names: tuple[str, ...], visit: _Visit) -> None:
        """Keep the name of a table, as it is written."""
        raise NotImplementedError

    def travel(self, visit: _Visit) -> None:
        """Visit the table before AS OF or CHANGES, which is not a child."""
        table = visit.node.relation()
        self.look(replace(visit, node=table, kind=str(table.nodeName())))

    def _identifier(self, visit: _Visit) -> None:
        """Take the name in ``IDENTIFIER('db.t')``; Spark 4.1 and later resolve a literal themselves."""
        node = visit.node
        expression = node.identifierExpr()
        if expression.nodeName() != "Literal":
            raise UnsupportedFeatureError(f"{_COMPUTED.format('IDENTIFIER(...)')}: write the name itself")
        with translate_errors():
            parts = parser_of(self.env).parseMultipartIdentifier(str(expression.value().toString()))
        self.identified(parts, visit)

    def identified(self, parts: JavaObject, visit: _Visit) -> None:
        """Take a name that is known now."""
        self.take(tuple(map(str, scala_items(parts))), visit)
        if visit.node.productArity() >= _WITH_CHILDREN:
            self.below(visit)


class _QueryWalk(_Walk):
    """Walk that finds the tables that a query reads, and their places."""

    def __init__(self, env: SparkEnvironment, text: str, start: int) -> None:
        super().__init__(env)
        self._text = text[start:]
        self._start = start
        self._travel: tuple[TimeTravel, JavaObject] | None = None  # AS OF around the next table, and its node
        self._changes: JavaObject = None  # CHANGES around the next table
        self.found: list[Relation] = []
        self.calls: list[FunctionCall] = []

    def look(self, visit: _Visit) -> None:
        if visit.kind == "UnresolvedTableValuedFunction":
            name = list(map(str, scala_items(visit.node.name())))
            above = visit.parent
            alias = above.node if above is not None and above.kind == "SubqueryAlias" else None
            self.calls.append(FunctionCall(".".join(name), self._place(visit.node)[0], visit.node, alias))
        super().look(visit)

    def take(self, names: tuple[str, ...], visit: _Visit) -> None:
        node = visit.node
        if "stream" in self._text.lower() and visit.kind == "UnresolvedRelation" and node.isStreaming():
            return
        start, end = self._place(node)
        above, alias, condition = visit.parent, None, None
        if above is not None and above.kind == "SubqueryAlias":
            alias, above = above.node, above.parent
        if above is not None and above.kind == "Filter" and not visit.nested:
            condition = above.node.condition()
        is_whole = above is not None and above.parent is None and not visit.nested
        count_only = is_whole and _is_count(above)
        below = visit
        while above is not None and (above.kind != "SubqueryAlias" or below.kind == "Join"):
            below, above = above, above.parent
        travel, node = self._travel or (None, self._changes or node)
        parts = tuple(name.lower() for name in names)
        self.found.append(
            Relation(
                parts,
                start,
                end,
                names[-1],
                travel=travel,
                node=node,
                alias=alias,
                condition=condition,
                count_only=count_only,
                derived=above and above.node,
                changes=self._changes,
            )
        )

    def travel(self, visit: _Visit) -> None:
        is_changes = visit.kind == "RelationChanges"
        self._travel = None if is_changes else (self._clause(visit.node), visit.node)
        self._changes = visit.node if is_changes else None
        super().travel(visit)
        self._travel = self._changes = None

    def _clause(self, node: JavaObject) -> TimeTravel:
        start, end = self._place(node)
        version, name_end = node.version(), self._place(node.relation())[1]
        kind = "VERSION" if version.isDefined() else "TIMESTAMP"
        value = str(version.get()) if version.isDefined() else self._moment(node, self._text[start:end])
        if (suffix := _AT_VERSION.match(self._text, name_end)) is not None:  # t@v1, since Spark 4.3
            start, end = name_end, suffix.end()
        return TimeTravel(kind, value, start, end)

    def _moment(self, node: JavaObject, clause: str) -> str:
        """Return the text of the moment; Spark's own if the offsets are those of a text with the values of parameters."""
        moment = node.timestamp().get()
        text = _OF.sub("", clause)
        try:
            is_same = parser_of(self.env).parseExpression(text).equals(moment)
        except Exception as error:
            if not is_spark_error(error):
                raise
            is_same = False
        return text if is_same else str(moment.sql())

    def _place(self, node: JavaObject) -> tuple[int, int]:
        origin = node.origin()
        if origin.startIndex().isEmpty():
            raise ParseError("Spark's parser does not give the position of a table's name")
        start, stop = int(origin.startIndex().get()), int(origin.stopIndex().get())
        return start - self._start, stop + 1 - self._start


class _StatementWalk(_Walk):
    """Walk that collects all names of tables in a statement."""

    def __init__(self, env: SparkEnvironment) -> None:
        super().__init__(env)
        self.names: list[tuple[str, ...]] = []
        self.uses_other = False  # a USE was seen; outside scripts it is a statement without names

    def read(self, text: str) -> None:
        """Visit the whole plan of a statement; a text that Spark's parser refuses has no names."""
        try:
            with translate_errors():
                plan = parser_of(self.env).parsePlan(text)
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

    def identified(self, parts: JavaObject, visit: _Visit) -> None:
        # Up to Spark 3.5 the function holds the rest of the statement.
        if visit.node.productArity() < _WITH_CHILDREN:
            self.visit(visit.node.planBuilder().apply(parts))
        else:
            super().identified(parts, visit)

    def target(self, node: JavaObject) -> None:
        """Visit an INSERT's table, which is not a child, and never a common table expression."""
        self.visit(node.table())

    def like(self, node: JavaObject) -> None:
        """Take the names of CREATE TABLE … LIKE up to Spark 4.0."""
        self.names += [_parts(name.nameParts()) for name in (node.targetTable(), node.sourceTable())]

    def handlers(self, node: JavaObject) -> None:
        """Visit the handlers of a script's block."""
        for handler in scala_items(node.productElement(_HANDLERS)) if node.productArity() > _HANDLERS else ():
            self.visit(handler)

    def database(self, node: JavaObject) -> None:
        """Take all tables of a database that is dropped with them."""
        namespace = node.namespace()
        if node.cascade() and namespace.nodeName() == "PlanWithUnresolvedIdentifier":  # up to Spark 4.0
            raise UnsupportedFeatureError(
                "DROP DATABASE IDENTIFIER(...) CASCADE may drop transactional tables: write the name"
            )
        if node.cascade():
            database = _parts(namespace.multipartIdentifier())[-1]
            self.names += [(database, table) for table in spark_catalog_tables(self.env, database)]

    def immediate(self, node: JavaObject) -> None:
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

    def function(self, node: JavaObject) -> None:
        """Take the names in a function's body, which the plan keeps as a text."""
        for body, form in ((node.exprText(), "SELECT ({}\n)"), (node.queryText(), "{}")):
            if body.isDefined():
                self.names += named_tables(self.env, form.format(body.get()))


# Nodes with names outside their children.
_SPECIAL: Mapping[str, Callable[[_StatementWalk, JavaObject], None]] = {
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


def _parts(names: JavaObject) -> tuple[str, ...]:
    return tuple(str(part).lower() for part in scala_items(names))


def _is_count(project: _Visit | None) -> bool:
    """Tell whether a projection is ``count(*)`` and nothing more."""
    if project is None or project.kind != "Project" or project.node.projectList().size() != 1:
        return False
    (column,) = scala_items(project.node.projectList())
    if column.nodeName() not in {"Alias", "UnresolvedAlias"}:
        return False
    function = column.child()
    is_call = function.nodeName() == "UnresolvedFunction" and function.filter().isEmpty()
    return is_call and str(function.toString()).lower() == "'count(1)"
