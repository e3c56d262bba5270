"""Conditions, parameters and columns that name a table, because most rows of the store belong to one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import FromClause, Table, and_, bindparam, tuple_
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TableName


def is_of_table(rows: Table) -> ColumnElement[bool]:
    """Return the SQL condition that a row belongs to the table of the parameters (:func:`table_parameters`)."""
    return and_(rows.c.database_name == bindparam("database"), rows.c.table_name == bindparam("name"))


def table_parameters(table: TableName) -> dict[str, Any]:
    """Return the parameters of :func:`is_of_table`."""
    return {"database": table.database, "name": table.name}


def is_of_same_table(rows: FromClause, others: FromClause) -> ColumnElement[bool]:
    """Return the SQL condition that two rows belong to the same table."""
    return and_(rows.c.database_name == others.c.database_name, rows.c.table_name == others.c.table_name)


def is_of_any_table(rows: Table) -> ColumnElement[bool]:
    """Return the SQL condition that a row belongs to one of the tables in the parameter ``places``."""
    return tuple_(rows.c.database_name, rows.c.table_name).in_(bindparam("places", expanding=True))


def table_pairs(tables: Iterable[TableName]) -> list[tuple[str, str]]:
    """Return the parameter of :func:`is_of_any_table`."""
    return [(table.database, table.name) for table in tables]


def table_columns(table: TableName) -> dict[str, Any]:
    """Return the columns that name the table in a new row."""
    return {"database_name": table.database, "table_name": table.name}
