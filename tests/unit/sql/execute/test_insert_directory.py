"""INSERT OVERWRITE DIRECTORY deletes nothing but what such a statement may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.errors import CatalogError
from hiveacid.sql.execute.change_rows import require_only_output
from support.contexts import open_context


def test_only_files_of_queries_are_replaced(tmp_path: Path) -> None:
    context, out = open_context(tmp_path / "wh"), tmp_path / "out"
    require_only_output(context, str(out))  # it is made
    out.mkdir()
    for name in ("000000_0", "000003_0_copy_1", "part-00000-abc.csv", "_SUCCESS", ".part.crc"):
        (out / name).touch()
    (out / "_temporary").mkdir()
    require_only_output(context, str(out))
    for name in ("notes.txt", "bucket_00000"):
        (out / name).touch()
        with pytest.raises(CatalogError, match=f"holds {name}"):
            require_only_output(context, str(out))
        (out / name).unlink()
    (out / "day=1").mkdir()
    with pytest.raises(CatalogError, match="holds day=1"):
        require_only_output(context, str(out))
    context.close()
