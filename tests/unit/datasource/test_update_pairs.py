"""Updates out of deletes and inserts: by write id and key, one of each."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hiveacid.datasource.change_feed_task import pair_updates


def test_one_delete_and_one_insert_of_a_key_and_write_id_are_an_update() -> None:
    rows = [
        ("delete", 1, 5), ("insert", 1, 5),  # an update
        ("delete", 2, 5), ("insert", 2, 6),  # two transactions
        ("delete", None, 5), ("insert", None, 5),  # nobody knows
        ("insert", 3, 5), ("insert", 3, 5), ("delete", 3, 5),  # which of them?
    ]  # fmt: skip
    kinds, ids, write_ids = (list(some) for some in zip(*rows, strict=True))
    changes = pa.table({"id": ids, "l": [[1]] * len(rows), "_change_type": kinds, "_write_id": write_ids})
    found = pair_updates(changes, ["id"])
    assert found.column("_change_type").to_pylist() == ["update_before", "update_after", *kinds[2:]]
    assert found.drop_columns(["_change_type"]) == changes.drop_columns(["_change_type"])
    assert pair_updates(changes.slice(0, 0), ["id"]).num_rows == 0


@pytest.mark.parametrize("name", ["at", "inserts", "deletes", "inserts_sum", "deletes_sum"])
def test_key_columns_may_have_any_name(name: str) -> None:
    """A helper column of the same name would make the key ambiguous."""
    kinds = ["delete", "insert", "insert"]
    changes = pa.table({name: [1, 1, 2], "k": [1, 1, 1], "_change_type": kinds, "_write_id": [5, 5, 5]})
    found = pair_updates(changes, ["k", name])
    assert found.column("_change_type").to_pylist() == ["update_before", "update_after", "insert"]
