from __future__ import annotations

import pytest

from hiveacid.errors import ParseError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Literal, PartitionItem, Slice, Statement, TableRef
from hiveacid.sql.statements.administration import (
    AbortCompactions,
    AbortTransactions,
    Analyze,
    Commit,
    DescribeDatabase,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    Optimize,
    ResetOption,
    Rollback,
    RowChoice,
    SetOption,
    ShowColumns,
    ShowCompactions,
    ShowConf,
    ShowCreateDatabase,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    ShowTableTypes,
    ShowTransactions,
    StartTransaction,
    UnsupportedStatement,
    UseDatabase,
    Vacuum,
)
from hiveacid.sql.statements.definitions import RepairTable
from hiveacid.sql.statements.dml import Delete, Explain, Query

T = TableRef(None, "t")
DT = TableRef("d", "t")
P = PartitionItem("p", Slice("'x'"), Literal("x", "string"))


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW DATABASES", ShowDatabases()),
        ("SHOW SCHEMAS LIKE 'a*'", ShowDatabases("a*")),
        ("SHOW NAMESPACES IN spark_catalog LIKE 'a*'", ShowDatabases("a*")),
        ("SHOW TABLES", ShowTables()),
        ("SHOW TABLES IN spark_catalog.d", ShowTables("d")),
        ("SHOW TABLES IN d", ShowTables("d")),
        ("SHOW TABLES FROM `d d` LIKE 'a*|b'", ShowTables("d d", "a*|b")),
        ("SHOW TABLES 'a*'", ShowTables(None, "a*")),
        ("SHOW TABLES sales", ShowTables(None, "sales")),
        ("SHOW PARTITIONS d.t", ShowPartitions(DT)),
        ("SHOW PARTITIONS t PARTITION (p='x')", ShowPartitions(T, (P,))),
        (
            "SHOW PARTITIONS t WHERE p > 1 ORDER BY p DESC LIMIT 2",
            ShowPartitions(T, choice=RowChoice(Slice("p > 1"), Slice("p DESC"), 2)),
        ),
        ("SHOW EXTENDED TABLES IN d 'a*'", ShowTableTypes("d", "a*", extended=True)),
        ("SHOW TABLES LIKE 'a' WHERE `TABLE_TYPE` = 'X'", ShowTableTypes(None, "a", "X")),
        ("SHOW CREATE DATABASE d", ShowCreateDatabase("d")),
        ("SHOW SORTED COLUMNS IN d.t 'a'", ShowColumns(DT, "a", is_sorted=True)),
        ("SHOW CREATE TABLE d.t", ShowCreateTable(DT)),
        ("SHOW TBLPROPERTIES t", ShowTableProperties(T)),
        ("SHOW TBLPROPERTIES t ('a.b')", ShowTableProperties(T, "a.b")),
        ("SHOW COLUMNS IN d.t", ShowColumns(DT)),
        ("SHOW COLUMNS FROM t IN d LIKE 'a*'", ShowColumns(DT, "a*")),
        ("SHOW TRANSACTIONS", ShowTransactions()),
        (
            "SHOW TRANSACTIONS WHERE state = 'OPEN' AND user IN (SELECT 'limit' LIMIT 1) ORDER BY startedtime DESC, txnid LIMIT 3",
            ShowTransactions(
                RowChoice(
                    Slice("state = 'OPEN' AND user IN (SELECT 'limit' LIMIT 1)"),
                    Slice("startedtime DESC, txnid"),
                    3,
                )
            ),
        ),
        ("SHOW TRANSACTIONS LIMIT 0", ShowTransactions(RowChoice(limit=0))),
        ("SHOW LOCKS", ShowLocks()),
        ("SHOW LOCKS EXTENDED", ShowLocks(extended=True)),
        ("SHOW LOCKS d.t", ShowLocks(DT)),
        ("SHOW LOCKS t PARTITION (p='x') EXTENDED", ShowLocks(T, (P,), extended=True)),
        ("SHOW LOCKS DATABASE d", ShowLocks(database="d")),
        ("SHOW LOCKS SCHEMA d EXTENDED", ShowLocks(database="d", extended=True)),
        ("SHOW COMPACTIONS", ShowCompactions()),
        ("SHOW COMPACTIONS COMPACTIONID = 7", ShowCompactions(compaction_id=7)),
        (
            "SHOW COMPACTIONS SCHEMA d POOL 'p' TYPE 'MINOR' STATUS 'working' ORDER BY cq_table DESC, cq_id LIMIT 10",
            ShowCompactions(
                database="d",
                pool="p",
                kind="minor",
                status="working",
                choice=RowChoice(order_by=Slice("cq_table DESC, cq_id"), limit=10),
            ),
        ),
        (
            "SHOW COMPACTIONS d.t PARTITION (p='x') STATUS 'ready for cleaning'",
            ShowCompactions(table=DT, partition=(P,), status="ready for cleaning"),
        ),
        ("SHOW COMPACTIONS LIMIT 1", ShowCompactions(choice=RowChoice(limit=1))),
        (
            "SHOW COMPACTIONS d.t STATUS 'failed' WHERE type = 'MAJOR' LIMIT 2",
            ShowCompactions(table=DT, status="failed", choice=RowChoice(Slice("type = 'MAJOR'"), limit=2)),
        ),
        ("SHOW CONF 'hive.txn.timeout'", ShowConf("hive.txn.timeout")),
        ("DESCRIBE t", DescribeTable(T)),
        ("DESC FORMATTED d.t", DescribeTable(DT, "formatted")),
        ("DESCRIBE EXTENDED t PARTITION (p='x')", DescribeTable(T, "extended", (P,))),
        ("DESCRIBE TABLE d.t a", DescribeTable(DT, column="a")),
        ("DESCRIBE FORMATTED t a PARTITION (p='x')", DescribeTable(T, "formatted", (P,), "a")),
        ("DESCRIBE FORMATTED d.t s.x", DescribeTable(DT, "formatted", column="s.x")),
        ("DESCRIBE extended", DescribeTable(TableRef(None, "extended"))),
        ("DESCRIBE DATABASE d", DescribeDatabase("d")),
        ("DESC SCHEMA EXTENDED d", DescribeDatabase("d", extended=True)),
        ("DESCRIBE HISTORY d.t LIMIT 5", DescribeHistory(DT, 5)),
        ("DESCRIBE HISTORY spark_catalog.d.t", DescribeHistory(DT)),
        ("DESCRIBE DETAIL d.t", DescribeDetail(DT)),
        ("DESC DETAIL t", DescribeDetail(T)),
        ("DESCRIBE detail", DescribeTable(TableRef(None, "detail"))),
        ("OPTIMIZE d.t", Optimize(DT)),
        ("ALTER TABLE d.t CONCATENATE", Optimize(DT)),
        ("ALTER TABLE t PARTITION (p='x') CONCATENATE", Optimize(T, (P,))),
        ("VACUUM spark_catalog.d.t", Vacuum(DT)),
        ("DESCRIBE spark_catalog.d.t", DescribeTable(DT)),
        ("DESCRIBE history", DescribeTable(TableRef(None, "history"))),
        ("DESC SELECT 1", Query(Slice("DESC SELECT 1", 0, 1, 1))),
        ("DESCRIBE QUERY TABLE t", Query(Slice("DESCRIBE QUERY TABLE t", 0, 1, 1))),
        ("DESCRIBE query", DescribeTable(TableRef(None, "query"))),
        ("ABORT TRANSACTIONS 1 2 3", AbortTransactions((1, 2, 3))),
        ("ABORT TRANSACTIONS 1, 2", AbortTransactions((1, 2))),
        ("ABORT COMPACTIONS 4", AbortCompactions((4,))),
        ("START TRANSACTION", StartTransaction()),
        ("START TRANSACTION ISOLATION LEVEL SNAPSHOT, READ ONLY", StartTransaction(read_only=True)),
        ("START TRANSACTION READ WRITE", StartTransaction()),
        ("BEGIN", StartTransaction()),
        ("BEGIN TRANSACTION", StartTransaction()),
        ("COMMIT WORK", Commit()),
        ("COMMIT", Commit()),
        ("ROLLBACK", Rollback()),
        ("USE d", UseDatabase("d")),
        ("USE DATABASE `my db`", UseDatabase("my db")),
        ("SET", SetOption()),
        ("SET -v", SetOption()),
        ("SET hive.txn.timeout", SetOption("hive.txn.timeout")),
        ("SET hive.txn.timeout=300", SetOption("hive.txn.timeout", "300")),
        ("SET a.b = x y, (z  'q' ", SetOption("a.b", "x y, (z  'q'")),
        ("SET hiveconf:a-b=", SetOption("hiveconf:a-b", "")),
        ("SET TIME ZONE 'UTC'", SetOption("spark.sql.session.timeZone", "UTC")),
        ("RESET", ResetOption()),
        ("RESET a.b", ResetOption("a.b")),
        ("EXPLAIN SELECT 1", Explain(Query(Slice("SELECT 1")))),
        ("EXPLAIN FORMATTED CBO DELETE FROM t", Explain(Delete(T), ("FORMATTED", "CBO"))),
        ("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN", Analyze(T)),
        ("ANALYZE TABLE d.t COMPUTE STATISTICS FOR COLUMNS a, b", Analyze(DT, columns=("a", "b"))),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS", Analyze(T)),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", Analyze(T)),
        (
            "ANALYZE TABLE t PARTITION (p, q) COMPUTE STATISTICS",
            Analyze(T, (PartitionItem("p"), PartitionItem("q"))),
        ),
        ("MSCK TABLE d.t", RepairTable(DT)),
        ("MSCK TABLE t SYNC PARTITIONS", RepairTable(T)),
        ("MSCK REPAIR TABLE t", RepairTable(T, add=True)),
        ("MSCK REPAIR TABLE t ADD PARTITIONS", RepairTable(T, add=True)),
        ("MSCK REPAIR TABLE t DROP PARTITIONS", RepairTable(T, drop=True)),
        (
            "MSCK REPAIR TABLE t SYNC PARTITIONS PARTITION (p > 1)",
            RepairTable(
                T,
                add=True,
                drop=True,
                partition=(PartitionItem("p", Slice("1"), Literal("1", "number"), ">"),),
            ),
        ),
        ("ALTER TABLE t RECOVER PARTITIONS", RepairTable(T, add=True)),
        ("ANALYZE TABLE d.t CACHE METADATA", Analyze(DT)),
        ("SELECT a FROM t LIMIT 1, 2", Query(Slice("SELECT a FROM t LIMIT 2 OFFSET 1"))),
        ("EXPLAIN ANALYZE SELECT 1", Explain(Query(Slice("SELECT 1")), ("ANALYZE",))),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert parse(text) == statement
    assert parse(f"/* first */ {text};;") == statement


@pytest.mark.parametrize(
    ("text", "table", "advice"),
    [
        ("OPTIMIZE d.t WHERE day = '2026-01-01'", DT, "ALTER TABLE t PARTITION (...) COMPACT 'major'"),
        ("OPTIMIZE t ZORDER BY (a, b)", T, "COMPACT 'rebalance' ORDER BY column"),
        ("OPTIMIZE t FULL", T, "leave FULL out"),
        ("VACUUM d.t RETAIN 0 HOURS DRY RUN", DT, "hiveacid.history.retention"),
        ("VACUUM t DRY RUN", T, "SELECT * FROM t.deltas"),
        ("VACUUM t LITE", T, "write VACUUM t"),
    ],
)
def test_statements_that_are_refused_keep_their_table_and_an_alternative(
    text: str, table: TableRef | None, advice: str
) -> None:
    statement = parse(text)
    assert isinstance(statement, UnsupportedStatement)
    assert (statement.table, advice in statement.advice) == (table, True)


def test_explain_analyze_takes_a_statement_named_analyze() -> None:
    statement = parse("EXPLAIN ANALYZE TABLE t COMPUTE STATISTICS")
    assert isinstance(statement, Explain)
    assert isinstance(statement.statement, Analyze)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "", "a statement"),
        (";", ";", "a statement"),
        ("-- nothing", "", "a statement"),
        ("FROBNICATE t", "FROB", "a statement or a query"),
        ("'select'", "'select'", "a statement"),
        ("`select` 1", "`select`", "a statement"),
        ("SHOW", "", "DATABASES, SCHEMAS"),
        ("SHOW ME", "ME", "DATABASES, SCHEMAS"),
        ("SHOW CREATE VIEW v", "VIEW", "TABLE"),
        ("SHOW TABLES LIKE", "", "a pattern"),
        ("SHOW TABLES IN", "", "a database name"),
        ("SHOW COLUMNS t", "t", "IN or FROM"),
        ("SHOW COLUMNS IN d.t IN d", "d", "named twice"),
        ("SHOW TBLPROPERTIES t ('a', 'b')", "", "one property"),
        ("SHOW TRANSACTIONS 5", "5", "the end"),
        ("SHOW COMPACTIONS COMPACTIONID = x", "x", "number of a compaction"),
        ("SHOW COMPACTIONS t SORTED", "SORTED", "POOL, TYPE"),
        (
            "SHOW COMPACTIONS FROM a",
            "FROM",
            "COMPACTIONID, DATABASE, a table name, POOL, TYPE, STATUS, WHERE, ORDER BY, LIMIT",
        ),
        ("OPTIMIZE", "", "a table name"),
        ("OPTIMIZE t x", "x", "the end of the statement"),
        ("VACUUM FULL t", "t", "the end of the statement"),
        ("DESCRIBE DETAIL t PARTITION (p='x')", "PARTITION", "the end of the statement"),
        ("SHOW COMPACTIONS LIMIT 1.5", "1.5", "a number of rows"),
        ("SHOW COMPACTIONS WHERE a = 1 LIMIT 1 WHERE b", "WHERE b", "the end of the statement"),
        ("SHOW COMPACTIONS ORDER BY a WHERE b LIMIT", "", "a number of rows"),
        ("SHOW TRANSACTIONS WHERE ORDER BY a", "ORDER", "a condition"),
        ("SHOW TRANSACTIONS ORDER a", "a", "BY"),
        ("SHOW TRANSACTIONS STATUS 'open'", "STATUS", "the end of the statement"),
        ("DESCRIBE a.b.c", "a.b", "two parts"),
        ("DESCRIBE t PARTITION", "", "'\\('"),
        ("ABORT", "", "TRANSACTIONS or COMPACTIONS"),
        ("ABORT TRANSACTIONS", "", "a number"),
        ("ABORT TRANSACTIONS 1 x", "x", "a number"),
        ("ABORT TRANSACTIONS 9999999999999999999", "9999999999999999999", "a number"),
        ("START", "", "TRANSACTION"),
        ("BEGIN INSERT INTO t VALUES (1); END", "BEGIN", "script .* one by one"),
        ("a: BEGIN SELECT 1; DROP TABLE t; END", "a: BEGIN", "script .* one by one"),
        ("BEGIN INSERT INTO t VALUES (1)", "BEGIN", "script .* one by one"),
        ("BEGIN; COMMIT", "; COMMIT", "one statement"),
        ("START TRANSACTION READ SOME", "SOME", "ONLY or WRITE"),
        ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SERIALIZABLE", "SNAPSHOT"),
        ("USE", "", "a database name"),
        ("SET a b", "b", "not the name of a setting"),
        ("SET = b", "=", "a setting's name"),
        ("RESET a b", "b", "not the name"),
        ("MSCK REPAIR t", "t", "TABLE"),
        ("MSCK REPAIR TABLE t SYNC", "", "PARTITIONS"),
        ("MSCK REPAIR TABLE t PARTITION (p = 1)", "PARTITION", "the end"),
        ("ANALYZE TABLE t", "", "COMPUTE"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a b", "b", "the end"),
        ("EXPLAIN", "", "a statement"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN SELECT", "cannot explain itself"),
        ("USE a; USE b", ";", "one statement"),
    ],
)
def test_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse(text)
    at = text.rindex(place) if place else len(text)
    assert (caught.value.line, caught.value.column) == (1, at + 1)
