"""Rows that a MERGE changes by copying columns: Arrow's join of target and source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hiveacid.core.format.acid_columns import ROW_ID_PARTS
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import Column, StorageFormat, TableDefinition, TableName
from hiveacid.spark.write.sort_and_stage import ACTION, Action
from hiveacid.spark.write.staged_files import BUCKET
from hiveacid.spark.write.update_delete_merge_rows import MatchKind
from hiveacid.table.arrow_read.record_batches import ROW_ID_TYPE
from hiveacid.table.write.merge_of_copies import CopyingClause, copied_rows

TABLE = TableDefinition(
    TableName("default", "t"),
    (Column("k", "int"), Column("name", "string"), Column("n", "bigint")),
    StorageFormat("serde", "in", "out"),
    "/t",
)
IDS = [dict(zip(ROW_ID_PARTS, (1, 536870912, row), strict=True)) for row in range(4)]
TARGET = pa.table(
    {
        ROW_ID: pa.array(IDS, ROW_ID_TYPE),
        "k": pa.array([2, 3, None, 5], pa.int32()),
        "name": ["b", None, "x", "e"],
        "n": pa.array([20, 30, 0, 50], pa.int64()),
    }
)
SOURCE = pa.table(
    [pa.array([10, 11, 12, 13], pa.int64()), pa.array([5, 3, None, 9], pa.int32()), pa.array(["e", None, "x", "i"])],
    ["n", "k", "name"],
)  # fmt: skip
UPDATE = CopyingClause(Action.UPDATE, {"n": 0})
INSERT = CopyingClause(Action.INSERT, {"k": 1, "n": 0})


def changes(keys: list[str], clauses: dict[MatchKind, CopyingClause]) -> list[tuple[Any, ...]]:
    """Return action, row id, and values of each changed row."""
    values = [(name, SOURCE.column(name)) for name in keys]
    found = copied_rows(TABLE, clauses, TARGET, SOURCE, values)
    assert set(found.column(BUCKET).to_pylist()) <= {0}
    names = [ACTION, "rowid", *map(staged_column, range(3))]
    return [tuple(row[name] for name in names) for row in found.to_pylist()]


def test_matched_rows_keep_what_is_not_set_and_others_are_inserted_in_the_order_of_the_source() -> None:
    assert changes(["k"], {MatchKind.MATCHED: UPDATE, MatchKind.SOURCE_ONLY: INSERT}) == [
        (Action.UPDATE, 1, 3, None, 11),
        (Action.UPDATE, 3, 5, "e", 10),
        (Action.INSERT, None, None, None, 12),  # NULL equals nothing
        (Action.INSERT, None, 9, None, 13),
    ]


def test_all_keys_have_to_be_equal() -> None:
    assert changes(["k", "name"], {MatchKind.MATCHED: CopyingClause(Action.DELETE, {})}) == [
        (Action.DELETE, 3, None, None, None)
    ]


def test_rows_without_a_clause_for_their_kind_stay() -> None:
    assert changes(["k"], {MatchKind.SOURCE_ONLY: INSERT}) == [
        (Action.INSERT, None, None, None, 12),
        (Action.INSERT, None, 9, None, 13),
    ]
    nothing = {MatchKind.MATCHED: UPDATE, MatchKind.SOURCE_ONLY: INSERT}
    values = [("k", SOURCE.column("k").slice(0, 0))]
    assert copied_rows(TABLE, nothing, TARGET.slice(0, 0), SOURCE.slice(0, 0), values).num_rows == 0
