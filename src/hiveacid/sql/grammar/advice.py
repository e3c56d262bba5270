"""Advice: the sentence for a statement of Hive, Spark or another system that does not exist here, with what does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hiveacid.spark.parser.lexer import Token, TokenKind

_UPSERT = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_PRIVILEGES = "hiveacid keeps no privileges: those of the files and of the store count (docs/security.md)"
_LOCKS = "as in Hive with transactions (10271): each statement takes its locks itself; what must happen together goes between START TRANSACTION and COMMIT"
_FIXED = "the location of a table does not change: CREATE TABLE n ... LOCATION '...' AS SELECT * FROM t, or move the warehouse (hiveacid relocate)"
_MATERIALIZED = "materialized views are not supported: CREATE VIEW shows the present, INSERT OVERWRITE TABLE t SELECT refreshes a table"
_CONNECTORS = "data connectors are not supported: spark.read.jdbc(...).createOrReplaceTempView('v') names a table of another database"
_CATALOGS = "there is one catalog: CREATE DATABASE makes a database in it"
_INDEXES = (
    "there are no indexes (nor in Hive 3): files and their parts are skipped by smallest and largest values, and by bloom filters "
    "(TBLPROPERTIES 'orc.bloom.filter.columns')"
)
_MACROS = (
    "macros are not supported: write the expression itself, or a function in Python (spark.udf.register)"
)
_FUNCTIONS = "functions that stay are Spark's own: CREATE TEMPORARY FUNCTION f AS 'class' for a session, or spark.sql('CREATE FUNCTION ...')"
_RESOURCES = "files of a session stay until its end: ADD JAR, ADD FILE and LIST are there"
_REPLICATION = "REPL is not supported: hiveacid backup copies a warehouse, hiveacid migrate moves tables to another store"
_SCHEDULES = "queries have no schedule of their own: let cron or Airflow run hiveacid sql -f FILE"
_PLANS = "resource plans are Hive's on Tez: COMPACT ... POOL and the limits of hiveacid serve are there"
_FORMAT = "the format of a table does not change, as its files keep theirs: CREATE TABLE n STORED AS ... AS SELECT * FROM t"
_BUCKETS = "the buckets of a table do not change, as its rows lie in them: CREATE TABLE n (...) CLUSTERED BY (...) INTO n BUCKETS, INSERT INTO n SELECT * FROM t"
_SKEWED = "there are no skewed tables: partitions and buckets divide rows"
_BRANCHES = "branches and procedures are Iceberg's: ALTER TABLE t CREATE TAG name keeps a state, SELECT ... FROM t VERSION AS OF n reads the past, RESTORE TABLE t TO VERSION AS OF n brings it back"
_PROTECTION = "NO_DROP and OFFLINE are not supported (nor in Hive 2): rights on files and store protect a table (docs/security.md)"
_ARCHIVES = "partitions are not archived: COMPACT 'major' leaves few files"
_ROLES = (
    "CREATE ROLE",
    "DROP ROLE",
    "SET ROLE",
    "SHOW ROLE",
    "SHOW ROLES",
    "SHOW CURRENT",
    "SHOW PRINCIPALS",
    "SHOW GRANT",
    "SHOW GRANTS",
    "GRANT",
    "REVOKE",
)

ADVICE: Mapping[str, str] = {
    "COMPACT": "COMPACT is written ALTER TABLE t COMPACT 'major'",
    "UPSERT": f"UPSERT is written {_UPSERT}",
    "REPLACE INTO": f"REPLACE INTO is written {_UPSERT}",
    "INSERT OR": f"INSERT OR ... is written {_UPSERT}",
    "COPY": "COPY is called LOAD DATA INPATH, for files of the table's format; hiveacid ingest reads CSV and JSON",
    "CALL": "there are no procedures: ALTER TABLE t COMPACT 'major' compacts, t.files and t.history show files and commits",
    "UPDATE … FROM": "an UPDATE from another table is written MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET v = s.v",
    "UPDATE … JOIN": "an UPDATE of a join is written MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET v = s.v",
    "DELETE … USING": "DELETE ... USING is written DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
    "DESCRIBE … AS JSON": "DESCRIBE ... AS JSON is not supported: DESCRIBE EXTENDED t returns rows",
    "DESC … AS JSON": "DESC ... AS JSON is not supported: DESCRIBE EXTENDED t returns rows",
    "ALTER TABLE … SET LOCATION": _FIXED,
    "ALTER TABLE … EXCHANGE": "EXCHANGE PARTITION is refused, as by Hive for transactional tables (10236): INSERT OVERWRITE TABLE t "
    "PARTITION (...) SELECT moves rows, and LOAD DATA INPATH files",
    "ALTER TABLE … TOUCH": "TOUCH is not needed: hiveacid runs no hooks",
    "LOCK": f"LOCK is not supported, {_LOCKS}",
    "UNLOCK": f"UNLOCK is not supported, {_LOCKS}",
    "EXPORT … REPLICATION": "EXPORT ... FOR REPLICATION is not supported: leave it out, or hiveacid backup copies a warehouse",
    **dict.fromkeys(_ROLES, _PRIVILEGES),
    **{f"{verb} MATERIALIZED": _MATERIALIZED for verb in ("CREATE", "ALTER", "DROP", "SHOW")},
    **{f"{verb} CONNECTOR": _CONNECTORS for verb in ("CREATE", "ALTER", "DROP")},
    **dict.fromkeys(("SHOW CONNECTORS", "CREATE REMOTE"), _CONNECTORS),
    **{f"{verb} CATALOG": _CATALOGS for verb in ("CREATE", "ALTER", "DROP")},
    **{f"{verb} INDEX": _INDEXES for verb in ("CREATE", "ALTER", "DROP", "SHOW")},
    **dict.fromkeys(("SHOW INDEXES", "SHOW FORMATTED"), _INDEXES),
    **{f"{verb} TEMPORARY MACRO": _MACROS for verb in ("CREATE", "DROP")},
    **dict.fromkeys(("CREATE FUNCTION", "DROP FUNCTION", "RELOAD"), _FUNCTIONS),
    **{f"DELETE {kind}": _RESOURCES for kind in ("JAR", "JARS", "FILE", "FILES", "ARCHIVE", "ARCHIVES")},
    **{f"{verb} SCHEDULED": _SCHEDULES for verb in ("CREATE", "ALTER", "DROP")},
    **{f"{verb} RESOURCE": _PLANS for verb in ("CREATE", "ALTER", "DROP", "SHOW")},
    **dict.fromkeys(("CREATE POOL", "CREATE TRIGGER", "CREATE USER"), _PLANS),
    "REPL": _REPLICATION,
    "ALTER DATABASE … MANAGEDLOCATION": "a database has one location: ALTER DATABASE d SET LOCATION '...'",
    "CREATE DATABASE … MANAGEDLOCATION": "a database has one location: CREATE DATABASE d LOCATION '...'",
    "TRUNCATE … COLUMNS": "TRUNCATE removes rows, not values: UPDATE t SET c = NULL",
    "CREATE TABLE … LIKE FILE": "LIKE FILE is not supported: CREATE TABLE n AS SELECT * FROM orc.`/path/of/the/file`",
    "CREATE TABLE … PARTITIONED BY SPEC": "PARTITIONED BY SPEC is Iceberg's: write PARTITIONED BY (column type)",
    "CREATE VIEW … PARTITIONED": "a view has no partitions of its own: conditions on it reach the partitions of its tables",
    "ALTER TABLE … PARTITION COLUMN": "the type of a partition column does not change: CREATE TABLE n ... AS SELECT * FROM t",
    "LOAD DATA … INPUTFORMAT": "LOAD DATA takes files of the table's own format: CREATE EXTERNAL TABLE e ... LOCATION '...' over others, "
    "INSERT INTO t SELECT * FROM e",
    "SET AUTOCOMMIT": "each statement commits itself, and those between START TRANSACTION and COMMIT together: leave SET AUTOCOMMIT out",
    "PREPARE": "PREPARE is not supported: acid.sql(text, args) and the drivers of hiveacid serve take values for parameters",
    "DFS": "files are not listed or moved by SQL: use the hdfs command or Python",
    "KILL": "KILL QUERY is not supported: Ctrl-C, or cancel() of the driver, ends a statement, and ABORT TRANSACTIONS id a transaction",
    "CREATE TEMPORARY TABLE": "temporary tables are not supported: DROP TABLE IF EXISTS t, CREATE TABLE t ..., and DROP TABLE t at the end; "
    "or CREATE TEMPORARY VIEW v AS SELECT ... for rows that are only read",
}
"""First words of a statement, and others behind ``…``, to a sentence."""

ALTERATIONS: Mapping[str, str] = {
    **dict.fromkeys(("SET SERDE", "SET SERDEPROPERTIES", "UNSET SERDEPROPERTIES", "SET FILEFORMAT"), _FORMAT),
    "UPDATE COLUMNS": _FORMAT,
    "UPDATE STATISTICS": "statistics are those of the files and cannot be set",
    **dict.fromkeys(("CLUSTERED", "NOT CLUSTERED", "NOT SORTED", "INTO"), _BUCKETS),
    **dict.fromkeys(("SKEWED", "NOT SKEWED", "NOT STORED", "SET SKEWED"), _SKEWED),
    **dict.fromkeys(("ENABLE", "DISABLE"), _PROTECTION),
    **dict.fromkeys(("ARCHIVE", "UNARCHIVE"), _ARCHIVES),
    **dict.fromkeys(("CREATE BRANCH", "DROP BRANCH"), _BRANCHES),
    **dict.fromkeys(("EXECUTE", "SET PARTITION"), _BRANCHES),
}
"""First words of a clause of ALTER TABLE to a sentence."""

_QUERIES: Mapping[str, str] = {
    r"LIMIT NUMBER , NUMBER": "LIMIT a, b is written LIMIT b OFFSET a",
    r"\( ON ": "functions over partitions of rows (ON t PARTITION BY ...) are not supported: use window functions",
    r"TABLE \( VALUES ": "TABLE(VALUES ...) is written (VALUES ...) AS v (a, b)",
    r"TABLESAMPLE \( BUCKET .* ON ": "TABLESAMPLE (BUCKET x OUT OF y ON c) is written WHERE pmod(hash(c), y) = x - 1, or without ON",
    r"TABLESAMPLE \( \w+ \)": "TABLESAMPLE takes (n PERCENT), (n ROWS) or (BUCKET x OUT OF y)",
}
"""Pattern of a query's words, with blanks between, to a sentence."""


def advice_on(tokens: Sequence[Token]) -> str | None:
    """Return the sentence for a statement that the grammar refuses; None for a statement of no known system."""
    text = f" {' '.join(_outer_words(tokens))} "
    return next((sentence for words, sentence in ADVICE.items() if _is_meant(text, words)), None)


def advice_on_query(tokens: Sequence[Token]) -> str | None:
    """Return the sentence for a query that Spark's parser refuses; None where Spark's own says as much."""
    text = " ".join(token.keyword or token.kind.name for token in tokens)
    return next((sentence for pattern, sentence in _QUERIES.items() if re.search(pattern, text)), None)


def _is_meant(text: str, words: str) -> bool:
    first, _, behind = words.partition(" … ")
    return text.startswith(f" {first} ") and (not behind or f" {behind} " in text)


def _outer_words(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the keywords outside parentheses, without the FROM of IS DISTINCT FROM."""
    depth, last = 0, ""
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind is TokenKind.WORD and (last, token.keyword) != ("DISTINCT", "FROM"):
            yield token.keyword
        last = token.keyword
