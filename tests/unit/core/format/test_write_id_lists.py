"""Valid txn lists and valid write-id lists: membership, ranges, views, Hive's strings."""

import pytest

from hiveacid.core.format.write_id_lists import (
    NO_OPEN_ID,
    RangeShare,
    ValidTxnList,
    ValidWriteIdList,
    parse_txn_list,
    parse_write_id_list,
)
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import ConfigError

NONE, SOME, ALL = RangeShare.NONE, RangeShare.SOME, RangeShare.ALL


def ids(text: str) -> ValidWriteIdList:
    return parse_write_id_list(f"db.t:{text}")


def test_is_valid_means_not_above_the_watermark_and_no_exception() -> None:
    snapshot = ids("7:5:5:3")
    assert [one for one in range(1, 10) if snapshot.is_valid(one)] == [1, 2, 4, 6, 7]
    assert snapshot.is_aborted(3)
    assert not snapshot.is_aborted(5)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 2, ALL),
        (1, 3, SOME),
        (3, 3, NONE),
        (5, 5, NONE),
        (6, 7, ALL),
        (6, 8, SOME),
        (8, 9, NONE),
        (5, 6, SOME),
    ],
)
def test_directory_share_counts_exceptions_and_ids_above_the_watermark(
    low: int, high: int, expected: RangeShare
) -> None:
    assert ids("7:5:5:3").directory_share(low, high) is expected


def test_range_of_exceptions_and_ids_above_the_watermark_only_is_none() -> None:
    assert ids("7:6:6,7:").directory_share(6, 9) is NONE


@pytest.mark.parametrize(("low", "high", "expected"), [(3, 4, ALL), (2, 4, SOME), (1, 2, NONE), (5, 5, NONE)])
def test_aborted_share(low: int, high: int, expected: RangeShare) -> None:
    assert ids("7:5:5:3,4").aborted_share(low, high) is expected


@pytest.mark.parametrize(
    "text",
    [
        "default.c_streaming:7:5:5:4",
        "default.c_crud:9:9223372036854775807::",
        "null:3:2:2,3:1",
        "a.b:10000004:9223372036854775807::10000002",
        "hive.db.t:4:9223372036854775807::",
    ],
)
def test_write_id_list_text_round_trip(text: str) -> None:
    assert parse_write_id_list(text).to_string() == text


def test_parsed_write_id_list_has_the_parts() -> None:
    assert parse_write_id_list("Db.Tbl:7:5:5,6:4") == ValidWriteIdList(
        TableName("db", "tbl"), WriteId(7), (WriteId(5), WriteId(6)), (WriteId(4),), WriteId(5)
    )


def test_missing_sections_mean_no_exceptions() -> None:
    assert parse_write_id_list("db.t:5:9223372036854775807") == ids("5:9223372036854775807::")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "db.t",
        "db.t:5",
        "t:5:9:",
        "db.t:x:9::",
        "db.t:5:9:a:",
        "db.t:5:1:1:1",
        "db.t:5:2:4-2:",
        "a.b:1:2:::",
    ],
)
def test_bad_write_id_lists_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_write_id_list(text)


def test_txn_list_writes_runs_and_reads_runs_and_single_ids() -> None:
    snapshot = parse_txn_list("20:7:7,8,9:1,3,4")
    assert snapshot == ValidTxnList(TxnId(20), tuple(map(TxnId, (7, 8, 9))), tuple(map(TxnId, (1, 3, 4))))
    assert snapshot.to_string() == "20:7:7-9:1,3-4"
    assert parse_txn_list(snapshot.to_string()) == snapshot
    assert parse_txn_list("62:9223372036854775807::").min_open == NO_OPEN_ID


@pytest.mark.parametrize("text", ["", "5", "5:x::", "-1:9::", "5:9:1-:", "1:2:3:4:5"])
def test_bad_txn_lists_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_txn_list(text)


def test_txn_list_membership() -> None:
    snapshot = parse_txn_list("20:7:7-9:1,3-4")
    assert [one for one in range(1, 23) if not snapshot.is_valid(one)] == [1, 3, 4, 7, 8, 9, 21, 22]
    assert snapshot.min_open == 7
    assert snapshot.is_aborted(3)
    assert not snapshot.is_aborted(7)


def test_exceptions_are_kept_ascending_without_doubles() -> None:
    snapshot = ValidWriteIdList(None, WriteId(9), (WriteId(8), WriteId(5), WriteId(8)))
    assert snapshot.open == (5, 8)
    assert snapshot.min_open == 5
    with pytest.raises(ConfigError):
        ValidTxnList(TxnId(9), (TxnId(4),), (TxnId(4),))


def test_own_write_id_becomes_visible() -> None:
    own = ids("5:3:3,4:2").with_own(WriteId(3))
    assert [one for one in range(1, 7) if own.is_valid(one)] == [1, 3, 5]
    assert own.min_open == 4


def test_own_write_id_above_the_watermark_hides_the_ids_between() -> None:
    own = ids("5:9223372036854775807::").with_own(WriteId(8))
    assert [one for one in range(1, 10) if own.is_valid(one)] == [1, 2, 3, 4, 5, 8]
    assert own.min_open == 6


def test_below_a_write_id_nothing_is_known_of_it_and_what_follows() -> None:
    assert ids("9:4:4,6,8:2,7").below(WriteId(6)).to_string() == "db.t:5:4:4:2"
    assert ids("5:9223372036854775807::").below(WriteId(6)).to_string() == "db.t:5:9223372036854775807::"


def test_time_travel_cuts_the_list() -> None:
    past = ids("9:4:4,8:2,7").at(WriteId(5))
    assert past.to_string() == "db.t:5:4:4:2"
    assert ids("9:8:8:").at(WriteId(5)).min_open is None
    for bad in (-1, 10):
        with pytest.raises(ConfigError):
            ids("9:4:4,8:2,7").at(WriteId(bad))


def test_compactor_stops_below_the_lowest_open_write_id() -> None:
    view = ids("9:6:6,8:2,7").compactor()
    assert view.high_watermark == 5
    assert (view.open, view.aborted, view.min_open) == ((), (2,), 6)
    assert view.directory_share(1, 5) is ALL
    assert view.directory_share(2, 2) is ALL
    assert view.directory_share(4, 6) is NONE
    assert view.visible_share(1, 5) is SOME
    assert view.is_valid(5)
    assert not view.is_valid(2)


def test_compactor_without_open_ids_reaches_the_watermark_and_can_be_lowered() -> None:
    view = ids("9:9223372036854775807::2,7").compactor()
    assert view.high_watermark == 9
    lowered = view.lowered(WriteId(6))
    assert (lowered.high_watermark, lowered.aborted) == (6, (2,))
    assert lowered.directory_share(5, 7) is NONE


def test_cleaner_sees_no_range_that_reaches_above_its_watermark() -> None:
    view = ids("9:8:8:2").cleaner(WriteId(5))
    assert view.high_watermark == 5
    assert view.directory_share(3, 5) is ALL
    assert view.directory_share(3, 6) is NONE
    assert view.aborted_share(2, 2) is ALL
    assert ids("3:9223372036854775807::").cleaner(WriteId(5)).high_watermark == 3
