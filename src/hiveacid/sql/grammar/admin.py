"""Statements on transactions, settings and maintenance; SHOW and DESCRIBE (``HiveParser.g``, showStatement and descStatement)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hiveacid.spark.parser.lexer import TokenKind
from hiveacid.sql.grammar.cursor import RESERVED, Cursor
from hiveacid.sql.statements import SPARK_CATALOG, Statement, TableRef, administration, definitions

CACHE_ADVICE = (
    "transactional tables are not cached by name, because cached rows would be old after the next change: "
    "spark.table(...).cache() in Python, or CREATE TEMPORARY VIEW v AS SELECT ..., then CACHE TABLE v"
)
"""Answer to CACHE TABLE."""


def abort(cursor: Cursor) -> Statement:
    """Parse behind ABORT."""
    kind = cursor.expect_one("TRANSACTIONS", "COMPACTIONS")
    ids: list[int] = []
    while not ids or not cursor.at_end:
        ids.append(cursor.integer("a number"))
        cursor.take(",")
    if kind == "TRANSACTIONS":
        return administration.AbortTransactions(tuple(ids))
    return administration.AbortCompactions(tuple(ids))


def start_transaction(cursor: Cursor) -> administration.StartTransaction:
    """Parse behind START or BEGIN; snapshot isolation is the only level (Hive's grammar too)."""
    if cursor.last.keyword == "START":
        cursor.expect("TRANSACTION")
    else:
        begin, named = cursor.last, cursor.take_one("TRANSACTION", "WORK")
        if not (named or cursor.at_end or cursor.next.keyword in {"READ", "ISOLATION"}):
            cursor.refuse_script(begin)
    read_only = False
    while not cursor.at_end:
        if cursor.take("ISOLATION"):
            cursor.expect("LEVEL", "SNAPSHOT")
        else:
            if not cursor.take("READ"):
                cursor.fail("READ ONLY, READ WRITE or ISOLATION LEVEL SNAPSHOT")
            read_only = cursor.expect_one("ONLY", "WRITE") == "ONLY"
        if not cursor.take(","):
            break
    return administration.StartTransaction(read_only)


def commit(cursor: Cursor) -> administration.Commit:
    """Parse behind COMMIT."""
    cursor.take_one("WORK", "TRANSACTION")
    return administration.Commit()


def rollback(cursor: Cursor) -> administration.Rollback:
    """Parse behind ROLLBACK."""
    cursor.take_one("WORK", "TRANSACTION")
    return administration.Rollback()


def use(cursor: Cursor) -> administration.UseDatabase:
    """Parse behind USE."""
    if cursor.ahead(1).is_name:  # else it is the database's own name
        cursor.take_one("DATABASE", "SCHEMA", "NAMESPACE")
    return administration.UseDatabase(cursor.database())


def set_option(cursor: Cursor) -> administration.SetOption:
    """Parse behind SET: the value is everything after ``=``, quotes included, as in Hive's command line."""
    if cursor.at_end or cursor.take("-", "V"):
        return administration.SetOption()
    if cursor.take("TIME", "ZONE"):
        return administration.SetOption("spark.sql.session.timeZone", cursor.string("a time zone in quotes"))
    key = cursor.until(frozenset({"="}), "a setting's name").text
    if not cursor.take("="):
        return administration.SetOption(_checked(cursor, key))
    return administration.SetOption(_checked(cursor, key), cursor.raw_rest())


def reset_option(cursor: Cursor) -> administration.ResetOption:
    """Parse behind RESET."""
    if cursor.at_end:
        return administration.ResetOption()
    return administration.ResetOption(_checked(cursor, cursor.rest("a setting's name").text))


def _checked(cursor: Cursor, key: str) -> str:
    """Return the key of a setting; refuse one of several words, which is an unknown form of SET."""
    name = key.strip("`")
    if len(name.split()) != 1 or "=" in name:
        cursor.refuse(f"not the name of a setting: {name}", cursor.last)
    return name


def refresh(cursor: Cursor) -> administration.RefreshTable:
    """Parse behind REFRESH."""
    cursor.take("TABLE")
    return administration.RefreshTable(cursor.table())


def cache(cursor: Cursor) -> administration.UnsupportedStatement:
    """Parse behind CACHE and UNCACHE."""
    cursor.take("LAZY")
    cursor.expect("TABLE")
    cursor.take("IF", "EXISTS")
    return administration.UnsupportedStatement(CACHE_ADVICE, cursor.table())


def unsupported(
    cursor: Cursor, advice: str, table: TableRef | None = None
) -> administration.UnsupportedStatement:
    """Take the rest of a statement that is refused when it is carried out; ``advice``: what to do instead."""
    cursor.raw_rest()
    return administration.UnsupportedStatement(advice, table)


def repair(cursor: Cursor) -> definitions.RepairTable:
    """Parse behind MSCK (``HiveParser.g``, metastoreCheck); without REPAIR it only reports."""
    repairs = cursor.take("REPAIR")
    cursor.expect("TABLE")
    table, verb = cursor.table(), cursor.take_one("ADD", "DROP", "SYNC")
    if verb:
        cursor.expect("PARTITIONS")
    spec = cursor.partition(comparisons=True) if verb else ()
    return definitions.RepairTable(
        table, add=repairs and verb != "DROP", drop=repairs and verb in {"DROP", "SYNC"}, partition=spec
    )


def analyze(cursor: Cursor) -> administration.Analyze:
    """Parse behind ANALYZE."""
    cursor.expect("TABLE")
    table, partition = cursor.table(), cursor.partition(dynamic=True)
    if not partition and cursor.take("CACHE", "METADATA"):  # of a metastore on HBase
        return administration.Analyze(table)
    cursor.expect("COMPUTE", "STATISTICS")
    columns: list[str] = []
    if cursor.take("FOR"):
        every = cursor.take("ALL")
        cursor.expect("COLUMNS")
        while not every and not cursor.at_end and (not columns or cursor.take(",")):
            columns.append(cursor.name("a column"))
    else:
        cursor.take("NOSCAN")
    return administration.Analyze(table, partition, tuple(columns))


def optimize(cursor: Cursor) -> Statement:
    """Parse behind OPTIMIZE."""
    table = cursor.table()
    advice = {
        "WHERE": "OPTIMIZE compacts the whole table: ALTER TABLE t PARTITION (...) COMPACT 'major' compacts a partition",
        "ZORDER": "OPTIMIZE does not order rows: ALTER TABLE t COMPACT 'rebalance' ORDER BY column sorts them",
        "FULL": "OPTIMIZE always compacts all partitions with deltas: leave FULL out",
    }.get(cursor.next.keyword)
    return administration.Optimize(table) if advice is None else unsupported(cursor, advice, table)


def vacuum(cursor: Cursor) -> Statement:
    """Parse behind VACUUM."""
    table = cursor.table()
    advice = {
        "RETAIN": "VACUUM removes what no open transaction reads: ALTER TABLE t SET TBLPROPERTIES "
        "('hiveacid.history.retention'='7d') keeps the past for a time",
        "DRY": "VACUUM has no DRY RUN: SELECT * FROM t.deltas WHERE state <> 'used' shows what is not needed now, and why",
        **dict.fromkeys(
            ("FULL", "LITE", "USING"), "VACUUM always looks at all directories of a table: write VACUUM t"
        ),
    }.get(cursor.next.keyword)
    return administration.Vacuum(table) if advice is None else unsupported(cursor, advice, table)


_FILTERS = frozenset({"POOL", "TYPE", "STATUS", "WHERE", "ORDER", "LIMIT"})
_FILTER_CLAUSES = "POOL, TYPE, STATUS, WHERE, ORDER BY, LIMIT"
_CHOICE = frozenset({"WHERE", "ORDER", "LIMIT"})


def show(cursor: Cursor) -> Statement:
    """Parse behind SHOW."""
    kinds: dict[str, Callable[[Cursor], Statement]] = {
        **dict.fromkeys(("DATABASES", "SCHEMAS", "NAMESPACES"), _databases),
        "TABLES": _tables,
        "EXTENDED": _extended_tables,
        "TABLE": _table_extended,
        "VIEWS": lambda inner: administration.ShowViews(*_database_and_pattern(inner)),
        "PARTITIONS": lambda inner: administration.ShowPartitions(
            inner.table(), inner.partition(), _choice(inner)
        ),
        "CREATE": _create,
        "TBLPROPERTIES": _table_properties,
        "COLUMNS": _columns,
        "SORTED": _sorted_columns,
        "TRANSACTIONS": lambda inner: administration.ShowTransactions(_choice(inner)),
        "LOCKS": _locks,
        "COMPACTIONS": _compactions,
        "CONF": lambda inner: administration.ShowConf(inner.string("a setting in quotes")),
    }
    kind = kinds.get(cursor.next.keyword)
    if kind is None:
        cursor.fail(", ".join(kinds), known=kinds)
    cursor.advance()
    return kind(cursor)


def _databases(cursor: Cursor) -> administration.ShowDatabases:
    if cursor.take_one("IN", "FROM") and cursor.name(SPARK_CATALOG) != SPARK_CATALOG:
        cursor.fail(SPARK_CATALOG, cursor.last)
    return administration.ShowDatabases(_pattern(cursor))


def _pattern(cursor: Cursor) -> str | None:
    """Take ``[LIKE] 'pattern'``; a bare name is a pattern too."""
    like = cursor.take("LIKE")
    if cursor.next.is_name and not cursor.sees("WHERE"):
        return cursor.name("a pattern")
    if like or cursor.next.kind is TokenKind.STRING:
        return cursor.string("a pattern in quotes")
    return None


def _database_and_pattern(cursor: Cursor) -> tuple[str | None, str | None]:
    database = cursor.database() if cursor.take_one("IN", "FROM") else None
    return database, _pattern(cursor)


def _tables(cursor: Cursor, *, extended: bool = False) -> Statement:
    """Parse behind TABLES; WHERE knows the type alone, as in Hive (``HiveParser.g``, showTablesFilterExpr)."""
    database, pattern = _database_and_pattern(cursor)
    kind = None
    if cursor.take("WHERE"):
        if cursor.name("table_type") != "table_type":
            cursor.fail("table_type", cursor.last)
        cursor.expect("=")
        kind = cursor.string("a type in quotes")
    if kind is None and not extended:
        return administration.ShowTables(database, pattern)
    return administration.ShowTableTypes(database, pattern, kind, extended)


def _extended_tables(cursor: Cursor) -> Statement:
    cursor.expect("TABLES")
    return _tables(cursor, extended=True)


def _table_extended(cursor: Cursor) -> administration.ShowTableExtended:
    cursor.expect("EXTENDED")
    database, pattern = _database_and_pattern(cursor)
    if pattern is None:
        cursor.fail("LIKE and a pattern in quotes")
    return administration.ShowTableExtended(database, pattern, cursor.partition())


def _create(cursor: Cursor) -> Statement:
    if cursor.expect_one("TABLE", "DATABASE", "SCHEMA") != "TABLE":
        return administration.ShowCreateDatabase(cursor.database())
    return administration.ShowCreateTable(cursor.table())


def _table_properties(cursor: Cursor) -> administration.ShowTableProperties:
    table = cursor.table()
    key = cursor.list_of(lambda: cursor.string("a property's name in quotes")) if cursor.sees("(") else ()
    if len(key) > 1:
        cursor.refuse("SHOW TBLPROPERTIES takes one property's name")
    return administration.ShowTableProperties(table, key[0] if key else None)


def _columns(cursor: Cursor) -> administration.ShowColumns:
    cursor.expect_one("IN", "FROM")
    table = cursor.table()
    if cursor.take_one("IN", "FROM"):
        if table.database is not None:
            cursor.refuse("the database is named twice")
        table = replace(table, database=cursor.database())
    return administration.ShowColumns(table, _pattern(cursor))


def _sorted_columns(cursor: Cursor) -> administration.ShowColumns:
    cursor.expect("COLUMNS")
    return replace(_columns(cursor), is_sorted=True)


def _locks(cursor: Cursor) -> administration.ShowLocks:
    if cursor.take_one("DATABASE", "SCHEMA"):
        return administration.ShowLocks(database=cursor.database(), extended=cursor.take("EXTENDED"))
    if cursor.at_end or cursor.sees("EXTENDED"):
        return administration.ShowLocks(extended=cursor.take("EXTENDED"))
    return administration.ShowLocks(cursor.table(), cursor.partition(), extended=cursor.take("EXTENDED"))


def _compactions(cursor: Cursor) -> administration.ShowCompactions:
    statement = administration.ShowCompactions()
    if cursor.take("COMPACTIONID"):
        cursor.take("=")
        return replace(statement, compaction_id=cursor.integer("the number of a compaction"))
    if cursor.take_one("DATABASE", "SCHEMA"):
        statement = replace(statement, database=cursor.database())
    elif not cursor.at_end and not cursor.sees_any(_FILTERS):
        if not cursor.next.is_name or cursor.sees_any(RESERVED):
            cursor.fail(
                f"COMPACTIONID, DATABASE, a table name, {_FILTER_CLAUSES} or the end of the statement"
            )
        statement = replace(statement, table=cursor.table(), partition=cursor.partition())
    while not (cursor.at_end or cursor.sees_any(_CHOICE)):
        match cursor.take_one("POOL", "TYPE", "STATUS"):
            case "POOL":
                statement = replace(statement, pool=cursor.string("a pool's name in quotes"))
            case "TYPE":
                statement = replace(statement, kind=cursor.string("a type in quotes").lower())
            case "STATUS":
                statement = replace(statement, status=cursor.string("a state in quotes").lower())
            case _:
                cursor.fail(f"{_FILTER_CLAUSES} or the end of the statement")
    return replace(statement, choice=_choice(cursor))


def _choice(cursor: Cursor) -> administration.RowChoice:
    """Take ``[WHERE condition] [ORDER BY columns] [LIMIT n]``."""
    where = cursor.until(frozenset({"ORDER", "LIMIT"}), "a condition") if cursor.take("WHERE") else None
    order_by = None
    if cursor.take("ORDER"):
        cursor.expect("BY")
        order_by = cursor.until(frozenset({"LIMIT"}), "columns to order by")
    limit = cursor.integer("a number of rows") if cursor.take("LIMIT") else None
    return administration.RowChoice(where, order_by, limit)


def describe(cursor: Cursor) -> Statement:
    """Parse behind DESCRIBE or DESC."""
    if cursor.ahead(1).kind is not TokenKind.END and cursor.take_one("DATABASE", "SCHEMA"):
        extended = cursor.ahead(1).kind is not TokenKind.END and cursor.take("EXTENDED")
        return administration.DescribeDatabase(cursor.database(), extended)
    if cursor.sees("DETAIL") and cursor.ahead(1).is_name:
        cursor.expect("DETAIL")
        return administration.DescribeDetail(cursor.table())
    if cursor.sees("HISTORY") and cursor.ahead(1).is_name:
        cursor.expect("HISTORY")
        table = cursor.table()
        limit = cursor.integer("a number of rows") if cursor.take("LIMIT") else None
        return administration.DescribeHistory(table, limit)
    style = ""
    if cursor.ahead(1).is_name:
        style = cursor.take_one("EXTENDED", "FORMATTED").lower()
    cursor.take("TABLE")
    table = cursor.table()
    partition = cursor.partition()
    column = None if cursor.at_end else ".".join(cursor.dotted("a column name"))
    partition = partition or cursor.partition()  # Hive's manual has it behind the column
    return administration.DescribeTable(table, style, partition, column)
