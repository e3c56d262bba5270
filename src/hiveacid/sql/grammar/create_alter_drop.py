"""CREATE, DROP, ALTER and TRUNCATE, except CREATE TABLE and views (``HiveParser.g``, ``AlterClauseParser.g``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from hiveacid.config.property_definitions import TRANSACTIONAL
from hiveacid.core.compaction.queue_records import format_sort_order, parse_sort_order
from hiveacid.core.model import ConstraintKind
from hiveacid.core.schema.evolution import FIRST, ColumnChange
from hiveacid.errors import ParseError, StatementError
from hiveacid.spark.parser.lexer import TokenKind
from hiveacid.sql.grammar.advice import ALTERATIONS
from hiveacid.sql.grammar.create_table import QUERY_WORDS, create_table, query_of
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.table_clauses import take_column_constraint, take_table_constraint
from hiveacid.sql.statements import (
    PartitionSpec,
    Properties,
    Statement,
    TableRef,
    administration,
    definitions,
    table_ref,
)

COMPACTIONS = frozenset({"minor", "major", "rebalance"})
_DATABASE = ("DATABASE", "SCHEMA", "NAMESPACE")
_COLUMN_VERBS = frozenset({"ADD", "CHANGE", "REPLACE"})
_RETAINED = {"DAYS": 86_400, "HOURS": 3_600, "MINUTES": 60}
_VIEW_WORDS = frozenset({"VIEW", "TEMPORARY", "TEMP", "GLOBAL"})


def create(cursor: Cursor) -> Statement:
    """Parse behind CREATE."""
    if cursor.take_one(*_DATABASE):
        return _create_database(cursor)
    start = cursor.next
    orred = cursor.take("OR", "REPLACE")
    if orred and not cursor.sees_any(_VIEW_WORDS):
        cursor.refuse(
            "only views can be replaced: INSERT OVERWRITE TABLE t SELECT ... replaces the rows of a table; for other columns "
            "CREATE TABLE n ... AS SELECT ..., DROP TABLE t, ALTER TABLE n RENAME TO t",
            start,
        )
    is_view = cursor.sees_any(_VIEW_WORDS) and not cursor.sees("TEMPORARY", "TABLE")
    if is_view:
        return _create_view(cursor, is_replacing=orred)
    return create_table(cursor)


def _create_database(cursor: Cursor) -> definitions.CreateDatabase:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    statement = definitions.CreateDatabase(cursor.database(), if_not_exists)
    while not cursor.at_end:
        if cursor.take("COMMENT"):
            statement = replace(statement, comment=cursor.string("a comment in quotes"))
        elif cursor.take("LOCATION"):
            statement = replace(statement, location=cursor.string("a path in quotes"))
        else:
            if not (cursor.take("WITH", "DBPROPERTIES") or cursor.take("WITH", "PROPERTIES")):
                cursor.fail("COMMENT, LOCATION or WITH DBPROPERTIES")
            statement = replace(statement, properties=cursor.properties())
    return statement


def drop(cursor: Cursor) -> Statement:
    """Parse behind DROP."""
    kind = cursor.expect_one("TABLE", "VIEW", *_DATABASE)
    if_exists = cursor.take("IF", "EXISTS")
    if kind == "TABLE":
        return definitions.DropTable(cursor.table(), if_exists, cursor.take("PURGE"))
    if kind == "VIEW":
        return definitions.DropView(cursor.table("the view's name"), if_exists)
    name = cursor.database()
    return definitions.DropDatabase(name, if_exists, cursor.take_one("RESTRICT", "CASCADE") == "CASCADE")


def truncate(cursor: Cursor) -> definitions.TruncateTable:
    """Parse behind TRUNCATE."""
    cursor.take("TABLE")
    statement = definitions.TruncateTable(cursor.table(), cursor.partition())
    cursor.take("FORCE")  # of external tables in Hive
    return statement


def comment(cursor: Cursor) -> Statement:
    """Parse behind COMMENT (Spark): the same as ALTER TABLE says."""
    cursor.expect("ON")
    kind = cursor.expect_one("TABLE", "COLUMN", *_DATABASE)
    if kind in _DATABASE:
        name = cursor.database()
        return definitions.AlterDatabase(name, comment=_comment_text(cursor))
    start = cursor.next
    parts = cursor.dotted("a name", flexible=True)
    column = parts.pop() if kind == "COLUMN" else ""
    table = table_ref(parts) if parts else None
    if table is None:
        cursor.refuse("write table or database.table, and behind it the column", start)
    table = replace(table, line=start.line, column=start.column)
    text = _comment_text(cursor)
    if kind == "COLUMN":
        return definitions.ChangeColumn(table, ColumnChange(column, comment=text))
    return definitions.SetTableProperties(table, (("comment", text),))


def _comment_text(cursor: Cursor) -> str:
    cursor.expect("IS")
    return "" if cursor.take("NULL") else cursor.string("a comment in quotes")


def alter(cursor: Cursor) -> Statement:
    """Parse behind ALTER."""
    kind = cursor.expect_one("TABLE", "VIEW", *_DATABASE)
    if kind == "VIEW":
        return _alter_view(cursor)
    if kind != "TABLE":
        return _alter_database(cursor)
    table = cursor.table()
    partition = cursor.partition()
    if cursor.take("COMPACT"):
        return _compact(cursor, table, partition)
    if cursor.take("CONCATENATE"):  # which Hive carries out so for transactional tables
        return administration.Optimize(table, partition)
    for words in (f"{cursor.next.keyword} {cursor.ahead(1).keyword}", cursor.next.keyword):
        if words in ALTERATIONS:
            cursor.refuse(ALTERATIONS[words])
    if partition:
        if cursor.sees_any(_COLUMN_VERBS):
            cursor.refuse("all partitions have the columns of the table: leave PARTITION (...) out")
        if not cursor.take("RENAME", "TO"):
            cursor.fail("COMPACT, CONCATENATE or RENAME TO PARTITION")
        if not cursor.sees("PARTITION"):
            cursor.fail("PARTITION (...)")
        return definitions.RenamePartition(table, partition, cursor.partition())
    actions: dict[str, Callable[[Cursor, TableRef], Statement]] = {
        "ADD": _add,
        "DROP": _drop,
        "RENAME": _rename,
        "REPLACE": _replace_columns,
        "CHANGE": _change_column,
        "ALTER": _alter_column,
        "SET": _set,
        "CONVERT": _convert,
        "RECOVER": _recover,
        "CREATE": _create_tag,
        "UNSET": lambda inner, table: definitions.UnsetTableProperties(table, *_unset_keys(inner)),
    }
    action = actions.get(cursor.next.keyword)
    if action is None:
        cursor.fail(f"{', '.join(actions)}, COMPACT or PARTITION")
    cursor.advance()
    return action(cursor, table)


def _rename(cursor: Cursor, table: TableRef) -> Statement:
    if cursor.take("COLUMN"):
        column = _column_of_table(cursor)
        cursor.expect("TO")
        return definitions.ChangeColumn(table, ColumnChange(column, name=cursor.name("the new name")))
    if not cursor.take("TO"):
        cursor.fail("TO or COLUMN")
    return definitions.RenameTable(table, cursor.table("the new name"))


def _column_of_table(cursor: Cursor) -> str:
    """Take the name of a column, not of a field in it: files are searched for fields by name, so that these cannot change."""
    start, parts = cursor.next, cursor.dotted("a column name", flexible=True)
    if len(parts) > 1:
        cursor.refuse("fields of a struct cannot be altered: CREATE TABLE ... AS SELECT a new table", start)
    return parts[0]


def _change_column(cursor: Cursor, table: TableRef) -> Statement:
    """Parse behind CHANGE: Hive's form, or Spark's for a comment alone (``AlterClauseParser.g``, alterStatementSuffixRenameCol)."""
    cursor.take("COLUMN")
    column = _column_of_table(cursor)
    if cursor.sees("COMMENT") and cursor.ahead(1).kind is TokenKind.STRING:
        return definitions.ChangeColumn(table, _column_clauses(cursor, ColumnChange(column)))
    if cursor.sees("TYPE"):  # Hive: a new name; Spark: a new type
        cursor.refuse(
            "TYPE is a name to Hive and no name to Spark: write ALTER COLUMN c TYPE t, or CHANGE COLUMN c `type` t"
        )
    new = cursor.flexible_name("the column's new name")
    change = ColumnChange(column, name=new, type=cursor.type())
    constraint = take_column_constraint(cursor, new)
    return definitions.ChangeColumn(table, _column_clauses(cursor, change), constraint)


def _alter_column(cursor: Cursor, table: TableRef) -> Statement:
    """Parse behind ALTER (Spark)."""
    cursor.take("COLUMN")
    change = ColumnChange(_column_of_table(cursor))
    if cursor.take("SET"):
        constraint = take_column_constraint(cursor, change.column)
        if constraint is None:
            cursor.fail("NOT NULL or DEFAULT")
        return definitions.AddConstraint(table, constraint)
    if cursor.take("DROP"):
        kind = ConstraintKind.NOT_NULL if cursor.take("NOT", "NULL") else ConstraintKind.DEFAULT
        if kind is ConstraintKind.DEFAULT:
            cursor.expect("DEFAULT")
        return definitions.DropColumnConstraint(table, change.column, kind)
    if cursor.take("TYPE"):
        change = replace(change, type=cursor.type())
    start = cursor.next
    change = _column_clauses(cursor, change)
    if change == ColumnChange(change.column):
        cursor.fail("TYPE, COMMENT, FIRST or AFTER", start)
    return definitions.ChangeColumn(table, change)


def _column_clauses(cursor: Cursor, change: ColumnChange) -> ColumnChange:
    if cursor.take("COMMENT"):
        change = replace(change, comment=cursor.string("a comment in quotes"))
    if cursor.take("FIRST"):
        change = replace(change, after=FIRST)
    elif cursor.take("AFTER"):
        change = replace(change, after=cursor.flexible_name("a column name"))
    cursor.take_one("RESTRICT", "CASCADE")
    return change


def _replace_columns(cursor: Cursor, table: TableRef) -> definitions.ReplaceColumns:
    cursor.expect("COLUMNS")
    columns = cursor.list_of(cursor.column, attrgetter("name"), "column {} is given twice")
    cursor.take_one("RESTRICT", "CASCADE")
    return definitions.ReplaceColumns(table, columns)


def _alter_database(cursor: Cursor) -> Statement:
    """Parse behind ALTER DATABASE (``HiveParser.g``, alterDatabaseStatementSuffix)."""
    statement = definitions.AlterDatabase(cursor.database())
    cursor.expect("SET")
    match cursor.expect_one("DBPROPERTIES", "PROPERTIES", "OWNER", "LOCATION"):
        case "OWNER":
            return replace(statement, owner=_owner(cursor))
        case "LOCATION":
            return replace(statement, location=cursor.string("a path in quotes"))
        case _:
            return replace(statement, properties=cursor.properties())


def _owner(cursor: Cursor) -> str:
    start = cursor.next
    if cursor.expect_one("USER", "ROLE", "GROUP") != "USER":
        cursor.refuse(
            "hiveacid keeps the name of a user as owner, and neither roles nor groups: write SET OWNER USER u",
            start,
        )
    if cursor.next.is_name:
        return cursor.advance().name
    return cursor.string("a user's name")


def _set(cursor: Cursor, table: TableRef) -> Statement:
    if cursor.expect_one("TBLPROPERTIES", "OWNER") == "OWNER":
        return definitions.SetTableOwner(table, _owner(cursor))
    return definitions.SetTableProperties(table, cursor.properties())


def _convert(cursor: Cursor, table: TableRef) -> definitions.SetTableProperties:
    """Parse behind CONVERT (Hive 4)."""
    cursor.expect("TO", "ACID")
    given = cursor.properties() if cursor.take("TBLPROPERTIES") else ()
    return definitions.SetTableProperties(table, ((TRANSACTIONAL.name, "true"), *given))


def _recover(cursor: Cursor, table: TableRef) -> definitions.RepairTable:
    """Parse behind RECOVER (Spark)."""
    cursor.expect("PARTITIONS")
    return definitions.RepairTable(table, add=True)


def _add(cursor: Cursor, table: TableRef) -> Statement:
    if cursor.take_one("COLUMNS", "COLUMN"):
        several = cursor.sees("(")
        columns = (
            cursor.list_of(cursor.column, attrgetter("name"), "column {} is given twice")
            if several
            else (cursor.column(),)
        )
        cursor.take_one("RESTRICT", "CASCADE")
        return definitions.AddColumns(table, columns)
    constraint = take_table_constraint(cursor)
    if constraint is not None:
        return definitions.AddConstraint(table, constraint)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    partitions: list[definitions.AddedPartition] = []
    while cursor.sees("PARTITION"):
        spec = cursor.partition()
        location = cursor.string("a path in quotes") if cursor.take("LOCATION") else None
        partitions.append(definitions.AddedPartition(spec, location))
    if not partitions:
        cursor.fail("PARTITION (...)" if if_not_exists else "COLUMNS, CONSTRAINT or PARTITION (...)")
    return definitions.AddPartitions(table, tuple(partitions), if_not_exists)


def _create_tag(cursor: Cursor, table: TableRef) -> definitions.CreateTag:
    """Parse behind CREATE (``AlterClauseParser.g``, alterStatementSuffixCreateTag; AS OF VERSION is Iceberg's for Spark)."""
    or_replace = cursor.take("OR", "REPLACE")
    cursor.expect("TAG")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    statement = definitions.CreateTag(
        table, cursor.name("the tag's name"), or_replace=or_replace, if_not_exists=if_not_exists
    )
    if cursor.take("FOR"):
        kind = cursor.expect_one("SYSTEM_VERSION", "SYSTEM_TIME", "TAG")
        cursor.expect("AS", "OF")
        if kind == "SYSTEM_TIME":
            statement = replace(statement, moment=cursor.until(frozenset({"RETAIN"}), "a timestamp"))
        elif kind == "TAG":
            statement = replace(statement, version=cursor.name("the other tag's name"))
        else:
            statement = replace(statement, version=cursor.integer("a write id"))
    elif cursor.take("AS", "OF", "VERSION"):
        statement = replace(statement, version=cursor.integer("a write id"))
    if cursor.take("RETAIN"):
        amount = cursor.integer("a number")
        unit = cursor.expect_one(*_RETAINED)
        statement = replace(statement, retain=amount * _RETAINED[unit])
    return statement


def _drop(cursor: Cursor, table: TableRef) -> Statement:
    if cursor.take("TAG"):
        if_exists = cursor.take("IF", "EXISTS")
        return definitions.DropTag(table, cursor.name("the tag's name"), if_exists)
    if cursor.take_one("COLUMN", "COLUMNS"):
        if_exists = cursor.take("IF", "EXISTS")
        if cursor.sees("("):
            names = cursor.list_of(lambda: _column_of_table(cursor), str)
        else:
            names = (_column_of_table(cursor),)
            while cursor.take(","):
                names = (*names, _column_of_table(cursor))
        return definitions.DropColumns(table, names, if_exists)
    if cursor.take("CONSTRAINT"):
        if_exists = cursor.take("IF", "EXISTS")
        return definitions.DropConstraint(table, cursor.name("the constraint's name"), if_exists)
    if_exists = cursor.take("IF", "EXISTS")
    specs: list[PartitionSpec] = []
    while not specs or cursor.take(","):
        if not cursor.sees("PARTITION"):
            cursor.fail("PARTITION (...)")
        specs.append(cursor.partition(comparisons=True))
    return definitions.DropPartitions(table, tuple(specs), if_exists, cursor.take("PURGE"))


def _unset_keys(cursor: Cursor) -> tuple[tuple[str, ...], bool]:
    """Parse behind UNSET; return the keys, and whether IF EXISTS is written."""
    cursor.expect("TBLPROPERTIES")
    if_exists = cursor.take("IF", "EXISTS")
    return cursor.list_of(lambda: cursor.string("a property's name in quotes")), if_exists


def _compact(cursor: Cursor, table: TableRef, partition: PartitionSpec) -> administration.Compact:
    """Parse behind COMPACT; the clauses may come in any order, each once."""
    token, kind = cursor.next, cursor.string("'minor', 'major' or 'rebalance'").lower()
    if kind not in COMPACTIONS:
        cursor.refuse(f"unknown compaction '{kind}': use 'minor', 'major' or 'rebalance'", token)
    statement = administration.Compact(table, kind, partition)
    clauses: set[str] = set()
    while not cursor.at_end:
        token = cursor.next
        if token.keyword in clauses:
            cursor.refuse(f"{token.keyword} is given twice", token)
        clauses.add(token.keyword)
        statement = _compact_clause(cursor, statement)
    return statement


def _compact_clause(cursor: Cursor, statement: administration.Compact) -> administration.Compact:
    if cursor.take("AND", "WAIT"):
        return replace(statement, wait=True)
    if cursor.take("POOL"):
        return replace(statement, pool=cursor.string("a pool's name in quotes"))
    if cursor.take("CLUSTERED", "INTO"):
        token, count = cursor.next, cursor.integer("the number of buckets")
        if count < 1:
            cursor.refuse("at least one bucket is needed", token)
        cursor.expect("BUCKETS")
        return replace(statement, buckets=count)
    if cursor.take("ORDER", "BY"):
        stops = frozenset({"AND", "POOL", "CLUSTERED", "WITH"})
        clause = cursor.until(stops, "columns to order by")
        words = " ".join(token.text for token in clause.tokens)  # without comments
        try:
            return replace(statement, order_by=format_sort_order(parse_sort_order(words)))
        except StatementError as error:
            raise ParseError(str(error), line=clause.line, column=clause.column) from None
    if not cursor.take("WITH", "OVERWRITE", "TBLPROPERTIES"):
        cursor.fail("AND WAIT, POOL, CLUSTERED INTO, ORDER BY, WITH OVERWRITE TBLPROPERTIES or the end")
    return replace(statement, properties=cursor.properties())


def _create_view(cursor: Cursor, *, is_replacing: bool) -> Statement:
    """Parse behind CREATE [OR REPLACE], from GLOBAL, TEMPORARY or VIEW on (``HiveParser.g``, createViewStatement)."""
    is_global = cursor.take("GLOBAL")
    if cursor.take_one("TEMPORARY", "TEMP"):
        cursor.expect("VIEW")
        name = cursor.table("the view's name")
        columns = cursor.names("a column name") if cursor.sees("(") else ()
        if cursor.sees("USING"):
            cursor.refuse(
                "a temporary view is made of a query: CREATE TEMPORARY VIEW v AS SELECT * FROM csv.`/path` WITH (header = true)"
            )
        cursor.expect("AS")
        return definitions.CreateTemporaryView(name, query_of(cursor), columns, is_replacing, is_global)
    if is_global:
        cursor.fail("TEMPORARY")
    cursor.expect("VIEW")
    start = cursor.next
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if if_not_exists and is_replacing:
        cursor.refuse("a view is either replaced or left as it is", start)
    name = cursor.table("the view's name")
    named = cursor.list_of(lambda: _view_column(cursor), attrgetter("name")) if cursor.sees("(") else ()
    comment, properties = _view_clauses(cursor)
    cursor.expect("AS")
    return definitions.CreateView(
        name, query_of(cursor), named, comment, properties, if_not_exists, is_replacing
    )


def _view_column(cursor: Cursor) -> definitions.ViewColumn:
    name = cursor.name("a column name")
    return definitions.ViewColumn(
        name, cursor.string("a comment in quotes") if cursor.take("COMMENT") else None
    )


def _view_clauses(cursor: Cursor) -> tuple[str | None, Properties]:
    comment: str | None = None
    properties: Properties | None = None
    while not cursor.sees("AS"):
        token = cursor.next
        if cursor.take("COMMENT"):
            if comment is not None:
                cursor.refuse("COMMENT is given twice", token)
            comment = cursor.string("a comment in quotes")
            continue
        if not cursor.take("TBLPROPERTIES"):
            cursor.fail("COMMENT, TBLPROPERTIES or AS")
        if properties is not None:
            cursor.refuse("TBLPROPERTIES is given twice", token)
        properties = cursor.properties()
    return comment, properties or ()


def _alter_view(cursor: Cursor) -> Statement:
    """Parse behind ALTER VIEW (``AlterClauseParser.g``, alterViewStatementSuffix)."""
    view = cursor.table("the view's name")
    if cursor.take("RENAME", "TO"):
        return definitions.RenameView(view, cursor.table("the new name"))
    if cursor.take("SET", "TBLPROPERTIES"):
        return definitions.SetViewProperties(view, cursor.properties())
    if cursor.sees("UNSET", "TBLPROPERTIES"):
        cursor.advance()
        return definitions.UnsetViewProperties(view, *_unset_keys(cursor))
    if not cursor.take("AS") and not cursor.sees_any(QUERY_WORDS):
        cursor.fail("AS, RENAME TO, SET TBLPROPERTIES or UNSET TBLPROPERTIES")
    return definitions.AlterView(view, query_of(cursor))
