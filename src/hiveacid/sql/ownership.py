"""Whose statement is it: this project's, or Spark's own? What lets both share one ``spark.sql``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.config.keys import REGISTRY
from hiveacid.core.model import TableName
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.inside import is_transactional_in_spark, makes_hive_tables
from hiveacid.spark.views import is_temporary_view
from hiveacid.sql import statements as s
from hiveacid.sql.binding import QUERY, relations_of, table_of_ours
from hiveacid.sql.calls import called_tables
from hiveacid.sql.grammar import parse
from hiveacid.sql.naming import about_table
from hiveacid.sql.tokens import Token, TokenKind, tokenize
from hiveacid.sql.values import table_ref

if TYPE_CHECKING:
    from hiveacid.spark.session import SparkFacts
    from hiveacid.sql.session import AcidSession

_NAMES = frozenset({TokenKind.WORD, TokenKind.QUOTED})
_BEFORE_TABLES = frozenset(
    {"FROM", "JOIN", "TABLE", "INTO", "UPDATE", "USING", "OVERWRITE", "EXISTS", "ON", "IN", ","}
    | {"DESCRIBE", "DESC", "EXTENDED", "FORMATTED", "TBLPROPERTIES", "PARTITIONS", "COLUMNS"}
)
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
    Spark might change it behind our back; UnsupportedFeatureError for a view in Spark's catalog on our tables.
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
        _guard(session, tokens)
    return found


def _guard(session: AcidSession, tokens: list[Token]) -> None:
    """Refuse what Spark would do to a transactional table in its own catalog, a Hive Metastore's.

    Spark reads no rows of such a table, and writes files into it that no engine knows (design study, F5).
    """
    facts = session.context.facts
    words = [token.keyword for token in tokens]
    if words[0] in _LOOKING or not makes_hive_tables(facts):
        return
    for parts in _names(tokens):
        ref = table_ref(parts)
        if ref is None or (ref.database is None and is_temporary_view(facts, ref.name)):
            continue
        if table_of_ours(session.context, ref) is None:
            refuse_transactional(facts, ref.resolve(session.context.database))
    if words[0] == "ALTER" and "transactional" in (token.text.lower().strip("'\"`") for token in tokens):
        raise UnsupportedFeatureError(
            "Spark's own catalog cannot keep a transactional table: make it one in Hive, or INSERT INTO one of hiveacid's"
        )


def refuse_transactional(facts: SparkFacts, name: TableName) -> None:
    """Raise UnsupportedFeatureError where a table of Spark's own catalog is transactional."""
    if is_transactional_in_spark(facts, name.database, name.name):
        raise UnsupportedFeatureError(
            f"{name} is transactional, and in Spark's own catalog, where Spark would read it wrong and spoil it: open its "
            'metastore by store="thrift://host:9083" (docs/metastore.md), or take it over by spark.acid.adopt'
        )


def _owner(session: AcidSession, text: str, statement: s.Statement) -> Owner:
    if isinstance(statement, s.Query):
        return Owner.OURS if _reads_ours(session, statement.text.text) else Owner.SPARK
    if isinstance(statement, _ALWAYS_OURS):
        return Owner.OURS
    if isinstance(statement, _DATABASES):
        return Owner.BOTH
    if isinstance(statement, s.ShowTables):
        return Owner.BOTH
    if isinstance(statement, s.SetOption | s.ResetOption | s.ShowConf):
        key = (statement.key or "").lower()
        return Owner.OURS if key in REGISTRY or key.startswith("hiveacid.") else Owner.SPARK
    if isinstance(statement, s.Explain):
        inner = _owner(session, text, statement.statement)
        return Owner.OURS if inner is Owner.OURS else _unless_read(session, text)
    if isinstance(statement, s.CreateTemporaryView):
        return Owner.OURS if _reads_ours(session, statement.query.text) else Owner.SPARK
    if _only_ours(session, statement) or any(
        table_of_ours(session.context, ref) is not None for ref in _targets(statement)
    ):
        return Owner.OURS
    return _unless_read(session, text)


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
        return any(_named(session, tokens))
    return any(_meant(session, one.parts) is not None for one in relations)


def _calls_ours(session: AcidSession, text: str) -> Iterator[bool]:
    """Yield, for each call of a function for changes, whether it is about a table of ours; parameters may be."""
    for name in called_tables(text):
        yield name is None or session.context.catalog.get_table(session.context.resolve(name)) is not None


def _meant(session: AcidSession, parts: Sequence[str]) -> TableName | None:
    """Return the table of ours that a name means, or means to tell about."""
    ours = table_of_ours(session.context, table_ref(parts))
    about = None if ours is not None else about_table(session.context, parts)
    return about.table if about is not None else ours


def _beyond(session: AcidSession, text: str, tokens: list[Token]) -> Judged:
    """Judge what our grammar does not know."""
    ours = list(_named(session, tokens))
    if not ours:
        return Judged(Owner.SPARK)
    words = [token.keyword for token in tokens]
    if words[0] == "CREATE" and "VIEW" in words[:6] and not {"TEMPORARY", "TEMP"} & set(words[:6]):
        raise UnsupportedFeatureError(
            f"a view in Spark's catalog cannot read {ours[0]}: use CREATE TEMPORARY VIEW, or make the view in Hive"
        )
    if words[0] == "CACHE":
        raise UnsupportedFeatureError(
            f"CACHE TABLE would keep an old {ours[0]}: CREATE TEMPORARY VIEW v AS SELECT ..., then CACHE TABLE v"
        )
    if words[0] in {"CREATE", "DECLARE", "SET"} and _reads_ours(session, text):
        return Judged(Owner.SPARK_READING_OURS)
    parse(text)  # raises what is wrong with it
    raise UnsupportedFeatureError(f"this statement cannot be run on {ours[0]}")


def _named(session: AcidSession, tokens: list[Token]) -> Iterator[TableName]:
    """Yield those of our tables whose names stand where a statement may name a table."""
    for parts in _names(tokens):
        ours = _meant(session, parts)
        if ours is not None:
            yield ours


def _names(tokens: list[Token]) -> Iterator[list[str]]:
    """Yield the parts of the names that stand where a statement may name a table."""
    for place, token in enumerate(tokens[:-1]):
        if token.keyword not in _BEFORE_TABLES or tokens[place + 1].kind not in _NAMES:
            continue
        parts = [tokens[place + 1].name.lower()]
        for dot, name in zip(tokens[place + 2 :: 2], tokens[place + 3 :: 2], strict=False):
            if dot.keyword != "." or name.kind not in _NAMES:
                break
            parts.append(name.name.lower())
        yield parts
