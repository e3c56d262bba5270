"""Which directories tell what changed between two valid write-id lists, and when nobody can tell any more."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hiveacid.core.format.write_id_lists import (
    ValidTxnList,
    ValidWriteIdList,
    parse_txn_list,
    parse_write_id_list,
)
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.change_feed import ChangedState, ChangeSpan, plan_span, select_changes
from hiveacid.errors import ConfigError, NotEnoughHistoryError

TXNS = parse_txn_list("100:9223372036854775807::")


@dataclass(frozen=True)
class Entry:
    path: str
    is_dir: bool = False
    size: int = 9
    modified: int = 0
    is_special: bool = False
    facts: None = None


def ids(text: str) -> ValidWriteIdList:
    """Read ``hwm`` or ``hwm:open:aborted``."""
    top, opened, aborted = [*text.split(":"), "", ""][:3]
    return parse_write_id_list(f"d.t:{top}:9223372036854775807:{opened}:{aborted}")


def span(after: str, until: str, present: str | None = None) -> ChangeSpan:
    return plan_span(ids(after), ids(until), ids(present or until))


def look(
    names: str, one: ChangeSpan, *, row_ids: bool = True, kept: bool = True, txns: ValidTxnList = TXNS
) -> ChangedState:
    entries = [Entry(f"{name}/{'bucket_00000' if row_ids else '000000_0'}") for name in names.split()]
    return select_changes(entries, one, txns, row_ids=row_ids, history_kept=kept)


def read(found: ChangedState) -> list[str]:
    return [directory.path for directory in found.state.directories_to_read]


def test_where_rows_were_only_added_nothing_else_is_read() -> None:
    names = "base_0000002_v0000005 delta_0000003_0000003_0000 delta_0000004_0000004_0000 delete_delta_0000003_0000003_0001"
    found = look(names, span("3", "4"))
    assert read(found) == ["delta_0000004_0000004_0000"]
    assert not found.deletes


def test_events_are_read_with_all_that_they_may_hit() -> None:
    names = "base_0000002_v0000005 delta_0000003_0000003_0000 delta_0000004_0000004_0001 delete_delta_0000004_0000004_0000"
    found = look(names, span("3", "4"))
    assert found.deletes
    assert read(found) == [
        "base_0000002_v0000005",
        "delta_0000003_0000003_0000",
        "delta_0000004_0000004_0001",
        "delete_delta_0000004_0000004_0000",
    ]


def test_what_a_major_compaction_replaced_is_read_instead_of_its_base_while_it_is_there() -> None:
    names = "base_0000004_v0000009 delta_0000001_0000001_0000 delta_0000002_0000002_0000 delta_0000004_0000004_0000"
    assert read(look(names, span("1", "4"))) == ["delta_0000002_0000002_0000", "delta_0000004_0000004_0000"]
    assert read(look(names, span("4", "4"))) == []
    with pytest.raises(NotEnoughHistoryError) as refused:
        look(names, span("1", "4"), kept=False)
    assert refused.value.earliest == 4
    open_compaction = parse_txn_list("100:9:9:")
    assert read(look(names, span("1", "4"), kept=False, txns=open_compaction)) != []


def test_a_base_stands_for_the_earlier_snapshot_where_it_holds_nothing_newer() -> None:
    """Write ids 4 to 6 aborted since: the base of all up to 6 is what the snapshot of 3 saw."""
    names = "base_0000006_v0000009 delta_0000007_0000007_0000 delete_delta_0000007_0000007_0000"
    found = look(names, span("3:2:", "7::2,4,5,6"), kept=False)
    assert read(found)[0] == "base_0000006_v0000009"
    with pytest.raises(NotEnoughHistoryError):
        look(names, span("3:2:", "7::4,5,6"), kept=False)


def test_aborted_ids_that_the_store_has_forgotten_are_no_changes() -> None:
    one = span("5::3", "7", "7")
    assert [write_id for write_id in range(1, 9) if one.is_new(write_id)] == [6, 7]
    assert not one.reaches_back(1, 5)
    assert one.reaches_back(1, 6)


def test_an_overwrite_ends_what_lies_below_and_what_its_own_transaction_wrote_before() -> None:
    names = "delta_0000001_0000001_0000 delta_0000002_0000002_0000 base_0000002 delta_0000003_0000003_0000"
    found = look(names, span("1", "3"))
    assert found.overwrites == (2,)
    assert read(found) == ["base_0000002", "delta_0000001_0000001_0000", "delta_0000003_0000003_0000"]
    assert look(names, span("2", "3")).overwrites == ()
    with pytest.raises(NotEnoughHistoryError):
        look(names, span("1", "3"), kept=False)


def test_an_insert_only_table_needs_directories_of_single_write_ids() -> None:
    names = "delta_0000001_0000003_v0000009 delta_0000001_0000001 delta_0000002_0000002 delta_0000003_0000003"
    one = span("1", "3")
    assert read(look(names, one, row_ids=False)) == ["delta_0000002_0000002", "delta_0000003_0000003"]
    assert read(look(names, one)) == ["delta_0000001_0000003_v0000009"]
    with pytest.raises(
        NotEnoughHistoryError, match=r"after write id 3.*; TBLPROPERTIES \('hiveacid.history.retention'"
    ):
        look("delta_0000001_0000003", one, row_ids=False)
    with pytest.raises(NotEnoughHistoryError):
        look(names, one, row_ids=False, kept=False)


@pytest.mark.parametrize(
    ("after", "until", "present"),
    [("4", "3", "5"), ("3", "4:2:", "5"), ("3", "6", "5"), ("3", "4", "5:4:"), ("3", "5::2", "5")],
)
def test_points_that_do_not_follow_each_other_are_refused(after: str, until: str, present: str) -> None:
    with pytest.raises(ConfigError):
        span(after, until, present)


def test_ids_above_the_high_watermark_that_are_not_committed_make_no_difference() -> None:
    assert not span("6::4,5,6", "3").is_new(3)
    one = span("1", "3", "6:6:4,5")
    assert one.until.high_watermark == 6
    assert [one.is_new(WriteId(n)) for n in range(1, 7)] == [False, True, True, False, False, False]
