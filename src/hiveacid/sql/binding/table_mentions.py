"""Table names in a query with their exact offsets, found by sqlglot, and the clauses of time travel behind them.

Sessions without Spark's own parser (Spark Connect) use this module; tests compare it with
`hiveacid.spark.parser.relations`. No other module imports sqlglot. sqlglot only parses the query: Spark receives the
user's text with the names replaced at these offsets.

sqlglot is an optional dependency: callers import this module inside functions, and the import raises ConfigError
without sqlglot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hiveacid.core.schema.types import position
from hiveacid.errors import ConfigError, ParseError
from hiveacid.spark.parser.lexer import Token, TokenKind, tokenize
from hiveacid.spark.parser.relations import Relation, TimeTravel, shift_relation
from hiveacid.sql.grammar.create_table import QUERY_WORDS
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.statements.values import Slice

try:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError as SqlglotParseError
except ModuleNotFoundError as error:
    raise ConfigError(
        "sqlglot is not installed; without Spark's own parser (Spark Connect) it finds the tables of a query: "
        "pip install 'hiveacid[connect]'"
    ) from error

_DIALECT = "spark"


def find_mentions_and_travel(piece: Slice, before: str = "") -> list[Relation]:
    """Return the tables of a piece, with clauses of time travel, which are hidden from sqlglot.

    ``before``, and the errors, as for `find_table_mentions`.
    """
    text, (plain, clauses) = piece.text, cut_time_travel_clauses(piece)
    relations = []
    for relation in find_table_mentions(plain, before):
        behind = (c for c in clauses if relation.end <= c.start and not text[relation.end : c.start].strip())
        travel = next(behind, None)
        if travel is not None and relation.alias_at is not None:
            relation = replace(relation, alias_at=max(relation.alias_at, travel.end))  # noqa: PLW2901
        relations.append(replace(relation, travel=travel))
    return relations


def find_table_mentions(text: str, before: str = "") -> list[Relation]:
    """Return the tables that a query names, as Spark's parser would; names of CTEs are left out.

    ``before``: the prefix that makes a query of a piece: ``"SELECT "`` for an expression, ``"SELECT * FROM "`` for a
    source. Offsets count from the beginning of ``text``. Raises ParseError if sqlglot does not understand the text, or if
    a table's name is computed at run time (``IDENTIFIER(...)``).
    """
    statement = before + text
    tokens = tokenize(statement)
    cursor = Cursor(statement, tokens=tokens)
    if cursor.take("TABLE"):
        return [_table_statement(cursor)]
    if not cursor.sees_any(QUERY_WORDS):
        cursor.fail("a query")
    tree = _parse(statement, len(before))
    relations: list[Relation] = []
    for table in tree.find_all(exp.Table):
        if table.find_ancestor(exp.Hint) is None and not _is_cte(table):
            relations += _relation(statement, table, tokens)
    relations.sort(key=lambda relation: relation.start)
    return [shift_relation(relation, -len(before)) for relation in relations]


def _table_statement(cursor: Cursor) -> Relation:
    """Parse behind TABLE, which takes no alias."""
    first = cursor.next
    parts = cursor.dotted("a table name")
    cursor.expect_end()
    return Relation(tuple(parts), first.start, cursor.last.end, has_alias=False, name=cursor.last.name)


def _parse(text: str, offset: int) -> exp.Expr:
    try:
        tree = sqlglot.parse_one(text, dialect=_DIALECT)
    except SqlglotParseError as error:
        details = error.errors[0] if error.errors else {}
        line, column = details.get("line"), details.get("col")
        if line == 1 and column is not None:
            column = max(1, column - offset)
        message = f"sqlglot cannot parse the query: {details.get('description') or error}"
        raise ParseError(message, line=line, column=column) from error
    except Exception as error:  # a parser fed with anything may fail in any way (RecursionError, TokenError)
        message = f"sqlglot cannot parse the query: {type(error).__name__}"
        raise ParseError(message) from error
    if tree.find(exp.Command) is not None:
        message = "sqlglot cannot parse the query"
        raise ParseError(message)
    return tree


def _is_cte(table: exp.Table) -> bool:
    """Tell whether a name of one part refers to a common table expression in scope.

    A CTE sees the CTEs before it in the same WITH, and itself only in WITH RECURSIVE.
    """
    if len(table.parts) != 1:
        return False
    name = table.name.lower()
    child: exp.Expr = table
    parent = table.parent
    while parent is not None:
        visible: list[exp.Expr] = []
        if isinstance(parent, exp.With):
            index = next(number for number, cte in enumerate(parent.expressions) if cte is child)
            visible = parent.expressions[: index + bool(parent.args.get("recursive"))]
        elif (with_ := parent.args.get("with_")) is not None and with_ is not child:
            visible = with_.expressions
        if any(cte.alias.lower() == name for cte in visible):
            return True
        child, parent = parent, parent.parent
    return False


def _relation(text: str, table: exp.Table, tokens: Sequence[Token]) -> list[Relation]:
    """Return the one relation of a node; none for a table function."""
    names = [part for part in table.parts if isinstance(part, exp.Identifier)]
    if len(names) != len(table.parts) or not names:
        _check_function(table)
        return []
    start, end = names[0].meta.get("start"), names[-1].meta.get("end")
    following = [token for token in tokens if token.start >= start] if start is not None else []
    if not following or following[0].start != start or end is None:
        line, column = position(text, start or 0)
        message = f"the name of table {table.sql(dialect=_DIALECT)} cannot be found in the text: write it plainly or in back-quotes"
        raise ParseError(message, line=line, column=column)
    parts = tuple(name.name.lower() for name in names)
    has_alias, end = bool(table.alias), end + 1
    alias_at = None if has_alias else _end_of_sample([t for t in following if t.start >= end], end)
    return [Relation(parts, start, end, has_alias, names[-1].name, alias_at)]


def _end_of_sample(following: Sequence[Token], end: int) -> int:
    """Return the offset for an alias: the end of the table's name and its TABLESAMPLE (...) [REPEATABLE (...)]."""
    if following[0].keyword != "TABLESAMPLE":
        return end
    depth = 0
    for token, after in pairwise(following):
        depth += (token.keyword == "(") - (token.keyword == ")")
        if token.keyword == ")" and depth == 0 and after.keyword != "REPEATABLE":
            return token.end
    return end


def _check_function(table: exp.Table) -> None:
    """Refuse functions that name a table at run time."""
    name = table.this.name.upper()
    if name in {"IDENTIFIER", "TABLE"}:
        message = f"{name}(...) as a table is not supported: write the table's name"
        raise ParseError(message)


_KINDS = {
    "VERSION": "VERSION",
    "SYSTEM_VERSION": "VERSION",
    "TIMESTAMP": "TIMESTAMP",
    "SYSTEM_TIME": "TIMESTAMP",
}
_TYPES = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}) | {
    "MILLISECOND",
    "MICROSECOND",
}
# What may follow a column that is called OF: SELECT version AS of FROM t
_NO_VALUES = frozenset(
    {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT", "MINUS"}
)
_VALUES = frozenset({TokenKind.STRING, TokenKind.NUMBER})


def cut_time_travel_clauses(piece: Slice) -> tuple[str, list[TimeTravel]]:
    """Replace the clauses of time travel by blanks; return the text and the clauses in their order."""
    text, tokens = piece.text, piece.tokens
    clauses = []
    for index in range(len(tokens) - 3):
        words = [token.keyword for token in tokens[index : index + 3]]
        if words[0] not in _KINDS or words[1:] != ["AS", "OF"]:
            continue
        with_for = index > 0 and tokens[index - 1].keyword == "FOR"
        start = tokens[index - with_for].start
        first = index + 3
        end = _value(tokens, first)
        if end > first:
            value = text[tokens[first].start : tokens[end - 1].end]
            clauses.append(TimeTravel(_KINDS[words[0]], value, start, tokens[end - 1].end))
    for clause in clauses:
        text = text[: clause.start] + " " * (clause.end - clause.start) + text[clause.end :]
    return text, clauses


def _value(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the token after a value: terms joined by + and -, with casts."""
    index = _term(tokens, index)
    while tokens[index].keyword in {"+", "-", "::"}:
        index = _term(tokens, index + 1)
    return index


def _term(tokens: Sequence[Token], index: int) -> int:
    while tokens[index].keyword in {"+", "-"}:
        index += 1
    token = tokens[index]
    if token.keyword == "(":
        return _behind(tokens, index)
    if token.kind in _VALUES:
        return index + 1
    if token.keyword in _TYPES and tokens[index + 1].kind is TokenKind.STRING:
        return index + 2
    if token.keyword == "INTERVAL":
        return _interval(tokens, index + 1)
    if not token.is_name or token.keyword in _NO_VALUES:
        return index
    index += 1
    while tokens[index].keyword == "." and tokens[index + 1].kind is not TokenKind.END:
        index += 2
    return _behind(tokens, index) if tokens[index].keyword == "(" else index


def _interval(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the token after ``'1' DAY``, ``1 day 2 hours`` or ``'1 02' DAY TO HOUR``."""
    while True:
        number_index = index + (tokens[index].keyword in {"+", "-"})
        if tokens[number_index].kind not in _VALUES:
            return index
        index = number_index + 1
        if tokens[index].keyword.removesuffix("S") in _UNITS:
            index += 1
        if tokens[index].keyword == "TO" and tokens[index + 1].kind is not TokenKind.END:
            index += 2


def _behind(tokens: Sequence[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].keyword == "(") - (tokens[index].keyword == ")")
        if depth == 0:
            return index + 1
    return len(tokens) - 1
