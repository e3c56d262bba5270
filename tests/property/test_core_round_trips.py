"""Texts of the format survive parsing and formatting; ranges agree with counting one by one."""

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.format.acid_columns import (
    BucketProperty,
    RecordKey,
    decode_bucket_property,
    parse_key_index,
)
from hiveacid.core.format.names import (
    BaseName,
    DeltaName,
    format_bucket_file,
    parse_bucket_file,
    parse_directory,
)
from hiveacid.core.format.write_id_lists import (
    RangeShare,
    ValidTxnList,
    ValidWriteIdList,
    parse_txn_list,
    parse_write_id_list,
)
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.schema.partitions import escape, format_partition, parse_partition, unescape
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select

IDS = st.integers(0, 10**10).map(WriteId)
TXN_IDS = st.integers(0, 10**10).map(TxnId)
STATEMENTS = st.none() | st.integers(0, 4095)
SMALL_IDS = st.lists(st.integers(1, 30), max_size=8)
WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@st.composite
def snapshots(draw: st.DrawFn) -> ValidWriteIdList:
    hidden = draw(SMALL_IDS)
    split = draw(st.integers(0, 8))
    open_ids = [WriteId(one) for one in hidden[:split]]
    aborted = [WriteId(one) for one in hidden[split:] if one not in open_ids]
    table = draw(st.none() | st.just(TableName("db", "t")))
    return ValidWriteIdList(table, WriteId(draw(st.integers(0, 30))), tuple(open_ids), tuple(aborted))


@given(write_id=st.integers(-(2**63), 2**62 - 1).map(WriteId), txn_id=TXN_IDS)
def test_base_names(write_id: WriteId, txn_id: TxnId) -> None:
    name = BaseName(write_id, txn_id)
    assert parse_directory(name.format()) == name


@given(is_delete=st.booleans(), low=IDS, more=IDS, statement=STATEMENTS, txn_id=TXN_IDS)
def test_delta_names(
    *, is_delete: bool, low: WriteId, more: WriteId, statement: int | None, txn_id: TxnId
) -> None:
    name = DeltaName(is_delete, low, WriteId(low + more), statement, txn_id)
    assert parse_directory(name.format()) == name


@given(bucket=st.integers(0, 2**29 - 1))
def test_bucket_files(bucket: int) -> None:
    found = parse_bucket_file(format_bucket_file(bucket))
    assert found is not None
    assert found.bucket == bucket
    assert decode_bucket_property(BucketProperty(0, bucket).encode()) == BucketProperty(0, bucket)


@given(bucket=st.integers(0, 4095), statement=st.integers(0, 4095))
def test_bucket_properties(bucket: int, statement: int) -> None:
    encoded = BucketProperty(1, bucket, statement).encode()
    assert decode_bucket_property(encoded) == BucketProperty(1, bucket, statement)
    assert 0 < encoded < 2**31


@given(keys=st.lists(st.builds(RecordKey, IDS, st.integers(0, 2**31 - 1), st.integers(0, 2**40))))
def test_key_index(keys: list[RecordKey]) -> None:
    text = "".join(f"{key.write_id},{key.bucket_property},{key.row_id};" for key in keys)
    assert parse_key_index(text) == tuple(keys)


@given(text=st.text(st.characters(exclude_categories=("Cs",))))
def test_escapes(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert "/" not in escaped
    assert "=" not in escaped


@given(pairs=st.lists(st.tuples(WORDS, st.none() | WORDS), min_size=1, max_size=4))
def test_partition_names(pairs: list[tuple[str, str | None]]) -> None:
    columns = [column.lower() for column, _ in pairs]
    values = [value for _, value in pairs]
    assert [value for _, value in parse_partition(format_partition(columns, values))] == values


@given(snapshot=snapshots())
def test_write_id_lists(snapshot: ValidWriteIdList) -> None:
    assert parse_write_id_list(snapshot.to_string()) == snapshot


@given(snapshot=snapshots())
def test_txn_lists(snapshot: ValidWriteIdList) -> None:
    txns = ValidTxnList(
        TxnId(snapshot.high_watermark),
        tuple(TxnId(one) for one in snapshot.open),
        tuple(TxnId(one) for one in snapshot.aborted),
    )
    assert parse_txn_list(txns.to_string()) == txns
    assert [txns.is_valid(one) for one in range(35)] == [snapshot.is_valid(one) for one in range(35)]


def counted(found: int, size: int) -> RangeShare:
    if found == 0:
        return RangeShare.NONE
    return RangeShare.ALL if found == size else RangeShare.SOME


@given(snapshot=snapshots(), low=st.integers(1, 35), size=st.integers(1, 10))
def test_ranges_agree_with_counting(snapshot: ValidWriteIdList, low: int, size: int) -> None:
    span, high = range(low, low + size), low + size - 1
    assert snapshot.visible_share(low, high) is counted(sum(map(snapshot.is_valid, span)), size)
    assert snapshot.aborted_share(low, high) is counted(sum(map(snapshot.is_aborted, span)), size)
    assert snapshot.has_open(low, high) == any(one in snapshot.open for one in span)
    exceptions = {*snapshot.open, *snapshot.aborted}
    assert snapshot.first_exception(low, high) == min(exceptions.intersection(span), default=None)


@given(snapshot=snapshots(), write_id=st.integers(1, 35).map(WriteId))
def test_an_own_write_id_changes_nothing_else(snapshot: ValidWriteIdList, write_id: WriteId) -> None:
    own = snapshot.with_own(write_id)
    assert own.is_valid(write_id)
    others = [one for one in range(1, 40) if one != write_id]
    assert [own.is_valid(one) for one in others] == [snapshot.is_valid(one) for one in others]


@given(snapshot=snapshots())
def test_a_compactor_believes_what_readers_believe_below_the_lowest_open_id(
    snapshot: ValidWriteIdList,
) -> None:
    view = snapshot.compactor()
    assert not any(one <= view.high_watermark for one in snapshot.open)
    below = range(view.high_watermark + 1)
    assert [view.is_valid(one) for one in below] == [snapshot.is_valid(one) for one in below]


@given(snapshot=snapshots(), data=st.data())
def test_the_order_of_the_listing_does_not_matter(snapshot: ValidWriteIdList, data: st.DataObject) -> None:
    spans = data.draw(
        st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3), st.booleans(), STATEMENTS), max_size=12)
    )
    names = {
        DeltaName(is_delete, WriteId(low), WriteId(low + more), None if more else statement).format()
        for low, more, is_delete, statement in spans
    } | {BaseName(WriteId(one)).format() for one in data.draw(st.lists(st.integers(1, 12), max_size=3))}
    entries = [FileEntry(f"{name}/bucket_00000", is_dir=False, size=1) for name in sorted(names)]
    shuffled = data.draw(st.permutations(entries))
    assert select(shuffled, snapshot, None) == select(entries, snapshot, None)
