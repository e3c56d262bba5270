"""Statements: one frozen value per statement, made by `sql.grammar` and carried out by `sql.execute`.

All of them are imported from here; the modules ``ddl``, ``dml``, ``show`` and ``view`` define them by area, ``values`` holds
their parts. Text that Spark will judge (expressions, queries) is a ``Slice`` with its position and its tokens.

Invariants: values are compared without positions; names are in lower case, as Hive keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hiveacid.sql.statements.ddl import (
    AddColumns,
    AddedPartition,
    AddPartitions,
    ChangeColumn,
    Compact,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateTemporaryView,
    DropDatabase,
    DropPartitions,
    DropTable,
    DropView,
    RenamePartition,
    RenameTable,
    ReplaceColumns,
    SetDatabaseProperties,
    SetTableProperties,
    TruncateTable,
    UnsetTableProperties,
    UseDatabase,
)
from hiveacid.sql.statements.dml import (
    Assignment,
    Delete,
    Insert,
    LoadData,
    Merge,
    MergeClause,
    MergeMatch,
    MultiInsert,
    Update,
    WhenClause,
)
from hiveacid.sql.statements.show import (
    AbortCompactions,
    AbortTransactions,
    AnalyzeTable,
    Commit,
    DescribeDatabase,
    DescribeHistory,
    DescribeTable,
    RefreshTable,
    RepairTable,
    ResetOption,
    Rollback,
    SetOption,
    ShowColumns,
    ShowCompactions,
    ShowConf,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    ShowTransactions,
    StartTransaction,
)
from hiveacid.sql.statements.values import (
    Literal,
    PartitionItem,
    PartitionSpec,
    Properties,
    Slice,
    TableRef,
)
from hiveacid.sql.statements.view import (
    AlterView,
    CreateView,
    RenameView,
    SetViewProperties,
    ShowViews,
    UnsetViewProperties,
    ViewColumn,
)

__all__ = [
    "AbortCompactions",
    "AbortTransactions",
    "AddColumns",
    "AddPartitions",
    "AddedPartition",
    "AlterView",
    "AnalyzeTable",
    "Assignment",
    "ChangeColumn",
    "Commit",
    "Compact",
    "CreateDatabase",
    "CreateTable",
    "CreateTableLike",
    "CreateTemporaryView",
    "CreateView",
    "Delete",
    "DescribeDatabase",
    "DescribeHistory",
    "DescribeTable",
    "DropDatabase",
    "DropPartitions",
    "DropTable",
    "DropView",
    "Explain",
    "Insert",
    "Literal",
    "LoadData",
    "Merge",
    "MergeClause",
    "MergeMatch",
    "MultiInsert",
    "PartitionItem",
    "PartitionSpec",
    "Properties",
    "Query",
    "RefreshTable",
    "RenamePartition",
    "RenameTable",
    "RenameView",
    "RepairTable",
    "ReplaceColumns",
    "ResetOption",
    "Rollback",
    "SetDatabaseProperties",
    "SetOption",
    "SetTableProperties",
    "SetViewProperties",
    "ShowColumns",
    "ShowCompactions",
    "ShowConf",
    "ShowCreateTable",
    "ShowDatabases",
    "ShowLocks",
    "ShowPartitions",
    "ShowTableProperties",
    "ShowTables",
    "ShowTransactions",
    "ShowViews",
    "Slice",
    "StartTransaction",
    "Statement",
    "TableRef",
    "TruncateTable",
    "UnsetTableProperties",
    "UnsetViewProperties",
    "Update",
    "UseDatabase",
    "ViewColumn",
    "WhenClause",
]


@dataclass(frozen=True)
class Query:
    """Anything that only reads: SELECT, WITH, FROM ... SELECT, VALUES, TABLE, or in parentheses."""

    text: Slice


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [options] statement; options are upper-case words. The inner statement is not to be run."""

    statement: Statement
    options: tuple[str, ...] = ()


Statement: TypeAlias = (
    Query
    | CreateTable
    | CreateTableLike
    | DropTable
    | TruncateTable
    | CreateTemporaryView
    | DropView
    | CreateView
    | AlterView
    | RenameView
    | SetViewProperties
    | UnsetViewProperties
    | AddColumns
    | ReplaceColumns
    | ChangeColumn
    | SetTableProperties
    | UnsetTableProperties
    | RenameTable
    | AddPartitions
    | DropPartitions
    | RenamePartition
    | Compact
    | CreateDatabase
    | DropDatabase
    | SetDatabaseProperties
    | UseDatabase
    | Insert
    | MultiInsert
    | Update
    | Delete
    | Merge
    | LoadData
    | DescribeTable
    | DescribeDatabase
    | DescribeHistory
    | ShowDatabases
    | ShowTables
    | ShowViews
    | ShowPartitions
    | ShowCreateTable
    | ShowTableProperties
    | ShowColumns
    | ShowTransactions
    | ShowLocks
    | ShowCompactions
    | ShowConf
    | AbortTransactions
    | AbortCompactions
    | StartTransaction
    | Commit
    | Rollback
    | SetOption
    | ResetOption
    | Explain
    | RefreshTable
    | RepairTable
    | AnalyzeTable
)
