"""Rows of DESCRIBE for a view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hiveacid.errors import NoSuchColumnError
from hiveacid.sql.execute.small_results import Row

if TYPE_CHECKING:
    from hiveacid.core.model import Column, ViewDefinition

_BLANK: Row = ("", None, None)


def describe_view_rows(view: ViewDefinition, style: str, column: str | None) -> list[Row]:
    """Return the rows of DESCRIBE [EXTENDED | FORMATTED] v [column]; types are those of its making."""
    if column is not None:
        found = [_row(one) for one in view.columns if one.name == column]
        if not found:
            raise NoSuchColumnError(f"{view.name} has no column {column}")
        return found
    columns = [_row(one) for one in view.columns]
    if style == "formatted":
        return [("# col_name", "data_type", "comment"), *columns, *_details(view)]
    if style == "extended":
        return [*columns, _BLANK, ("Detailed Table Information", _in_one_line(view), "")]
    return columns


def _row(column: Column) -> Row:
    return column.name, column.type, column.comment or ""


def _details(view: ViewDefinition) -> list[Row]:
    shown = dict(view.properties) | ({} if view.comment is None else {"comment": view.comment})
    made = datetime.fromtimestamp(view.created_at, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    return [
        _BLANK,
        ("# Detailed Table Information", None, None),
        ("Database:", view.name.database, None),
        ("OwnerType:", "USER", None),
        ("Owner:", view.owner, None),
        ("CreateTime:", made, None),
        ("Table Type:", "VIRTUAL_VIEW", None),
        ("Table Parameters:", None, None),
        *(("", key, value) for key, value in sorted(shown.items())),
        _BLANK,
        ("# View Information", None, None),
        ("Original Query:", view.original, None),
        ("Expanded Query:", view.text, None),
    ]


def _in_one_line(view: ViewDefinition) -> str:
    columns = ", ".join(
        f"FieldSchema(name:{c.name}, type:{c.type}, comment:{c.comment})" for c in view.columns
    )
    properties = ", ".join(f"{key}={value}" for key, value in view.properties)
    return (
        f"Table(tableName:{view.name.name}, dbName:{view.name.database}, owner:{view.owner}, "
        f"createTime:{view.created_at}, sd:StorageDescriptor(cols:[{columns}]), parameters:{{{properties}}}, "
        f"viewOriginalText:{view.original}, viewExpandedText:{view.text}, tableType:VIRTUAL_VIEW)"
    )
