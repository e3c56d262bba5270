"""INSERT OVERWRITE and TRUNCATE leave files; cleaning takes them, with no compaction asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import NotEnoughHistoryError

if TYPE_CHECKING:
    from hiveacid import AcidSession


def test_what_was_overwritten_goes_without_a_compaction(acid: AcidSession) -> None:
    """Once nobody reads it: INSERT OVERWRITE of partitions, TRUNCATE."""
    acid.sql(
        "CREATE TABLE ow (id INT) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO ow VALUES (1, 1), (2, 2), (3, 3)")
    acid.sql("UPDATE ow SET id = id + 10 WHERE p = 1")
    location = Path(acid.table("ow").definition.location)

    def directories(p: int) -> list[str]:
        return sorted(path.name for path in (location / f"p={p}").iterdir())

    frame = acid.table("ow").to_df()
    acid.sql("INSERT OVERWRITE TABLE ow SELECT id * 2, p FROM ow WHERE p < 3")
    acid.sql("TRUNCATE TABLE ow PARTITION (p = 3)")
    acid.clean()
    assert sorted(frame.collect()) == [(2, 2), (3, 3), (11, 1)]
    del frame
    for _ in range(10):
        acid.clean()
        if len(directories(1)) == 1:
            break
    assert [directories(p) for p in (1, 2, 3)] == [
        ["base_0000003"],
        ["base_0000003"],
        ["base_0000004"],
    ]
    assert sorted(map(tuple, acid.sql("SELECT * FROM ow").collect())) == [(4, 2), (22, 1)]
    with pytest.raises(NotEnoughHistoryError):
        acid.table("ow").as_of(2).to_df()
    assert acid.table("ow").inspect.check() == ()
