"""Reading as of a write id, while what it held is being joined with what came later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import NotEnoughHistoryError

if TYPE_CHECKING:
    from hiveacid import AcidSession

KINDS = {
    "full": "'transactional'='true'",
    "only": "'transactional'='true','transactional_properties'='insert_only'",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_minor_compaction_does_not_change_the_past(acid: AcidSession, kind: str) -> None:
    acid.sql(f"CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ({KINDS[kind]})")
    for number in (1, 2, 3, 4):
        acid.sql(f"INSERT INTO t VALUES ({number})")
    t = acid.table("t")

    def ids(write_id: int) -> list[int]:
        return sorted(row[0] for row in t.as_of(write_id=write_id).to_df().collect())

    held = t.to_df()
    t.compact("minor")
    assert [ids(write_id) for write_id in (1, 3, 4)] == [[1], [1, 2, 3], [1, 2, 3, 4]]
    assert held.count() == 4
    del held
    assert any(acid.clean() for _ in range(20))  # the JVM forgets the frames above in its own time
    assert ids(4) == [1, 2, 3, 4]
    if kind == "full":  # its rows tell their write ids
        assert ids(2) == [1, 2]
        return
    with pytest.raises(NotEnoughHistoryError, match="write id 4"):
        ids(2)
