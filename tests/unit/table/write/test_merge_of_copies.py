"""Rows that a MERGE changes by copying columns: Arrow's join of target and source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hiveacid.core.format.acid_columns import ROW_ID_PARTS
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import (
    DEFAULT_PARTITION,
    Bucketing,
    Column,
    StorageFormat,
    TableDefinition,
    TableName,
)
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.write.sort_and_stage import ACTION, Action, partition_key
from hiveacid.spark.write.staged_files import BUCKET
from hiveacid.spark.write.update_delete_merge_rows import MatchKind
from hiveacid.table.arrow_read.filters import Condition
from hiveacid.table.arrow_read.record_batches import ROW_ID_TYPE
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS
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
    found = copied_rows(TABLE, {kind: [clause] for kind, clause in clauses.items()}, TARGET, SOURCE, values)
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
    nothing = {MatchKind.MATCHED: [UPDATE], MatchKind.SOURCE_ONLY: [INSERT]}
    values = [("k", SOURCE.column("k").slice(0, 0))]
    assert copied_rows(TABLE, nothing, TARGET.slice(0, 0), SOURCE.slice(0, 0), values).num_rows == 0


def test_the_first_clause_whose_condition_holds_is_applied_and_unknown_is_not_true() -> None:
    """As in a MERGE with ``WHEN MATCHED AND s.name = 'e' THEN DELETE``, and ``t.name IS NULL`` in the next clause."""
    delete = CopyingClause(Action.DELETE, {}, Condition(pc.field("source_2") == "e", ("source_2",)))
    update = replace(UPDATE, condition=Condition(pc.field("target_name").is_null(), ("target_name",)))
    insert = replace(INSERT, condition=Condition(pc.field("source_1") > 5, ("source_1",)))
    clauses = {MatchKind.MATCHED: [delete, update], MatchKind.SOURCE_ONLY: [insert]}
    found = copied_rows(TABLE, clauses, TARGET, SOURCE, [("k", SOURCE.column("k"))])
    assert found.select([ACTION, "rowid", staged_column(0)]).to_pylist() == [
        {ACTION: Action.DELETE, "rowid": 3, staged_column(0): None},
        {ACTION: Action.UPDATE, "rowid": 1, staged_column(0): 3},
        {ACTION: Action.INSERT, "rowid": None, staged_column(0): 9},
    ]


def test_rows_keep_their_partition_and_new_ones_get_that_of_their_values() -> None:
    table = replace(TABLE, columns=TABLE.columns[:1], partition_columns=TABLE.columns[1:])
    target = TARGET.append_column(partition_key(0), [["b", "spelt so", "x", "e"]])
    target = target.append_column(partition_key(1), [["020", "030", "0", "050"]])
    update = CopyingClause(Action.UPDATE, {})
    insert = CopyingClause(Action.INSERT, {"k": 1, "name": 2, "n": 0})
    clauses = {MatchKind.MATCHED: [update], MatchKind.SOURCE_ONLY: [insert]}
    source = SOURCE.set_column(2, "name", [["e", None, "", "i"]])
    found = copied_rows(table, clauses, target, source, [("k", SOURCE.column("k"))])
    assert [
        tuple(row.values())
        for row in found.select([staged_column(0), *map(partition_key, (0, 1))]).to_pylist()
    ] == [
        (3, "spelt so", "030"),
        (5, "e", "050"),
        (None, DEFAULT_PARTITION, "12"),
        (9, "i", "13"),
    ]
    floats = replace(table, partition_columns=(Column("name", "string"), Column("n", "double")))
    with pytest.raises(UnsupportedFeatureError, match="Hive writes the double"):
        copied_rows(
            floats,
            clauses,
            target,
            source.set_column(0, "n", [[1e300, 1e300, 1e300, 1e300]]),
            [("k", SOURCE.column("k"))],
        )


def test_rows_of_a_bucketed_table_go_to_the_bucket_of_their_values() -> None:
    """Hive's hash of version 1 of an INT is the number itself."""
    table = replace(TABLE, bucketing=Bucketing(("k",), 4))
    clauses = {MatchKind.MATCHED: [UPDATE], MatchKind.SOURCE_ONLY: [INSERT]}
    found = copied_rows(table, clauses, TARGET, SOURCE, [("k", SOURCE.column("k"))])
    assert found.column(BUCKET).to_pylist() == [3, 1, 0, 1]


@pytest.mark.parametrize("layout", ["partitions", "buckets"])
def test_texts_that_are_not_utf8_are_left_to_spark(layout: str) -> None:
    """Its jobs hash bytes, and say what is wrong with a partition; Python could only say that it cannot read them."""
    table = replace(TABLE, bucketing=Bucketing(("name",), 4))
    if layout == "partitions":
        table = replace(
            TABLE, columns=(TABLE.columns[0], TABLE.columns[2]), partition_columns=TABLE.columns[1:2]
        )
    names = pa.array([b"e", b"\xff", b"x", b"i"])
    source = SOURCE.set_column(2, "name", pa.Array.from_buffers(pa.string(), 4, names.buffers()))
    clauses = {MatchKind.SOURCE_ONLY: [CopyingClause(Action.INSERT, {"k": 1, "name": 2, "n": 0})]}
    with pytest.raises(FALLBACK_ERRORS, match="UTF8"):
        copied_rows(table, clauses, TARGET.slice(0, 0), source, [("k", SOURCE.column("k"))])
