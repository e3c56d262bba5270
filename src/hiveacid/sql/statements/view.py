"""Statements about views in the catalog; those about temporary views are in ``statements.ddl``."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.sql.statements.values import Properties, Slice, TableRef


@dataclass(frozen=True)
class ViewColumn:
    """A column that a view names: its name, and what is said about it."""

    name: str
    comment: str | None = None


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(column [COMMENT ''], ...)] [COMMENT ''] [TBLPROPERTIES (...)] AS query."""

    view: TableRef
    query: Slice
    columns: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    properties: Properties = ()
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class AlterView:
    """ALTER VIEW v AS query."""

    view: TableRef
    query: Slice


@dataclass(frozen=True)
class RenameView:
    """ALTER VIEW v RENAME TO w."""

    view: TableRef
    new_name: TableRef


@dataclass(frozen=True)
class SetViewProperties:
    """ALTER VIEW v SET TBLPROPERTIES (...)."""

    view: TableRef
    properties: Properties


@dataclass(frozen=True)
class UnsetViewProperties:
    """ALTER VIEW v UNSET TBLPROPERTIES [IF EXISTS] ('key', ...)."""

    view: TableRef
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class ShowViews:
    """SHOW VIEWS [IN d] [LIKE 'pattern']."""

    database: str | None = None
    pattern: str | None = None
