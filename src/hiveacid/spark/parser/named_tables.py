"""Names of all tables that a Spark SQL statement reads, writes, defines or drops, from Spark's parsed plan.

Unlike the statement's text, the plan shows names inside ``IDENTIFIER(...)``, in double quotes
(``spark.sql.ansi.doubleQuotedIdentifiers``), from ``${variables}`` and in scripts (``BEGIN ... END``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import common_tables, parser_of, scala_items
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import spark_catalog_tables
from hiveacid.spark.session.error_translation import translate_errors

_RELATIONS = frozenset({"UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView"})
_HANDLERS = 3  # the fourth field of CompoundBody, since Spark 4.1
# Parts of scripts that are no query plans; and WITH, whose subqueries are the tables visited already.
_SCRIPTING = frozenset({"CompoundBody", "ExceptionHandler", "ErrorHandler", "UnresolvedWith"})
_USES = frozenset({"SetCatalogAndNamespace", "SetCatalogCommand", "SetNamespaceCommand"})
_COMPUTED = (
    "{} takes a text that is computed when the statement runs, so that hiveacid cannot tell whether it names a "
    "transactional table of the metastore"
)
# Fields of PlanWithUnresolvedIdentifier since Spark 4; before, its function holds the children.
_WITH_CHILDREN = 3


def named_tables(facts: SparkFacts, text: str) -> list[tuple[str, ...]]:
    """Return the parts of each name, in lower case; names of common table expressions are left out.

    ``named_tables(facts, "INSERT INTO IDENTIFIER('db.t') SELECT * FROM s")`` is ``[("db", "t"), ("s",)]``.
    DROP DATABASE … CASCADE names all tables of the database. The result is empty for a text that Spark's parser refuses,
    because Spark does not run it.

    Raises UnsupportedFeatureError for a name, or a statement of EXECUTE IMMEDIATE, that is computed when the statement
    runs. Also raises it for a script with USE and a name without a database, because USE changes that database.
    """
    walk = _PlanWalk(facts)
    walk.read(text)
    if walk.uses_other and any(len(parts) == 1 for parts in walk.names):
        raise UnsupportedFeatureError(
            "USE in a script changes the database of the names after it, so that hiveacid cannot tell whether they are "
            "those of transactional tables of the metastore: write USE before the script, or database.table in it"
        )
    return walk.names


@dataclass
class _PlanWalk:
    """Collects the names of tables in one statement's plan."""

    facts: SparkFacts
    names: list[tuple[str, ...]] = field(default_factory=list)
    todo: list[tuple[Any, frozenset[str], bool]] = field(default_factory=list)
    uses_other: bool = False  # a USE was seen; outside scripts it is a statement without names

    def read(self, text: str) -> None:
        """Visit the whole plan of a statement; a text that Spark's parser refuses has no names."""
        try:
            with translate_errors():
                plan = parser_of(self.facts).parsePlan(text)
        except HiveAcidError:
            return
        self.visit(plan)
        while self.todo:
            self.look(*self.todo.pop())

    def visit(self, node: Any, scope: frozenset[str] = frozenset(), *, is_table: bool = True) -> None:
        """Schedule a visit of a node; ``scope``: names of the common table expressions that it sees.

        ``is_table``: False below a statement that defines or drops a function or a variable.
        """
        self.todo.append((node, scope, is_table))

    def look(self, node: Any, scope: frozenset[str], is_table: bool) -> None:  # noqa: FBT001 - of `todo`
        """Take a node's name, or visit the nodes below it."""
        kind = node.nodeName()
        if kind == "SingleStatement":  # of a script; its children would be those of the plan
            self.visit(node.parsedPlan())
        elif kind == "UnresolvedIdentifier":
            self.names += [_parts(node.nameParts())] if is_table else []
        elif kind in _RELATIONS:
            self._name(
                _parts(node.multipartIdentifier()), scope if kind == "UnresolvedRelation" else frozenset()
            )
        else:
            if kind in _SPECIAL:
                scope = _SPECIAL[kind](self, node, scope)
            self.uses_other = self.uses_other or kind in _USES
            is_table = "Function" not in kind and "Variable" not in kind
            for child in scala_items(node.children()):
                self.visit(child, scope, is_table=is_table)
            for query in scala_items(node.subqueries()) if kind not in _SCRIPTING else ():
                self.visit(query, scope)

    def _name(self, parts: tuple[str, ...], scope: frozenset[str]) -> None:
        if len(parts) > 1 or parts[0] not in scope:
            self.names.append(parts)

    def common_tables(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit each common table expression."""
        plans, scope = common_tables(node, scope)
        for plan, visible in plans:
            self.visit(plan, visible)
        return scope

    def target(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit an INSERT's table, which is not a child, and never a common table expression."""
        self.visit(node.table())
        return scope

    def past(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit the table before AS OF, which is not a child."""
        self.visit(node.relation(), scope)
        return scope

    def hidden_plan(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit the plan inside EXPLAIN or DESCRIBE QUERY."""
        self.visit(node.logicalPlan() if node.nodeName() == "ExplainCommand" else node.plan(), scope)
        return scope

    def like(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Take the names of CREATE TABLE … LIKE up to Spark 4.0."""
        self.names += [_parts(name.nameParts()) for name in (node.targetTable(), node.sourceTable())]
        return scope

    def handlers(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit the handlers of a script's block."""
        for handler in scala_items(node.productElement(_HANDLERS)) if node.productArity() > _HANDLERS else ():
            self.visit(handler)
        return scope

    def identifier(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Take the name in ``IDENTIFIER('db.t')``; Spark 4.1 and later resolve a literal themselves."""
        expression = node.identifierExpr()
        if expression.nodeName() != "Literal":
            raise UnsupportedFeatureError(f"{_COMPUTED.format('IDENTIFIER(...)')}: write the name itself")
        with translate_errors():
            parts = parser_of(self.facts).parseMultipartIdentifier(str(expression.value().toString()))
        if node.productArity() < _WITH_CHILDREN:  # Spark 3.5: the function holds the rest of the statement
            self.visit(node.planBuilder().apply(parts), scope)
        else:
            self._name(_parts(parts), scope)
        return scope

    def database(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Take all tables of a database that is dropped with them."""
        namespace = node.namespace()
        if node.cascade() and namespace.nodeName() == "PlanWithUnresolvedIdentifier":  # up to Spark 4.0
            raise UnsupportedFeatureError(
                "DROP DATABASE IDENTIFIER(...) CASCADE may drop transactional tables: write the name"
            )
        if node.cascade():
            database = _parts(namespace.multipartIdentifier())[-1]
            self.names += [(database, table) for table in spark_catalog_tables(self.facts, database)]
        return scope

    def immediate(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Visit the statement that EXECUTE IMMEDIATE is about to run."""
        statement: Any = node.productElement(0)
        if not hasattr(statement, "nodeName") or statement.nodeName() != "Literal":
            raise UnsupportedFeatureError(
                f"{_COMPUTED.format('EXECUTE IMMEDIATE')}: write the statement itself"
            )
        self.read(str(statement.value().toString()))
        return scope

    def function(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Take the names in a function's body, which the plan keeps as a text."""
        for body, form in ((node.exprText(), "SELECT ({}\n)"), (node.queryText(), "{}")):
            if body.isDefined():
                self.names += named_tables(self.facts, form.format(body.get()))
        return scope


def _parts(names: Any) -> tuple[str, ...]:
    return tuple(str(part).lower() for part in scala_items(names))


# Nodes with names outside their children; each method returns the scope for the children.
_SPECIAL: Mapping[str, Callable[[_PlanWalk, Any, frozenset[str]], frozenset[str]]] = {
    "UnresolvedWith": _PlanWalk.common_tables,
    "InsertIntoStatement": _PlanWalk.target,
    "RelationTimeTravel": _PlanWalk.past,
    "PlanWithUnresolvedIdentifier": _PlanWalk.identifier,
    "DropNamespace": _PlanWalk.database,
    "CreateTableLikeCommand": _PlanWalk.like,
    "CompoundBody": _PlanWalk.handlers,
    "UnresolvedExecuteImmediate": _PlanWalk.immediate,
    "ExecuteImmediateQuery": _PlanWalk.immediate,
    "CreateUserDefinedFunction": _PlanWalk.function,
    "CreateUserDefinedFunctionCommand": _PlanWalk.function,
    "CreateSQLFunctionCommand": _PlanWalk.function,
    "ExplainCommand": _PlanWalk.hidden_plan,
    "DescribeQueryCommand": _PlanWalk.hidden_plan,
}
