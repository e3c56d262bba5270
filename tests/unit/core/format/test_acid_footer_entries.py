"""Row keys: their order and the footer texts."""

import pytest

from hiveacid.core.format.acid_footer_entries import AcidStatistics, parse_key_index, parse_statistics
from hiveacid.core.format.record_keys import RecordKey
from hiveacid.core.model import WriteId
from hiveacid.errors import BadFileError


def key(write_id: int, bucket: int, row: int) -> RecordKey:
    return RecordKey(WriteId(write_id), bucket, row)


def test_keys_are_ordered_by_write_id_then_the_whole_bucket_property_then_row() -> None:
    ordered = [key(1, 536870912, 5), key(1, 536870913, 0), key(1, 536936448, 0), key(2, 536870912, 0)]
    assert sorted(ordered[2:] + ordered[:2]) == ordered


def test_key_index_round_trip() -> None:
    keys = (key(1, 536870912, 9999), key(3, 536936449, 0))
    assert parse_key_index("1,536870912,9999;3,536936449,0;") == keys
    assert parse_key_index("1,2,3") == (key(1, 2, 3),)
    assert parse_key_index("") == ()


def test_statistics_round_trip() -> None:
    assert AcidStatistics(4, 0, 2).to_string() == "4,0,2"
    assert parse_statistics("4,0,2") == AcidStatistics(4, 0, 2)


@pytest.mark.parametrize("text", ["1,2", "1,2,3;;4,5,6;", "a,b,c;", "1,2,3,4;", ";"])
def test_broken_key_index(text: str) -> None:
    with pytest.raises(BadFileError):
        parse_key_index(text)


@pytest.mark.parametrize("text", ["", "1,2", "-1,0,0", "1,2,3,4", "x"])
def test_broken_statistics(text: str) -> None:
    with pytest.raises(BadFileError):
        parse_statistics(text)
