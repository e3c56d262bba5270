"""Rule for the names of new databases, tables and views."""

from __future__ import annotations

from hiveacid.errors import CatalogError

_NOT_IN_NAMES = frozenset("/\\.:`\x7f")
_FIRST_PRINTABLE = 0x20
_LONGEST_DIRECTORY = 240  # bytes; file systems allow 255, and a renamed table's directory gets a suffix


def check_name(what: str, name: str) -> None:
    """Raise CatalogError for a name that cannot be a directory name or cannot be written in SQL.

    Hive allows letters, digits and underscores (``MetaStoreUtils.validateName``). Blanks and most other characters
    are allowed here. A dot is not, because it separates database and table, nor is a slash, because the directory of a
    table must be below that of its database.
    """
    broken = sorted({sign for sign in name if sign in _NOT_IN_NAMES or ord(sign) < _FIRST_PRINTABLE})
    if broken:
        raise CatalogError(f"invalid {what} name {name!r}: it must not contain {' '.join(map(repr, broken))}")
    if name != name.strip() or not name:
        raise CatalogError(
            f"invalid {what} name {name!r}: it must not be empty, or begin or end with a blank"
        )
    if len(name.encode()) > _LONGEST_DIRECTORY:
        raise CatalogError(
            f"invalid {what} name {name[:40]!r}…: it is longer than {_LONGEST_DIRECTORY} bytes"
        )
