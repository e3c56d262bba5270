"""Owner of a statement: whether hiveacid or Spark carries out a statement of a native session's ``spark.sql``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from itertools import islice, pairwise, takewhile

from hiveacid.catalog.validate_definition import check_place
from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from hiveacid.config.setting_definitions import REGISTRY
from hiveacid.core.model import TableName
from hiveacid.core.schema.location_overlap import Place
from hiveacid.errors import HiveAcidError, StatementTooLargeError, UnsupportedFeatureError
from hiveacid.spark.parser.lexer import Token, TokenKind, is_script, string_value
from hiveacid.spark.parser.relations import named_tables
from hiveacid.spark.session.classic_session import ANOTHER_CATALOG, is_temporary_view, spark_catalog_table
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.sql.binding.parameters import has_identifier_clause
from hiveacid.sql.binding.table_binder import find_hiveacid_relation, is_view_of_session, reads_of
from hiveacid.sql.binding.table_sources import (
    find_metadata_table,
    is_change_call,
    table_of_call,
    table_of_change_call,
)
from hiveacid.sql.grammar.admin import CACHE_ADVICE
from hiveacid.sql.grammar.advice import advice_on
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import (
    SPARK_CATALOG,
    Slice,
    Statement,
    TableRef,
    administration,
    definitions,
    dml,
    table_ref,
)
from hiveacid.storage.paths import absolute
from hiveacid.table.context import Context

# Words before the name of a table.
_BEFORE_TABLES = frozenset(
    {"TABLE", "INTO", "UPDATE", "OVERWRITE", "EXISTS", "FROM", "JOIN", "USING", "ON", "IN", "COLUMNS", ","}
    | {"DESCRIBE", "DESC", "EXTENDED", "FORMATTED", "TBLPROPERTIES", "PARTITIONS"}
)
# Statements that hiveacid carries out although they name no table, or need none.
_ALWAYS_HIVEACID = (
    administration.ShowTransactions,
    administration.ShowLocks,
    administration.ShowCompactions,
    administration.ShowTableTypes,
    administration.ShowCreateDatabase,
    administration.AbortTransactions,
    administration.AbortCompactions,
    administration.StartTransaction,
    administration.Commit,
    administration.Rollback,
    dml.InsertDirectory,
    dml.ImportTable,
)
# Statements that Spark may carry out on a transactional table in its own catalog, because they read no rows of it.
_READ_ONLY_VERBS = frozenset({"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "REFRESH", "USE", "RESET"})
_BEFORE_LOCATIONS = frozenset({"LOCATION", "DIRECTORY", "INPATH"})
_DATABASE_VERBS, _DATABASES = (
    frozenset({"CREATE", "DROP", "ALTER"}),
    frozenset({"DATABASE", "SCHEMA", "NAMESPACE"}),
)
_BOTH_CATALOGS = (
    definitions.CreateDatabase,
    definitions.AlterDatabase,
    definitions.DropDatabase,
    administration.UseDatabase,
    administration.ShowTables,
    administration.ShowViews,
)


class Owner(Enum):
    """The engine that carries out a statement."""

    HIVEACID = auto()
    SPARK = auto()
    SPARK_READING_HIVEACID = auto()  # Spark, with our tables bound to their snapshot
    BOTH = auto()  # each has its own databases; a statement on a database concerns both


@dataclass(frozen=True)
class Ownership:
    """A statement and its owner; ``statement`` is None where the grammar does not know it."""

    owner: Owner
    statement: Statement | None = None


def decide_owner(context: Context, source: Slice) -> Ownership:
    """Decide who carries out a statement: hiveacid, if it names one of its tables as target or source.

    ``source``: with the names of IDENTIFIER clauses written out. Raises the error of the grammar for a statement outside
    it that names one of these tables where Spark might change it. Raises UnsupportedFeatureError for a view in Spark's
    catalog that would read such a table, and for a script that computes names.
    """
    try:
        tokens = source.tokens
    except StatementTooLargeError:  # it may name tables of the hiveacid catalog
        raise
    except HiveAcidError:  # Spark's lexer may know more
        _refuse_change_by_spark(context, source.text, [])
        return Ownership(Owner.SPARK)
    _refuse_database_change_by_spark(context, tokens)
    _refuse_explained_text(tokens)
    if is_script(tokens):
        if has_identifier_clause(source):
            raise UnsupportedFeatureError(
                "IDENTIFIER with a name that a script computes is not supported in a native session, because it may be that of a "
                "transactional table: write the name itself, or run the statements one by one"
            )
        for ref in _changed_by_script(tokens):
            is_view_of_session(context, ref)
    try:
        statement = parse(source.text, tokens=tokens)
    except HiveAcidError as error:
        ownership = _decide_outside_grammar(context, source, error)
    else:
        ownership = Ownership(_owner(context, source, statement), statement)
    if ownership.owner in (Owner.SPARK, Owner.SPARK_READING_HIVEACID) or isinstance(
        ownership.statement, definitions.DropDatabase
    ):
        _refuse_change_by_spark(context, source.text, tokens)
        for location in _locations(tokens):
            check_place(Place(absolute(location), "Spark"), context)
    return ownership


def _refuse_explained_text(tokens: Sequence[Token]) -> None:
    """Refuse EXPLAIN of EXECUTE IMMEDIATE: Spark carries out the statement in the analysis of which the plan is shown."""
    words = [token.keyword for token in tokens]
    for index, pair in enumerate(pairwise(words)):
        if pair == ("EXECUTE", "IMMEDIATE") and "EXPLAIN" in words[max(0, index - 2) : index]:
            raise UnsupportedFeatureError(
                "EXPLAIN EXECUTE IMMEDIATE would carry out the statement: write EXPLAIN and the statement itself"
            )


def _changed_by_script(tokens: Sequence[Token]) -> Iterator[TableRef]:
    """Yield the names without a database of which a script's DELETE, UPDATE and MERGE change rows."""
    words = [token.keyword for token in tokens]
    for index, verb in enumerate(words):
        start = index + 1 + 3 * (words[index + 1 : index + 4] == ["WITH", "SCHEMA", "EVOLUTION"])
        start += words[start : start + 1] == ["INTO" if verb == "MERGE" else "FROM"]
        if verb in {"DELETE", "UPDATE", "MERGE"} and words[start + 1 : start + 2] != ["."]:
            yield from (
                TableRef(None, token.name.lower()) for token in tokens[start : start + 1] if token.is_name
            )


def _locations(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the directories into which Spark would write, or out of which it would move files.

    INSERT OVERWRITE DIRECTORY, and INSERT OVERWRITE of a table with such a LOCATION, delete all that is there.
    """
    if _makes_view(tokens):  # whose path is only read
        return
    words = [token.keyword for token in tokens]
    in_options = False
    for index, token in enumerate(tokens):
        in_options = token.keyword != ")" and (in_options or words[index : index + 2] == ["OPTIONS", "("])
        start = index + 1
        if in_options and token.text.strip("'\"`").lower() == "path":
            start += words[start : start + 1] == ["="]
        elif token.keyword not in _BEFORE_LOCATIONS:
            continue
        texts = takewhile(lambda part: part.kind is TokenKind.STRING, islice(tokens, start, None))
        location = "".join(string_value(part.text) for part in texts)
        if location:
            yield location


def _refuse_database_change_by_spark(context: Context, tokens: Sequence[Token]) -> None:
    """Refuse a change of a database that Spark alone would carry out: it deletes a database's directory with its content.

    These are statements inside scripts, ALTER DATABASE SET LOCATION, and names and locations computed at run time.
    """
    words = [token.keyword for token in tokens]
    if is_script(tokens):
        for verb, kind in pairwise(words):
            if verb in _DATABASE_VERBS and kind in _DATABASES:
                raise _database_change_refused(f"{verb} {kind} inside a script")
    if len(words) < 3 or words[0] not in _DATABASE_VERBS or words[1] not in _DATABASES:  # noqa: PLR2004
        return
    start = next(
        index for index, word in enumerate([*words[2:], ""], 2) if word not in {"IF", "NOT", "EXISTS"}
    )
    named = [*tokens[start : start + 2]]
    in_spark_catalog = named and named[0].is_name and named[0].name.lower() == SPARK_CATALOG
    is_qualified = len(named) > 1 and named[1].text == "."
    if not in_spark_catalog and (is_qualified or context.database == ANOTHER_CATALOG):
        return  # of another catalog
    verb = f"{words[0]} {words[1]}"
    if words[0] == "ALTER" and "LOCATION" in words:
        raise _database_change_refused(f"{verb} SET LOCATION")
    if words[start] == "IDENTIFIER" and len(named) > 1 and named[1].text == "(":
        raise _database_change_refused(f"{verb} IDENTIFIER(…)")
    if any(
        word == "LOCATION" and following.kind is not TokenKind.STRING
        for word, following in zip(words, tokens[1:], strict=False)
    ):
        raise _database_change_refused(f"{verb} with a computed LOCATION")


def _database_change_refused(words: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{words} is not supported in a native session, because Spark deletes a database's directory with all that is in it: "
        "write CREATE DATABASE d [LOCATION '…'] and DROP DATABASE d, each as a statement of its own with the database's name; "
        "the location of a database does not change"
    )


def _refuse_change_by_spark(context: Context, text: str, tokens: Sequence[Token]) -> None:
    """Refuse a statement of Spark on a transactional table in Spark's own catalog (a Hive Metastore).

    Spark reads such a table wrong, and writes files into it that no engine reads. The table names come from Spark's
    parsed plan; a statement whose names are computed at run time is refused.
    """
    env = context.env
    words = [token.keyword for token in tokens]
    if not _READ_ONLY_VERBS.isdisjoint(words[:1]) or not env.hive_support:
        return
    # a script may drop a temporary view that hides a table of the same name
    may_drop_views = not tokens or is_script(tokens)
    for parts in named_tables(env, text):
        ref = table_ref(parts)
        if ref is None:
            continue
        if ref.database is None and not may_drop_views and is_temporary_view(env, ref.name):
            continue
        if find_hiveacid_relation(context, ref) is None:
            refuse_transactional(env, ref.resolve(context.database))
    if words[:1] == ["ALTER"] and TRANSACTIONAL.name in (
        token.text.lower().strip("'\"`") for token in tokens
    ):
        raise UnsupportedFeatureError(
            "Spark's own catalog cannot keep a transactional table: make it one in Hive, or INSERT INTO one of hiveacid's"
        )


def refuse_transactional(env: SparkEnvironment, name: TableName) -> None:
    """Raise UnsupportedFeatureError if a table of Spark's own catalog is transactional, or a view of it reads such a table."""
    table = spark_catalog_table(env, name.database, name.name)
    if table is None:
        return
    if table.transactional:
        raise UnsupportedFeatureError(
            f"{name} is transactional, and in Spark's own catalog, where Spark would misread it and write files that no engine reads: open its "
            'metastore by store="thrift://host:9083" (docs/metastore.md), or take it over by spark.acid.adopt'
        )
    if table.text is not None:
        for parts in named_tables(env, table.text):
            ref = table_ref(parts)
            if ref is not None:
                refuse_transactional(env, ref.resolve(table.database.lower()))


def _owner(context: Context, source: Slice, statement: Statement) -> Owner:
    if isinstance(statement, dml.Query):
        return Owner.HIVEACID if _reads_hiveacid_table(context, statement.text) else Owner.SPARK
    if isinstance(statement, _ALWAYS_HIVEACID):
        return Owner.HIVEACID
    if isinstance(statement, administration.ShowTableExtended) and statement.partition:
        relation = find_hiveacid_relation(
            context, TableRef(statement.database, (statement.pattern or "").lower())
        )
        return Owner.SPARK if relation is None else Owner.HIVEACID
    if isinstance(statement, definitions.AlterDatabase) and statement.owner is not None:
        is_ours = context.catalog.get_database(statement.name) is not None
        return Owner.HIVEACID if is_ours else Owner.SPARK  # whose mirror has no owner
    if isinstance(statement, _BOTH_CATALOGS):
        return Owner.BOTH
    if isinstance(statement, administration.SetOption | administration.ResetOption | administration.ShowConf):
        key = (statement.key or "").lower()
        return Owner.HIVEACID if key in REGISTRY or key.startswith("hiveacid.") else Owner.SPARK
    if isinstance(statement, dml.Explain):
        inner = _owner(context, source, statement.statement)
        return Owner.HIVEACID if inner is Owner.HIVEACID else _owner_by_reads(context, source)
    if isinstance(
        statement, definitions.CreateTemporaryView | definitions.CreateView | definitions.AlterView
    ):
        return _owner_of_view(context, statement)
    if isinstance(statement, dml.Update | dml.Delete | dml.Merge):
        # Spark fails on such a view, of DELETE with an internal error
        is_view_of_session(context, statement.table)
    if makes_own_table(context, statement) or any(
        find_hiveacid_relation(context, ref) is not None for ref in _targets(context, statement)
    ):
        return Owner.HIVEACID
    return _owner_by_reads(context, source)


def _owner_of_view(
    context: Context,
    statement: definitions.CreateTemporaryView | definitions.CreateView | definitions.AlterView,
) -> Owner:
    """Return the owner of a view: hiveacid if its catalog has the view already, or if the query reads its tables."""
    if not isinstance(statement, definitions.CreateTemporaryView) and any(
        find_hiveacid_relation(context, ref) is not None for ref in _targets(context, statement)
    ):
        return Owner.HIVEACID
    reads = _reads_hiveacid_table(context, statement.query)
    if reads and isinstance(statement, definitions.AlterView):
        raise UnsupportedFeatureError(
            f"{statement.view} is a view in Spark's own catalog, which cannot read tables of hiveacid's: DROP it and "
            "CREATE it again"
        )
    return Owner.HIVEACID if reads else Owner.SPARK


def _owner_by_reads(context: Context, source: Slice) -> Owner:
    return Owner.SPARK_READING_HIVEACID if _reads_hiveacid_table(context, source) else Owner.SPARK


def makes_own_table(context: Context, statement: Statement) -> bool:
    """Tell whether a statement creates a table that only hiveacid can create.

    These are transactional tables. With ``hive.create.as.acid``, all tables without a Spark provider are transactional.
    In a session without Hive support they also include tables in Hive's grammar (STORED AS).
    """
    if not isinstance(statement, definitions.CreateTable | definitions.CreateTableLike):
        return False
    properties = {key.lower(): value for key, value in statement.properties}
    if (
        properties.get(TRANSACTIONAL.name, "").lower() == "true"
        or TRANSACTIONAL_PROPERTIES.name in properties
    ):
        return True
    if statement.has_spark_provider:
        return False
    if _creates_transactional(context):
        return not statement.external
    return statement.storage is not None and not context.env.hive_support


def _targets(context: Context, statement: Statement) -> Iterator[TableRef]:
    """Yield the tables that a statement itself names (not those of the queries in it).

    One that is created has its database: a temporary view of the name hides it from queries only.
    """
    created = None
    if isinstance(statement, definitions.CreateTable | definitions.CreateTableLike):
        created = statement.table
    elif isinstance(statement, definitions.CreateView):
        created = statement.view
    if created is not None:
        yield replace(created, database=created.database or context.database)
    parts = statement.legs if isinstance(statement, dml.MultiInsert) else (statement,)
    for part in parts:
        for attribute in fields(part):
            value = getattr(part, attribute.name)
            if isinstance(value, TableRef):
                yield value


def _reads_hiveacid_table(context: Context, piece: Slice) -> bool:
    """Tell whether a text that Spark's parser accepts reads a table of the hiveacid catalog."""
    tokens = piece.tokens
    if not any(token.keyword in {"FROM", "JOIN", "TABLE", "USING", "IDENTIFIER"} for token in tokens):
        return False
    try:
        reads = reads_of(context.env, piece)
    except HiveAcidError:
        # Not Spark's grammar, or a name that only Spark resolves. Spark reports that, unless a table of ours may be named.
        return any(_find_named_table(context, parts) is not None for parts in _names_behind(tokens))
    if any(_find_named_table(context, relation.parts) is not None for relation in reads.relations):
        return True
    if any(find_hiveacid_relation(context, table_of_call(call)) is not None for call in reads.calls):
        return True
    changed = [table_of_change_call(piece, call) for call in reads.calls if is_change_call(call)]
    return any(
        name is None or context.catalog.get_table(context.resolve(name)) is not None for name in changed
    )


def _find_named_table(context: Context, parts: Sequence[str]) -> TableName | None:
    """Return the table of the hiveacid catalog that a name refers to, directly or by one of its metadata tables."""
    relation = find_hiveacid_relation(context, table_ref(parts))
    metadata = None if relation is not None else find_metadata_table(context, parts)
    return metadata.table if metadata is not None else relation


def _decide_outside_grammar(context: Context, source: Slice, error: HiveAcidError) -> Ownership:
    """Decide a statement outside our grammar: Spark's, unless it touches a hiveacid table; then raise ``error``."""
    tokens = source.tokens
    if _makes_transactional(context, tokens):
        raise error  # Spark would create a table that is transactional by its properties only
    names = [*_names(context.env, source), *_created(context, tokens)]
    owned = [name for parts in names if (name := _find_named_table(context, parts)) is not None]
    if not owned:
        return Ownership(Owner.SPARK)
    words = [token.keyword for token in tokens]
    if words[0] == "CACHE":
        raise UnsupportedFeatureError(f"{owned[0]}: {CACHE_ADVICE}")
    if words[0] == "CREATE" and "FUNCTION" in words[:5]:
        raise UnsupportedFeatureError(
            f"a function of Spark's own cannot read {owned[0]}: CREATE VIEW v AS SELECT ..., and query that"
        )
    is_view = _makes_view(tokens)  # of which Spark would keep the text
    is_of_spark = words[0] in {"CREATE", "DECLARE", "SET"} and not is_view and advice_on(tokens) is None
    if is_of_spark and _reads_hiveacid_table(context, source):
        return Ownership(Owner.SPARK_READING_HIVEACID)
    raise error


def _created(context: Context, tokens: Sequence[Token]) -> Iterator[Sequence[str]]:
    """Yield the table or view that a statement creates for good, if its text has no database, with the current one.

    A temporary view of the name hides it from queries only.
    """
    words = [token.keyword for token in tokens]
    if words[0] not in {"CREATE", "REPLACE"} or not {"TEMPORARY", "TEMP"}.isdisjoint(words[:5]):
        return
    start = next((index for index, word in enumerate(words[:5], 1) if word in {"TABLE", "VIEW"}), 0)
    start += 3 * (words[start : start + 3] == ["IF", "NOT", "EXISTS"])
    if start and tokens[start].is_name and words[start + 1 : start + 2] != ["."]:
        yield context.database, tokens[start].name.lower()


def _names(env: SparkEnvironment, source: Slice) -> Iterable[Sequence[str]]:
    """Return the table names in a statement, each as its parts; of one that Spark's parser refuses, those where one may stand.

    The latter only decide whose error the user sees. EXECUTE IMMEDIATE names none: its statement has an owner of its own.
    """
    if source.tokens[0].keyword == "EXECUTE":
        return ()
    try:
        names = named_tables(env, source.text)
    except HiveAcidError:  # computed when the statement runs
        names = []
    return names or _names_behind(source.tokens)


def _makes_transactional(context: Context, tokens: Sequence[Token]) -> bool:
    """Tell whether a CREATE TABLE outside our grammar means a table that only hiveacid can create."""
    words = [token.keyword for token in tokens]
    if words[0] not in {"CREATE", "REPLACE"} or "TABLE" not in words[:4]:
        return False
    texts = [token.text.strip("'\"`").lower() for token in tokens if token.keyword != "="]
    words_of_hive = {
        (TRANSACTIONAL.name, "true"),
        *((TRANSACTIONAL_PROPERTIES.name, kind) for kind in ("default", "insert_only")),
    }
    if words_of_hive.intersection(pairwise(texts)):
        return True
    return _creates_transactional(context) and not {"USING", "EXTERNAL", "TEMPORARY"}.intersection(words)


def _creates_transactional(context: Context) -> bool:
    """Tell whether a CREATE TABLE makes a transactional table by the session's settings."""
    get = context.settings.get
    return get(setting_definitions.CREATE_AS_ACID) or get(setting_definitions.CREATE_AS_INSERT_ONLY)


def _makes_view(tokens: Sequence[Token]) -> bool:
    return tokens[0].keyword == "CREATE" and "VIEW" in (token.keyword for token in tokens[:6])


def _names_behind(tokens: Sequence[Token]) -> Iterator[Sequence[str]]:
    """Yield the parts of each name that follows a word before names of tables."""
    for index, token in enumerate(tokens[:-1]):
        if token.keyword not in _BEFORE_TABLES or not tokens[index + 1].is_name:
            continue
        parts = [tokens[index + 1].name.lower()]
        for dot, name in zip(tokens[index + 2 :: 2], tokens[index + 3 :: 2], strict=False):
            if dot.keyword != "." or not name.is_name:
                break
            parts.append(name.name.lower())
        yield parts
