"""INSERT, multi-insert, UPDATE, DELETE, MERGE, RESTORE, LOAD DATA and queries.

MERGE is Hive's (``HiveParser.g``, mergeStatement), with Spark's BY SOURCE, ``UPDATE SET *`` and ``INSERT *``.
"""

from __future__ import annotations

from dataclasses import replace

from hiveacid.spark.parser.lexer import TokenKind
from hiveacid.sql.grammar.create_table import QUERY_WORDS
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.grammar.table_clauses import StorageClauses, take_storage_clause
from hiveacid.sql.statements import PartitionSpec, Slice, Statement, TableRef, dml
from hiveacid.sql.statements.dml import Merge, MergeAction, MergeClause, MergeMatch

_INSERTS = frozenset({"INSERT"})
_BEHIND_CONDITION = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})  # MAP may be a function


def query(cursor: Cursor) -> Statement:
    """Parse a statement that begins like a query; one with FROM or WITH may turn out to be an INSERT."""
    start = cursor.next
    ctes = _ctes(cursor) if cursor.take("WITH") else None
    if cursor.take("INSERT"):
        return insert(cursor, ctes)
    if cursor.take("FROM"):
        source = cursor.until(_INSERTS, "a table or query to read from")
        if cursor.sees("INSERT"):
            legs: list[dml.Insert] = []
            while cursor.take("INSERT"):
                legs.append(_leg(cursor))
            cursor.expect_end()
            return dml.MultiInsert(source, tuple(legs), ctes)
    elif ctes is not None and not cursor.sees_any(QUERY_WORDS):
        cursor.fail("SELECT or INSERT behind WITH")
    else:
        cursor.rest("a query")
    cursor.expect_end()
    return dml.Query(cursor.slice(start, cursor.last))


def _ctes(cursor: Cursor) -> Slice:
    """Parse behind WITH; return the whole clause."""
    first = cursor.last
    cursor.take("RECURSIVE")
    while True:
        cursor.name("the name of a common table expression")
        if cursor.sees("(") and not _opens_query(cursor):
            cursor.skip_parentheses()
        if cursor.take("MAX", "RECURSION", "LEVEL"):
            cursor.integer("a number of levels")
        cursor.take("AS")
        if not cursor.sees("("):
            cursor.fail("'('")
        cursor.skip_parentheses()
        if not cursor.take(","):
            return cursor.slice(first, cursor.last)


def _opens_query(cursor: Cursor) -> bool:
    """Tell ``(SELECT ...`` from a list of columns, which may be called ``map`` or ``values``."""
    return cursor.ahead(1).keyword in QUERY_WORDS and cursor.ahead(2).keyword not in {",", ")"}


def insert(cursor: Cursor, ctes: Slice | None = None) -> dml.Insert | dml.InsertDirectory:
    """Parse behind INSERT."""
    merge_schema = _takes_new_columns(cursor)
    overwrite = cursor.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
    if overwrite and (cursor.take("LOCAL", "DIRECTORY") or cursor.take("DIRECTORY")):
        path, clauses = cursor.string("a path in quotes"), StorageClauses()
        while take_storage_clause(cursor, clauses):
            pass
        if not cursor.sees_any(QUERY_WORDS):
            cursor.fail("ROW FORMAT, STORED AS, SELECT or another query")
        return dml.InsertDirectory(path, cursor.rest("a query"), clauses.resolve(), ctes)
    return _insert_into(cursor, ctes, overwrite=overwrite, merge_schema=merge_schema)


def _leg(cursor: Cursor) -> dml.Insert:
    """Parse behind INSERT of a multi-insert; the leg ends at the next INSERT."""
    overwrite = cursor.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
    if cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY"):
        cursor.refuse(
            "a multi-insert writes into tables: write INSERT OVERWRITE DIRECTORY '...' SELECT ... as a statement of its own"
        )
    return _insert_into(cursor, stops=_INSERTS, overwrite=overwrite)


def _insert_into(
    cursor: Cursor,
    ctes: Slice | None = None,
    stops: frozenset[str] = frozenset(),
    *,
    overwrite: bool,
    merge_schema: bool = False,
) -> dml.Insert:
    start = cursor.next
    cursor.take("TABLE")
    table = cursor.table()
    partition = cursor.partition(dynamic=True)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    columns: tuple[str, ...] | None = None
    replaced: Slice | None = None
    by_name = cursor.take("BY", "NAME")
    if not by_name and cursor.sees("(") and not _opens_query(cursor):
        columns = cursor.names("a column name")
        partition = partition or cursor.partition(dynamic=True)
    elif not (by_name or overwrite or partition or stops) and cursor.take("REPLACE", "WHERE"):
        replaced = cursor.until(_BEHIND_CONDITION, "a condition")
    merge_schema = merge_schema or _takes_new_columns(cursor)
    if merge_schema and (stops or replaced):
        cursor.refuse(
            "a multi-insert and REPLACE WHERE add no columns: ALTER TABLE t ADD COLUMNS (...) first", start
        )
    starts = frozenset({"SELECT", "MAP", "REDUCE"}) if stops else QUERY_WORDS
    if not cursor.sees_any(starts):
        cursor.fail("SELECT" if stops else "SELECT, VALUES or another query")
    text = cursor.until(stops, "a query") if stops else cursor.rest("a query")
    return dml.Insert(
        table,
        text,
        overwrite=overwrite,
        partition=partition,
        if_not_exists=if_not_exists,
        columns=columns,
        ctes=ctes,
        by_name=by_name,
        replaced=replaced,
        merge_schema=merge_schema,
    )


def _takes_new_columns(cursor: Cursor) -> bool:
    """Take WITH SCHEMA EVOLUTION, which Spark writes behind the verb, if it is there."""
    return cursor.take("WITH", "SCHEMA", "EVOLUTION")


def update(cursor: Cursor) -> dml.Update:
    """Parse behind UPDATE."""
    table = cursor.table()
    alias = cursor.alias()
    cursor.expect("SET")
    assigned = assignments(cursor, table, alias, frozenset({",", "WHERE", "FROM"}))
    return dml.Update(table, assigned, _where(cursor), alias)


def delete(cursor: Cursor) -> dml.Delete:
    """Parse behind DELETE."""
    cursor.expect("FROM")
    table = cursor.table()
    alias = cursor.alias()
    return dml.Delete(table, _where(cursor), alias)


def _where(cursor: Cursor) -> Slice | None:
    if cursor.at_end:
        return None
    if not cursor.take("WHERE"):
        cursor.fail("WHERE or the end of the statement")
    return cursor.rest("a condition")


def assignments(
    cursor: Cursor, table: TableRef, alias: str | None, stops: frozenset[str]
) -> tuple[dml.Assignment, ...]:
    """Parse ``column = expression, ...``; a column may be written with the target's name or alias."""
    by_column: dict[str, dml.Assignment] = {}
    while not by_column or cursor.take(","):
        token, column = cursor.next, _target_column(cursor, table, alias)
        if column in by_column:
            cursor.refuse(f"column {column} is set twice", token)
        cursor.expect("=")
        expression = cursor.until(stops, "an expression")
        by_column[column] = dml.Assignment(column, expression, token.line, token.column)
    return tuple(by_column.values())


def _target_column(cursor: Cursor, table: TableRef, alias: str | None) -> str:
    """Take the name of a target's column, which the target's name or alias may precede."""
    token = cursor.next
    *qualifier, column = cursor.dotted("a column name")
    if not _is_target(qualifier, table, alias):
        cursor.refuse(
            f"only columns of {alias or table} can be set, not {'.'.join((*qualifier, column))}", token
        )
    return column


def _is_target(qualifier: list[str], table: TableRef, alias: str | None) -> bool:
    if alias is not None:
        return qualifier in ([], [alias])
    return qualifier in ([], [table.name], [table.database, table.name])


def load(cursor: Cursor) -> dml.LoadData:
    """Parse behind LOAD."""
    cursor.expect("DATA")
    local = cursor.take("LOCAL")
    cursor.expect("INPATH")
    path = cursor.string("a path in quotes")
    overwrite = cursor.take("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    return dml.LoadData(path, cursor.table(), cursor.partition(), local, overwrite)


def export_table(cursor: Cursor) -> dml.ExportTable:
    """Parse behind EXPORT."""
    cursor.expect("TABLE")
    table, partition = cursor.table(), cursor.partition()
    cursor.expect("TO")
    return dml.ExportTable(table, cursor.string("a path in quotes"), partition)


def import_table(cursor: Cursor) -> dml.ImportTable:
    """Parse behind IMPORT."""
    table: TableRef | None = None
    partition: PartitionSpec = ()
    external = cursor.take("EXTERNAL")
    if external or cursor.sees("TABLE"):
        cursor.expect("TABLE")
        table, partition = cursor.table(), cursor.partition()
    cursor.expect("FROM")
    path = cursor.string("a path in quotes")
    location = cursor.string("a path in quotes") if cursor.take("LOCATION") else ""
    return dml.ImportTable(path, table, partition, external, location)


_CLAUSE_ENDS = frozenset({",", "WHEN"})


def merge(cursor: Cursor) -> Merge:
    """Parse behind MERGE."""
    merge_schema = _takes_new_columns(cursor)
    cursor.expect("INTO")
    table = cursor.table()
    alias = cursor.alias()
    cursor.expect("USING")
    source = _source(cursor)
    source_alias = cursor.alias()
    source_columns = cursor.names("a column name") if source_alias and cursor.sees("(") else ()
    _check_names(cursor, table, alias, source, source_alias)
    cursor.expect("ON")
    condition = cursor.until(frozenset({"WHEN"}), "a condition")
    clauses: list[MergeClause] = []
    final: set[MergeMatch] = set()  # kinds of matches whose rows a clause without a condition has taken
    while cursor.sees("WHEN"):
        clauses.append(_clause(cursor, table, alias, final))
    if not clauses:
        cursor.fail("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, source, condition, tuple(clauses), alias, source_alias, source_columns, merge_schema)


def _source(cursor: Cursor) -> Slice:
    """Take a table name, a table function, or a query in parentheses."""
    first = cursor.next
    if cursor.sees("("):
        return cursor.slice(first, cursor.skip_parentheses())
    cursor.dotted("a table or a query in parentheses")
    if cursor.sees("("):
        cursor.skip_parentheses()
    return cursor.slice(first, cursor.last)


def _check_names(
    cursor: Cursor, table: TableRef, alias: str | None, source: Slice, source_alias: str | None
) -> None:
    """Refuse a target and a source of the same name (Hive: "Target and source have the same name")."""
    if source_alias is None and source.text.startswith("("):
        cursor.fail("an alias for the source")
    source_name = source_alias or source.text.rpartition(".")[2].strip(" `").lower()
    if source_name == (alias or table.name):
        cursor.refuse(f"target and source are both called {source_name}: give one of them an alias")


def _clause(cursor: Cursor, table: TableRef, alias: str | None, final: set[MergeMatch]) -> MergeClause:
    token = cursor.next
    match = _match(cursor)
    condition = cursor.until(frozenset({"THEN"}), "a condition") if cursor.take("AND") else None
    if match in final:
        cursor.refuse(
            "this clause can never apply: one before it, without a condition, takes all its rows", token
        )
    if condition is None:
        final.add(match)
    cursor.expect("THEN")
    allowed = ("INSERT",) if match is MergeMatch.NOT_MATCHED else ("UPDATE", "DELETE")
    action = MergeAction(cursor.expect_one(*allowed).lower())
    clause = MergeClause(match, action, condition, line=token.line, column=token.column)
    if action is MergeAction.UPDATE:
        return _update(cursor, table, alias, clause)
    return clause if action is MergeAction.DELETE else _insert(cursor, table, alias, clause)


def _match(cursor: Cursor) -> MergeMatch:
    cursor.expect("WHEN")
    if not cursor.take("NOT"):
        cursor.expect("MATCHED")
        return MergeMatch.MATCHED
    cursor.expect("MATCHED")
    if not cursor.take("BY"):
        return MergeMatch.NOT_MATCHED
    by_source = cursor.expect_one("TARGET", "SOURCE") == "SOURCE"
    return MergeMatch.NOT_MATCHED_BY_SOURCE if by_source else MergeMatch.NOT_MATCHED


def _update(cursor: Cursor, table: TableRef, alias: str | None, clause: MergeClause) -> MergeClause:
    cursor.expect("SET")
    if cursor.sees("*") and clause.match is MergeMatch.NOT_MATCHED_BY_SOURCE:
        cursor.refuse("UPDATE SET * needs a source row")
    if cursor.take("*"):
        return replace(clause, star=True)
    return replace(clause, assignments=assignments(cursor, table, alias, _CLAUSE_ENDS))


def _insert(cursor: Cursor, table: TableRef, alias: str | None, clause: MergeClause) -> MergeClause:
    if cursor.take("*"):
        return replace(clause, star=True)
    columns: tuple[str, ...] | None = None
    if cursor.sees("("):
        columns = cursor.list_of(lambda: _inserted_column(cursor, table, alias), str)
    cursor.expect("VALUES")
    opening = cursor.next
    values = cursor.list_of(lambda: cursor.until(frozenset({","}), "a value"))
    if columns is not None and len(columns) != len(values):
        cursor.refuse(f"{len(columns)} columns, but {len(values)} values", opening)
    return replace(clause, columns=columns, values=values)


def _inserted_column(cursor: Cursor, table: TableRef, alias: str | None) -> str:
    is_qualified = cursor.ahead(1).text == "."
    return _target_column(cursor, table, alias) if is_qualified else cursor.name("a column name")


def restore(cursor: Cursor) -> dml.Restore:
    """Parse behind RESTORE."""
    cursor.take("TABLE")
    table = cursor.table()
    cursor.take("TO")
    kind = cursor.expect_one("VERSION", "TIMESTAMP")
    cursor.expect("AS", "OF")
    if kind == "VERSION":
        if cursor.next.kind is TokenKind.STRING:
            return dml.Restore(table, version=cursor.string("a tag's name"))
        return dml.Restore(table, version=cursor.integer("a write id"))
    return dml.Restore(table, moment=cursor.rest("a timestamp"))
