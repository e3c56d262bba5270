"""Statements on transactions, settings and maintenance."""

from __future__ import annotations

from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.statements import administration
from hiveacid.sql.statements.values import Statement, TableRef

CACHE_ADVICE = (
    "transactional tables are not cached by name, because cached rows would be old after the next change: "
    "spark.table(...).cache() in Python, or CREATE TEMPORARY VIEW v AS SELECT ..., then CACHE TABLE v"
)
"""Answer to CACHE TABLE."""
REPAIR_ADVICE = (
    "partitions are not looked for on disk: ALTER TABLE ADD PARTITION, or acid.adopt(...) for a whole table"
)
"""Answer to MSCK REPAIR TABLE."""


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


def repair(cursor: Cursor) -> administration.UnsupportedStatement:
    """Parse behind MSCK."""
    cursor.take("REPAIR")
    cursor.expect("TABLE")
    return unsupported(cursor, f"MSCK is not supported yet, {REPAIR_ADVICE}", cursor.table())


def analyze(cursor: Cursor) -> administration.UnsupportedStatement:
    """Parse behind ANALYZE."""
    cursor.expect("TABLE")
    table = cursor.table()
    cursor.partition(dynamic=True)
    cursor.expect("COMPUTE", "STATISTICS")
    advice = "ANALYZE TABLE is not needed: files carry their own statistics, and Spark reads these"
    return unsupported(cursor, advice, table)
