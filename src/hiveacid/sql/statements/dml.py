"""Queries, EXPLAIN, and statements that change rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from hiveacid.core.model import StorageFormat
from hiveacid.sql.statements import PartitionSpec, Slice, Statement, TableRef, TableStatement


@dataclass(frozen=True)
class Query(Statement):
    """Anything that only reads: SELECT, WITH, FROM ... SELECT, VALUES, TABLE, or in parentheses."""

    text: Slice


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [options] statement; options are upper-case words. The inner statement is not to be run."""

    statement: Statement
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Insert(TableStatement):
    """INSERT INTO | OVERWRITE; ``query`` is a SELECT, VALUES, FROM, TABLE or WITH text.

    ``ctes``: a WITH clause before INSERT, which belongs before ``query``. ``columns``: None if the statement has no list.
    ``by_name``: BY NAME; ``replaced``: the condition of REPLACE WHERE; ``merge_schema``: WITH SCHEMA EVOLUTION.
    """

    query: Slice
    overwrite: bool = False
    partition: PartitionSpec = ()
    if_not_exists: bool = False
    columns: tuple[str, ...] | None = None
    ctes: Slice | None = None
    by_name: bool = False
    replaced: Slice | None = None
    merge_schema: bool = False

    @property
    def full_query(self) -> Slice:
        """The query with its leading WITH clause."""
        return _join(self.ctes, self.query)


@dataclass(frozen=True)
class InsertDirectory(Statement):
    """INSERT OVERWRITE [LOCAL] DIRECTORY 'path' [ROW FORMAT ...] [STORED AS ...] query; ``ctes`` as of `Insert`."""

    path: str
    query: Slice
    storage: StorageFormat | None = None
    ctes: Slice | None = None

    @property
    def full_query(self) -> Slice:
        """The query with its leading WITH clause."""
        return _join(self.ctes, self.query)


@dataclass(frozen=True)
class MultiInsert(Statement):
    """FROM source INSERT ... SELECT ... INSERT ... SELECT ...

    Each leg's ``query`` begins at its SELECT; :meth:`leg_query` puts ``source`` before it.
    """

    source: Slice  # text between FROM and the first INSERT
    legs: tuple[Insert, ...]
    ctes: Slice | None = None

    def leg_query(self, leg: Insert) -> Slice:
        """Return the whole query of a leg, in the spelling ``FROM source SELECT ...``."""
        source, length = self.source, len("FROM ")
        text, start, column = f"FROM {source.text}", source.start - length, max(1, source.column - length)
        return _join(_join(self.ctes, replace(source, text=text, start=start, column=column)), leg.query)


def _join(first: Slice | None, second: Slice) -> Slice:
    """Join two pieces of a statement; blanks between them keep all positions unchanged."""
    if first is None:
        return second
    line = first.line + first.text.count("\n")
    column = first.column if "\n" not in first.text else 1
    column += len(first.text) - (first.text.rfind("\n") + 1)
    if second.line > line:
        gap = "\n" * (second.line - line) + " " * (second.column - 1)
    else:
        gap = " " * max(1, second.column - column)
    return replace(first, text=first.text + gap + second.text)


@dataclass(frozen=True)
class Assignment:
    """``column = expression``."""

    column: str
    expression: Slice
    line: int = field(default=1, compare=False)
    at_column: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Update(TableStatement):
    """UPDATE t [AS alias] SET ... [WHERE condition]."""

    assignments: tuple[Assignment, ...]
    where: Slice | None = None
    alias: str | None = None


@dataclass(frozen=True)
class Delete(TableStatement):
    """DELETE FROM t [AS alias] [WHERE condition]."""

    where: Slice | None = None
    alias: str | None = None


class MergeAction(StrEnum):
    """Action of a WHEN clause of MERGE."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


class MergeMatch(StrEnum):
    """Rows that a WHEN clause of MERGE applies to."""

    MATCHED = "matched"
    NOT_MATCHED = "not_matched"  # source rows without a target row
    NOT_MATCHED_BY_SOURCE = "not_matched_by_source"  # target rows without a source row


@dataclass(frozen=True)
class MergeClause:
    """One WHEN clause; of those of the same ``match`` the first whose ``condition`` holds wins.

    UPDATE has ``assignments``; INSERT has ``columns`` (None: all, in order) and ``values``; ``star`` stands for
    ``UPDATE SET *`` and ``INSERT *`` (columns by name).
    """

    match: MergeMatch
    action: MergeAction
    condition: Slice | None = None
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] | None = None
    values: tuple[Slice, ...] = ()
    star: bool = False
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Merge(TableStatement):
    """MERGE INTO target USING source ON condition WHEN ...

    ``source`` is a table name or a query in parentheses, without its alias. ``source_columns`` are those of
    ``AS s (a, b)``. An alias is None where none was written (a table's own name then serves). ``merge_schema``: WITH
    SCHEMA EVOLUTION.
    """

    source: Slice
    condition: Slice
    clauses: tuple[MergeClause, ...]
    alias: str | None = None
    source_alias: str | None = None
    source_columns: tuple[str, ...] = ()
    merge_schema: bool = False

    @property
    def inserts(self) -> bool:
        """Tell whether it may insert rows."""
        return any(clause.action is MergeAction.INSERT for clause in self.clauses)


@dataclass(frozen=True)
class LoadData(Statement):
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE t [PARTITION (...)]."""

    path: str
    table: TableRef
    partition: PartitionSpec = ()
    local: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class ExportTable(TableStatement):
    """EXPORT TABLE t [PARTITION (...)] TO 'path'."""

    path: str
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class ImportTable(Statement):
    """IMPORT [[EXTERNAL] TABLE t [PARTITION (...)]] FROM 'path' [LOCATION 'path']; ``table`` is None for the exported name."""

    path: str
    table: TableRef | None = None
    partition: PartitionSpec = ()
    external: bool = False
    location: str = ""


@dataclass(frozen=True)
class Restore(TableStatement):
    """RESTORE TABLE t TO VERSION AS OF n | 'tag' | TIMESTAMP AS OF expression; ``version`` or ``moment`` is given."""

    version: int | str | None = None
    moment: Slice | None = None
