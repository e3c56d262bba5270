r"""Completion at the cursor: keywords, databases, tables, columns, \-commands. It reads only the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.core.model import TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError, ParseError
from hiveacid.ports.catalog import Catalog
from hiveacid.spark.parser.lexer import Token, TokenKind, tokenize

_WORDS = """
ABORT ADD ALTER AND AS BEGIN BETWEEN BUCKETS BY CASCADE CASE CAST CLUSTERED COLUMNS COMMIT COMPACT
COMPACTIONS CREATE CROSS DATABASE DATABASES DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXISTS EXPLAIN
EXTENDED EXTERNAL FALSE FORMATTED FROM FULL GROUP HAVING IF IN INNER INSERT INTERVAL INTO IS JOIN LEFT
LIKE LIMIT LOAD LOCATION LOCKS MATCHED MERGE NOT NULL ON OR ORC ORDER OUTER OVER OVERWRITE PARTITION
PARTITIONED PARTITIONS RENAME REPLACE RIGHT ROLLBACK ROW__ID SELECT SET SHOW SORT STORED TABLE TABLES
TBLPROPERTIES TEMPORARY THEN TO TRANSACTION TRANSACTIONS TRUE TRUNCATE UNION UPDATE USE USING VALUES
VIEW WHEN WHERE WITH
"""
KEYWORDS = tuple(_WORDS.split())
_BEFORE_TABLES = frozenset(
    {"FROM", "JOIN", "INTO", "TABLE", "UPDATE", "USING", "OVERWRITE", "COMPACT"}
    | {"DESCRIBE", "DESC", "FORMATTED", "EXTENDED", "TRUNCATE", "VIEW"}
)
_BEFORE_DATABASES = frozenset({"USE", "DATABASE"})
_ALWAYS_A_NAME = frozenset(["FROM", "JOIN", "INTO", "UPDATE", "USE"])  # no keyword may follow
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_TABLE_COMMANDS = frozenset({"\\d", "\\describe"})


@dataclass(frozen=True)
class Candidate:
    """A text that may replace the last ``length`` characters before the cursor, and its kind."""

    text: str
    length: int
    kind: str  # keyword | database | table | column | command


@dataclass
class CatalogNames:
    """Names in a catalog, read once; a store that does not answer counts as empty."""

    catalog: Catalog
    database: str = "default"
    _answers: dict[object, tuple[str, ...]] = field(default_factory=dict)

    def databases(self) -> tuple[str, ...]:
        """Return all databases."""
        return self._ask(None, self.catalog.list_databases)

    def tables(self, database: str) -> tuple[str, ...]:
        """Return the tables and views of a database."""
        catalog = self.catalog
        return self._ask(database, lambda: (*catalog.list_tables(database), *catalog.list_views(database)))

    def columns(self, table: TableName) -> tuple[str, ...]:
        """Return the columns of a table or view, partition columns too; none if it does not exist."""
        return self._ask(table, lambda: tuple(_columns(self.catalog, table)))

    def _ask(self, subject: object, question: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        if subject not in self._answers:
            try:
                self._answers[subject] = question()
            except HiveAcidError:
                self._answers[subject] = ()
        return self._answers[subject]


def _columns(catalog: Catalog, name: TableName) -> Iterator[str]:
    table = catalog.get_table(name)
    if table is not None:
        yield from (column.name for column in table.all_columns)
    elif (view := catalog.get_view(name)) is not None:
        yield from (column.name for column in view.columns)


def candidates(text: str, cursor: int, names: CatalogNames, commands: Sequence[str] = ()) -> list[Candidate]:
    """Return the ordered candidates at the cursor; none inside strings and comments."""
    before = text[:cursor]
    if before.lstrip().startswith("\\"):
        return _command_candidates(before.lstrip(), names, commands)
    try:
        tokens = tokenize(before)[:-1]
    except ParseError:
        return []
    prefix, qualifier, preceding = _at_cursor(tokens, cursor)
    if prefix == "" and before and not before[-1].isspace() and before[-1] not in ".,(=<>":
        return []
    if "--" in before[tokens[-1].end if tokens else 0 :]:  # inside a comment
        return []
    matches = list(_matching(_choices(text, preceding, qualifier, names), prefix))
    return matches if qualifier or not prefix else [*matches, *_keywords(prefix, preceding)]


def _at_cursor(tokens: list[Token], cursor: int) -> tuple[str, list[str], list[Token]]:
    """Return the word at the cursor, its qualifier (``db.`` or ``alias.``), and the tokens before both."""
    preceding = list(tokens)
    prefix = ""
    if preceding and preceding[-1].end == cursor and preceding[-1].kind is TokenKind.WORD:
        prefix = preceding.pop().text
    qualifier: list[str] = []
    edge = cursor - len(prefix)
    while (
        len(preceding) > 1
        and preceding[-1].text == "."
        and preceding[-1].end == edge
        and preceding[-2].is_name
    ):
        edge = preceding[-2].start
        qualifier.insert(0, preceding[-2].name.lower())
        preceding = preceding[:-2]
    return prefix, qualifier, preceding


def _choices(
    text: str, preceding: Sequence[Token], qualifier: list[str], names: CatalogNames
) -> Iterator[tuple[str, str]]:
    last = preceding[-1].keyword if preceding else ""
    wants_table = last in _BEFORE_TABLES
    if qualifier:
        yield from _qualified_names(text, qualifier, names, wants_table=wants_table)
    elif last in _BEFORE_DATABASES:
        yield from ((name, "database") for name in names.databases())
    elif wants_table:
        yield from ((name, "table") for name in names.tables(names.database))
        yield from ((name, "database") for name in names.databases())
    else:
        columns = [
            column for table in _mentioned_tables(text, names).values() for column in names.columns(table)
        ]
        yield from ((name, "column") for name in dict.fromkeys(columns))
        if last == ",":  # FROM a, b
            yield from ((name, "table") for name in names.tables(names.database))


def _qualified_names(
    text: str, qualifier: list[str], names: CatalogNames, *, wants_table: bool
) -> Iterator[tuple[str, str]]:
    if len(qualifier) == 1 and (wants_table or qualifier[0] in names.databases()):
        yield from ((name, "table") for name in names.tables(qualifier[0]))
    if not wants_table:
        table = _mentioned_tables(text, names).get(".".join(qualifier))
        if table is not None:
            yield from ((name, "column") for name in names.columns(table))


def _mentioned_tables(text: str, names: CatalogNames) -> Mapping[str, TableName]:
    """Return the tables named in a statement, by every name that may qualify their columns (name or alias)."""
    try:
        tokens = tokenize(text)
    except ParseError:
        return {}
    tables: dict[str, TableName] = {}
    for index, token in enumerate(tokens[:-1]):
        if token.keyword not in _BEFORE_TABLES or not tokens[index + 1].is_name:
            continue
        parts, end = [tokens[index + 1].name.lower()], index + 2
        if tokens[end].text == "." and tokens[end + 1].is_name:
            parts, end = [*parts, tokens[end + 1].name.lower()], end + 2
        table = TableName(parts[0] if len(parts) > 1 else names.database, parts[-1])
        if not names.columns(table):
            continue
        end += tokens[end].keyword == "AS"
        tables |= {parts[-1]: table, ".".join(parts): table}
        if end < len(tokens) and tokens[end].is_name and tokens[end].keyword not in KEYWORDS:
            tables[tokens[end].name.lower()] = table
    return tables


def _matching(choices: Iterable[tuple[str, str]], prefix: str) -> Iterator[Candidate]:
    for name, kind in choices:
        if name.startswith(prefix.lower()):
            yield Candidate(name if _PLAIN_NAME.match(name) else quote_name(name), len(prefix), kind)


def _keywords(prefix: str, preceding: Sequence[Token]) -> Iterator[Candidate]:
    """Yield keywords, in lower case if the typed beginning is."""
    if preceding and preceding[-1].keyword in _ALWAYS_A_NAME:
        return
    for word in KEYWORDS:
        if word.startswith(prefix.upper()):
            yield Candidate(word.lower() if prefix.islower() else word, len(prefix), "keyword")


def _command_candidates(text: str, names: CatalogNames, commands: Sequence[str]) -> list[Candidate]:
    command, space, prefix = text.partition(" ")
    if not space:
        return [Candidate(name, len(command), "command") for name in commands if name.startswith(command)]
    if command not in _TABLE_COMMANDS:
        return []
    database, dot, name = prefix.rpartition(".")
    tables = names.tables(database if dot else names.database)
    return list(_matching(((table, "table") for table in tables), name))
