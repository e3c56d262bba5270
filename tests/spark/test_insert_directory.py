"""INSERT OVERWRITE DIRECTORY: what others put there while the query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

    from hiveacid import AcidSession


def test_what_appears_during_the_query_stays(acid: AcidSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "000000_0").write_text("old")

    def other(_: object) -> int:
        (out / "below").mkdir(exist_ok=True)
        (out / "below" / "000000_0").write_text("another query's")
        return 1

    acid.context.env.spark.udf.register("other", other, "int")
    with pytest.raises(CatalogError, match="holds below, which no INSERT OVERWRITE DIRECTORY wrote"):
        acid.sql(f"INSERT OVERWRITE DIRECTORY '{out}' SELECT other(id) FROM range(1)")
    found = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert found == {"000000_0": "old", "below/000000_0": "another query's"}
