"""Whether a statement that failed left anything behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import AcidSession


def files(directory: str | Path) -> list[str]:
    """List files and directories; the store is not among them."""
    root = Path(directory)
    return sorted(
        f"{path.relative_to(root)} {path.stat().st_size}"
        for path in root.rglob("*")
        if ".hiveacid/" not in f"{path}/"
    )


@contextmanager
def nothing_written(acid: AcidSession, table: str | None = None) -> Iterator[None]:
    """Check that a block leaves directories and rows as they are, and no transaction or lock open."""
    before = files(acid.context.warehouse)
    rows = acid.table(table).to_df().collect() if table else None
    tables = acid.context.catalog.list_tables("default")
    yield
    assert files(acid.context.warehouse) == before
    assert acid.context.catalog.list_tables("default") == tables
    assert acid.context.store.show_locks() == ()
    if table:
        assert sorted(map(str, acid.table(table).to_df().collect())) == sorted(map(str, rows or ()))
