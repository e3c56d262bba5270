"""CREATE TABLE in Hive's grammar (``HiveParser.g``, createTableStatement).

Clauses may come in any order, each once. The output of SHOW CREATE TABLE of Hive 3 and Hive 4 parses unchanged.
Clauses whose meaning this project cannot keep (STORED BY, SKEWED BY, temporary tables) are
refused, not ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hiveacid.config.property_definitions import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from hiveacid.core.model import Bucketing, Column, Constraint
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.spark.parser.lexer import Token
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.table_clauses import (
    StorageClauses,
    take_column_constraint,
    take_storage_clause,
    take_table_constraint,
)
from hiveacid.sql.statements import Slice, TableRef, table_ref
from hiveacid.sql.statements.definitions import CreateTable, CreateTableLike

QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "("})


@dataclass
class _Draft:
    """Clauses of a CREATE TABLE that have been parsed so far."""

    table: TableRef
    external: bool
    if_not_exists: bool
    columns: dict[str, tuple[Column, Token]] = field(default_factory=dict)
    partitions: dict[str, tuple[Column, Token]] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    storage: StorageClauses = field(default_factory=StorageClauses)
    bucketing: Bucketing | None = None
    bucket_tokens: dict[str, Token] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    query: Slice | None = None
    like: TableRef | None = None


def create_table(cursor: Cursor) -> CreateTable | CreateTableLike:
    """Parse what follows CREATE, from the words before TABLE (EXTERNAL, TRANSACTIONAL) on."""
    words: set[str] = set()
    start = cursor.next
    while not cursor.take("TABLE"):
        words.add(cursor.expect_one("TABLE", "TRANSACTIONAL", "MANAGED", "EXTERNAL"))
    if {"TRANSACTIONAL", "EXTERNAL"} <= words or {"MANAGED", "EXTERNAL"} <= words:
        cursor.refuse("a table is either external or managed", start)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    draft = _Draft(_table_name(cursor), "EXTERNAL" in words, if_not_exists)
    if cursor.sees("("):
        _columns(cursor, draft)
    _clauses(cursor, draft)
    if "TRANSACTIONAL" in words:
        _make_transactional(draft)
    if draft.like is not None:
        if draft.columns or draft.partitions or draft.bucketing or draft.query or draft.comment is not None:
            cursor.refuse(
                "CREATE TABLE LIKE takes columns, partitions, buckets and comment from the source table",
                start,
            )
        return CreateTableLike(
            table=draft.table,
            source=draft.like,
            storage=draft.storage.resolve(),
            has_spark_provider=draft.storage.has_spark_provider,
            location=draft.location,
            properties=tuple(sorted(draft.properties.items())),
            external=draft.external,
            if_not_exists=draft.if_not_exists,
        )
    return _finish(cursor, draft)


def _make_transactional(draft: _Draft) -> None:
    """Add Hive's properties of CREATE TRANSACTIONAL TABLE: full ACID for unsorted ORC files, otherwise insert-only.

    These properties stay if the statement has them (``SemanticAnalyzer.validateAndAddDefaultProperties``, Hive 4).
    """
    keys = {key.lower() for key in draft.properties}
    if TRANSACTIONAL.name in keys:
        return
    draft.properties[TRANSACTIONAL.name] = "true"
    if TRANSACTIONAL_PROPERTIES.name in keys:
        return
    storage = draft.storage.resolve() if draft.like is None else None
    is_orc = storage is None or storage.input_format == ORC.input_format
    if not is_orc or (draft.bucketing is not None and draft.bucketing.sort_columns):
        draft.properties[TRANSACTIONAL_PROPERTIES.name] = "insert_only"


def _table_name(cursor: Cursor) -> TableRef:
    first = cursor.next
    ref = table_ref(cursor.dotted("a table name", flexible=True))
    if ref is None:
        cursor.refuse("a table name has at most two parts, database.table", first)
    return replace(ref, line=first.line, column=first.column)


def _columns(cursor: Cursor, draft: _Draft) -> None:
    def member() -> None:
        constraint = take_table_constraint(cursor)
        if constraint is None:
            _add(cursor, draft.columns, _column(cursor, draft))
        else:
            draft.constraints.append(constraint)

    cursor.list_of(member)


def _column(cursor: Cursor, draft: _Draft) -> tuple[Column, Token]:
    token = cursor.next
    name = cursor.flexible_name("a column name")
    type_text = cursor.type()
    comment: str | None = None
    while cursor.next.keyword not in {",", ")"}:
        if cursor.take("COMMENT"):
            comment = cursor.string("a comment in quotes")
        elif (constraint := take_column_constraint(cursor, name)) is not None:
            draft.constraints.append(constraint)
        else:
            cursor.fail("',' or ')' or COMMENT")
    return Column(name, type_text, comment), token


def _add(cursor: Cursor, columns: dict[str, tuple[Column, Token]], new: tuple[Column, Token]) -> None:
    if new[0].name in columns:
        cursor.refuse(f"column {new[0].name} is given twice", new[1])
    columns[new[0].name] = new


def _clauses(cursor: Cursor, draft: _Draft) -> None:
    clauses: set[str] = set()
    while not cursor.at_end:
        token = cursor.next
        clause = _clause(cursor, draft)
        if clause in clauses:
            cursor.refuse(f"{clause} is given twice", token)
        clauses.add(clause)


def _clause(cursor: Cursor, draft: _Draft) -> str:
    """Take one clause; return its name."""
    if clause := take_storage_clause(cursor, draft.storage):
        return clause
    word = cursor.take_one("COMMENT", "LOCATION", "TBLPROPERTIES", "PARTITIONED", "CLUSTERED", "AS", "LIKE")
    match word:
        case "COMMENT":
            draft.comment = cursor.string("a comment in quotes")
        case "LOCATION":
            draft.location = cursor.string("a path in quotes")
        case "TBLPROPERTIES":
            draft.properties |= dict(cursor.properties())
        case "PARTITIONED":
            cursor.expect("BY")
            cursor.list_of(lambda: _partition_column(cursor, draft))
        case "CLUSTERED":
            _buckets(cursor, draft)
        case "LIKE":
            draft.like = cursor.table()
        case "AS":
            draft.query = query_of(cursor)
        case _:
            _refuse_clause(cursor)
    return word


def _refuse_clause(cursor: Cursor) -> None:
    reasons = {
        "SKEWED": "there are no skewed tables: partitions and buckets divide rows",
        "WITH": "WITH (…) of Trino is not supported: write PARTITIONED BY, CLUSTERED BY, STORED AS and TBLPROPERTIES",
        "OPTIONS": "OPTIONS of Spark's data sources are not supported: use TBLPROPERTIES",
    }
    if reason := reasons.get(cursor.next.keyword):
        cursor.refuse(reason)
    cursor.fail(
        "COMMENT, PARTITIONED BY, CLUSTERED BY, ROW FORMAT, STORED AS, LOCATION, TBLPROPERTIES or AS"
        " (or the end of the statement)"
    )


def query_of(cursor: Cursor) -> Slice:
    """Take the query behind AS."""
    if not cursor.sees_any(QUERY_WORDS):
        cursor.fail("a query")
    return cursor.rest("a query")


def _partition_column(cursor: Cursor, draft: _Draft) -> None:
    """Take ``name type [COMMENT]``, or a name alone (CREATE TABLE AS, Spark's USING)."""
    token = cursor.next
    if cursor.ahead(1).keyword in {",", ")"}:
        _add(cursor, draft.partitions, (Column(cursor.name("a column name"), ""), token))
        return
    _add(cursor, draft.partitions, _column(cursor, draft))


def _buckets(cursor: Cursor, draft: _Draft) -> None:
    cursor.expect("BY")

    def member() -> str:
        token, name = cursor.next, cursor.name("a column name")
        draft.bucket_tokens.setdefault(name, token)
        return name

    columns = cursor.list_of(member)
    sorting: dict[str, bool] = {}  # column -> descending
    if cursor.take("SORTED"):
        cursor.expect("BY")
        cursor.list_of(lambda: sorting.update([(member(), _direction(cursor))]))
    cursor.expect("INTO")
    token, count = cursor.next, cursor.integer("the number of buckets")
    if count < 1:
        cursor.refuse("a table has at least one bucket", token)
    cursor.expect("BUCKETS")
    descending = tuple(name for name, falling in sorting.items() if falling)
    draft.bucketing = Bucketing(columns, count, tuple(sorting), descending)


def _direction(cursor: Cursor) -> bool:
    """Take ``[ASC | DESC] [NULLS FIRST | LAST]``; tell whether it is DESC (the catalog keeps no null order)."""
    falling = cursor.take_one("ASC", "DESC") == "DESC"
    if cursor.take("NULLS"):
        cursor.expect_one("FIRST", "LAST")
    return falling


def _finish(cursor: Cursor, draft: _Draft) -> CreateTable:
    if not draft.columns and draft.query is None:
        cursor.fail("columns in parentheses or AS and a query", cursor.next)
    if draft.columns and draft.query is not None:
        cursor.refuse(
            "CREATE TABLE AS takes its columns from the query", next(iter(draft.columns.values()))[1]
        )
    _place_partitions(cursor, draft)
    for name, token in draft.bucket_tokens.items():
        if draft.query is None and name not in draft.columns:
            cursor.refuse(f"{name} is not one of the table's columns (partition columns excluded)", token)
    return CreateTable(
        table=draft.table,
        columns=tuple(column for column, _ in draft.columns.values()),
        partition_columns=tuple(column for column, _ in draft.partitions.values()),
        bucketing=draft.bucketing,
        storage=draft.storage.resolve(),
        has_spark_provider=draft.storage.has_spark_provider,
        location=draft.location,
        comment=draft.comment,
        properties=tuple(sorted(draft.properties.items())),
        external=draft.external,
        if_not_exists=draft.if_not_exists,
        query=draft.query,
        constraints=tuple(draft.constraints),
    )


def _place_partitions(cursor: Cursor, draft: _Draft) -> None:
    """Move partition columns that were only named from the columns to the partition columns."""
    for name, (column, token) in list(draft.partitions.items()):
        if not column.type and name in draft.columns:
            draft.partitions[name] = draft.columns.pop(name)
        elif name in draft.columns:
            cursor.refuse(f"column {name} is both a column and a partition column", token)
        elif not column.type and draft.query is None:
            cursor.refuse(f"partition column {name} has no type", token)
        elif column.type and draft.query is not None:
            cursor.refuse("CREATE TABLE AS names its partition columns without types", token)
        type_text = draft.partitions[name][0].type
        if type_text and not isinstance(parse_type(type_text), Primitive):
            cursor.refuse("a partition column must be of a primitive type", token)
