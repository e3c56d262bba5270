"""Whose statement is it: this project's, or Spark's own? What lets both share one ``spark.sql``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.config.keys import REGISTRY
from hiveacid.core.model import TableName
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.inside import makes_hive_tables, table_in_spark
from hiveacid.spark.views import is_temporary_view
from hiveacid.sql import statements as s
from hiveacid.sql.binding import QUERY, relation_of_ours, relations_of
from hiveacid.sql.calls import called_tables
from hiveacid.sql.grammar import parse
from hiveacid.sql.naming import about_table
from hiveacid.sql.tokens import Token, TokenKind, is_script, tokenize
from hiveacid.sql.values import table_ref

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts
    from hiveacid.sql.session import AcidSession

_NAMES = frozenset({TokenKind.WORD, TokenKind.QUOTED})
# What stands before the name of a table that a statement is about, and before any table at all.
_BEFORE_TARGETS = frozenset(
    {"TABLE", "INTO", "UPDATE", "OVERWRITE", "EXISTS"}
    | {"DESCRIBE", "DESC", "EXTENDED", "FORMATTED", "TBLPROPERTIES", "PARTITIONS"}
)
_BEFORE_TABLES = _BEFORE_TARGETS | {"FROM", "JOIN", "USING", "ON", "IN", "COLUMNS", ","}
# Statements of ours that name no table, or need none.
_ALWAYS_OURS = (
    s.ShowTransactions,
    s.ShowLocks,
    s.ShowCompactions,
    s.AbortTransactions,
    s.AbortCompactions,
    s.StartTransaction,
    s.Commit,
    s.Rollback,
)
# What Spark may do with a transactional table in its own catalog: tell of it.
_LOOKING = frozenset({"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "REFRESH", "USE", "SET", "RESET"})
_DATABASES = (s.CreateDatabase, s.DropDatabase, s.UseDatabase)


class Owner(Enum):
    """Who carries out a statement."""

    OURS = auto()
    SPARK = auto()
    SPARK_READING_OURS = auto()  # Spark, with our tables bound to their snapshot
    BOTH = auto()  # both have databases of one name


@dataclass(frozen=True)
class Judged:
    """A statement and who carries it out; ``statement`` is None where our grammar does not know it."""

    owner: Owner
    statement: s.Statement | None = None


def judge(session: AcidSession, text: str) -> Judged:
    """Tell who carries a statement out: this project whatever names one of its tables as target or source.

    Raises ParseError, or what our grammar says, for a statement outside of it that names one of our tables where
    Spark might change it behind our back; UnsupportedFeatureError for a view in Spark's catalog that would read them.
    """
    try:
        tokens = tokenize(text)
    except HiveAcidError:
        return Judged(Owner.SPARK)
    try:
        statement = parse(text)
    except HiveAcidError:
        found = _beyond(session, text, tokens)
    else:
        found = Judged(_owner(session, text, statement), statement)
    if found.owner in (Owner.SPARK, Owner.SPARK_READING_OURS):
        _guard(session, text, tokens)
    return found


def _guard(session: AcidSession, text: str, tokens: list[Token]) -> None:
    """Refuse what Spark would do to a transactional table in its own catalog, a Hive Metastore's.

    Spark reads no rows of such a table, and writes files into it that no engine knows (design study, F5).
    """
    facts = session.context.facts
    words = [token.keyword for token in tokens]
    if words[0] in _LOOKING or not makes_hive_tables(facts):
        return
    for parts in _names(facts, text, tokens):
        ref = table_ref(parts)
        if ref is None or (ref.database is None and is_temporary_view(facts, ref.name)):
            continue
        if relation_of_ours(session.context, ref) is None:
            refuse_transactional(facts, ref.resolve(session.context.database))
    if words[0] == "ALTER" and "transactional" in (token.text.lower().strip("'\"`") for token in tokens):
        raise UnsupportedFeatureError(
            "Spark's own catalog cannot keep a transactional table: make it one in Hive, or INSERT INTO one of hiveacid's"
        )


def refuse_transactional(facts: SparkFacts, name: TableName) -> None:
    """Raise UnsupportedFeatureError where a table of Spark's own catalog is transactional, or a view reads such."""
    found = table_in_spark(facts, name.database, name.name)
    if found is None:
        return
    if found.transactional:
        raise UnsupportedFeatureError(
            f"{name} is transactional, and in Spark's own catalog, where Spark would read it wrong and spoil it: open its "
            'metastore by store="thrift://host:9083" (docs/metastore.md), or take it over by spark.acid.adopt'
        )
    if found.text is not None:
        for parts in _relations(facts, found.text):
            ref = table_ref(parts)
            if ref is not None:
                refuse_transactional(facts, ref.resolve(found.database.lower()))


def _relations(facts: SparkFacts, text: str) -> list[Sequence[str]]:
    """Return the names of what a view reads; none where its text is not Spark's, which Spark says."""
    try:
        return [relation.parts for relation in relations_of(facts, s.Slice(text), QUERY)]
    except HiveAcidError:
        return []


def _owner(session: AcidSession, text: str, statement: s.Statement) -> Owner:
    if isinstance(statement, s.Query):
        return Owner.OURS if _reads_ours(session, statement.text.text) else Owner.SPARK
    if isinstance(statement, _ALWAYS_OURS):
        return Owner.OURS
    if isinstance(statement, _DATABASES):
        return Owner.BOTH
    if isinstance(statement, s.ShowTables | s.ShowViews):
        return Owner.BOTH
    if isinstance(statement, s.SetOption | s.ResetOption | s.ShowConf):
        key = (statement.key or "").lower()
        return Owner.OURS if key in REGISTRY or key.startswith("hiveacid.") else Owner.SPARK
    if isinstance(statement, s.Explain):
        inner = _owner(session, text, statement.statement)
        return Owner.OURS if inner is Owner.OURS else _unless_read(session, text)
    if isinstance(statement, s.CreateTemporaryView | s.CreateView | s.AlterView):
        return _owner_of_view(session, statement)
    if _only_ours(session, statement) or any(
        relation_of_ours(session.context, ref) is not None for ref in _targets(statement)
    ):
        return Owner.OURS
    return _unless_read(session, text)


def _owner_of_view(
    session: AcidSession, statement: s.CreateTemporaryView | s.CreateView | s.AlterView
) -> Owner:
    """Tell whose a view is: ours if it is already, or reads what is."""
    if not isinstance(statement, s.CreateTemporaryView) and (
        relation_of_ours(session.context, statement.view) is not None
    ):
        return Owner.OURS
    reads = _reads_ours(session, statement.query.text)
    if reads and isinstance(statement, s.AlterView):
        raise UnsupportedFeatureError(
            f"{statement.view} is a view in Spark's own catalog, which cannot read tables of hiveacid's: DROP it and "
            "CREATE it anew"
        )
    return Owner.OURS if reads else Owner.SPARK


def _unless_read(session: AcidSession, text: str) -> Owner:
    return Owner.SPARK_READING_OURS if _reads_ours(session, text) else Owner.SPARK


def _only_ours(session: AcidSession, statement: s.Statement) -> bool:
    """Tell whether a table is made that only this project can make.

    Those are transactional ones (``hive.create.as.acid`` makes all so that name no provider of Spark's) and, where
    the session is without Hive support, those of Hive's grammar (STORED AS).
    """
    if not isinstance(statement, s.CreateTable | s.CreateTableLike):
        return False
    properties = {key.lower(): value for key, value in statement.properties}
    if properties.get("transactional", "").lower() == "true":
        return True
    if statement.using:
        return False
    settings = session.context.settings
    if settings.get(keys.CREATE_AS_ACID) or settings.get(keys.CREATE_AS_INSERT_ONLY):
        return not statement.external
    return statement.storage is not None and not makes_hive_tables(session.context.facts)


def _targets(statement: s.Statement) -> Iterator[s.TableRef]:
    """Yield the tables that a statement itself names (not those of the queries in it)."""
    parts = statement.legs if isinstance(statement, s.MultiInsert) else (statement,)
    for part in parts:
        for one in fields(part):
            value = getattr(part, one.name)
            if isinstance(value, s.TableRef):
                yield value


def _reads_ours(session: AcidSession, text: str) -> bool:
    """Tell whether a text that Spark's parser takes reads a table of ours."""
    tokens = tokenize(text)
    if any(_calls_ours(session, text)):
        return True
    if not any(token.keyword in {"FROM", "JOIN", "TABLE", "USING", "IDENTIFIER"} for token in tokens):
        return False
    try:
        relations = relations_of(session.context.facts, s.Slice(text), QUERY)
    except HiveAcidError:
        # Not Spark's grammar (or a name that only Spark will know): Spark says so, unless it might be about ours.
        return any(_meant(session, parts) is not None for parts in _scanned(tokens, _BEFORE_TABLES))
    return any(_meant(session, one.parts) is not None for one in relations)


def _calls_ours(session: AcidSession, text: str) -> Iterator[bool]:
    """Yield, for each call of a function for changes, whether it is about a table of ours; parameters may be."""
    for name in called_tables(text):
        yield name is None or session.context.catalog.get_table(session.context.resolve(name)) is not None


def _meant(session: AcidSession, parts: Sequence[str]) -> TableName | None:
    """Return the table of ours that a name means, or means to tell about."""
    ours = relation_of_ours(session.context, table_ref(parts))
    about = None if ours is not None else about_table(session.context, parts)
    return about.table if about is not None else ours


def _beyond(session: AcidSession, text: str, tokens: list[Token]) -> Judged:
    """Judge what our grammar does not know."""
    if _makes_transactional(session, tokens):
        parse(
            text
        )  # raises what is wrong with it: Spark would make a table that only says it is transactional
    meant = (_meant(session, parts) for parts in _names(session.context.facts, text, tokens))
    ours = [name for name in meant if name is not None]
    if not ours:
        return Judged(Owner.SPARK)
    words = [token.keyword for token in tokens]
    if words[0] == "CACHE":
        raise UnsupportedFeatureError(
            f"CACHE TABLE would keep an old {ours[0]}: CREATE TEMPORARY VIEW v AS SELECT ..., then CACHE TABLE v"
        )
    if _makes_function(tokens):
        raise UnsupportedFeatureError(
            f"a function of Spark's own cannot read {ours[0]}: CREATE VIEW v AS SELECT ..., and query that"
        )
    is_view = words[0] == "CREATE" and "VIEW" in words[:6]  # of which Spark would keep the text
    if words[0] in {"CREATE", "DECLARE", "SET"} and not is_view and _reads_ours(session, text):
        return Judged(Owner.SPARK_READING_OURS)
    parse(text)  # raises what is wrong with it
    raise UnsupportedFeatureError(f"this statement cannot be run on {ours[0]}")


def _names(facts: SparkFacts, text: str, tokens: list[Token]) -> Iterator[Sequence[str]]:
    """Yield the parts of the names of tables in a statement: those it reads, as Spark's parser finds them, and its target.

    Where Spark's parser does not know the statement, all names that stand where one of a table may.
    """
    words = _BEFORE_TABLES
    try:
        relations = relations_of(facts, s.Slice(text), QUERY)
    except HiveAcidError:
        pass
    else:
        yield from (relation.parts for relation in relations)
        # a function's body stays a text, and of a script Spark's parser tells nothing
        if tokens[0].keyword != "SHOW" and not _makes_function(tokens) and not is_script(tokens):
            words = _BEFORE_TARGETS
    yield from _scanned(tokens, words)


def _makes_transactional(session: AcidSession, tokens: list[Token]) -> bool:
    """Tell whether a CREATE TABLE outside of our grammar is meant for a table that only this project can make."""
    words = [token.keyword for token in tokens]
    if words[0] not in {"CREATE", "REPLACE"} or "TABLE" not in words[:4]:
        return False
    texts = [token.text.strip("'\"`").lower() for token in tokens if token.keyword != "="]
    if ("transactional", "true") in pairwise(texts):
        return True
    settings = session.context.settings
    chosen = settings.get(keys.CREATE_AS_ACID) or settings.get(keys.CREATE_AS_INSERT_ONLY)
    return chosen and not {"USING", "EXTERNAL", "TEMPORARY"}.intersection(words)


def _makes_function(tokens: list[Token]) -> bool:
    return tokens[0].keyword == "CREATE" and "FUNCTION" in (token.keyword for token in tokens[:5])


def _scanned(tokens: list[Token], words: frozenset[str]) -> Iterator[Sequence[str]]:
    """Yield the parts of the names that stand behind one of the words."""
    for place, token in enumerate(tokens[:-1]):
        if token.keyword not in words or tokens[place + 1].kind not in _NAMES:
            continue
        parts = [tokens[place + 1].name.lower()]
        for dot, name in zip(tokens[place + 2 :: 2], tokens[place + 3 :: 2], strict=False):
            if dot.keyword != "." or name.kind not in _NAMES:
                break
            parts.append(name.name.lower())
        yield parts
