"""Snapshot selection: the conformance scenarios S1 to S17, the errors, the sizes."""

import pytest

from hiveacid.core.format.write_id_lists import RangeShare, parse_txn_list, parse_write_id_list
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import FileEntry, metadata_paths
from hiveacid.core.snapshot.selection import AcidState, select
from hiveacid.errors import BadDirectoryNameError, BadFileError, NotEnoughHistoryError
from support.cost import assert_quick

ALL_10 = "10:9223372036854775807::"
COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = '{"thisFileVersion":"0","dataFormat":"truncated"}'


def listing(*paths: str) -> list[FileEntry]:
    """Make entries: 'x/' is an empty directory, a bare name of the layout gets one bucket file."""
    entries: list[FileEntry] = []
    for path in paths:
        if path.endswith("/"):
            entries.append(FileEntry(path[:-1], is_dir=True))
        elif "/" not in path and path.startswith(("base_", "delta_", "delete_delta_")):
            entries += [FileEntry(path, is_dir=True), FileEntry(f"{path}/bucket_00000", is_dir=False, size=9)]
        else:
            entries.append(FileEntry(path, is_dir=False, size=9))
    return entries


def state(
    *paths: str,
    write_ids: str = ALL_10,
    txns: str | None = None,
    metadata: dict[str, str] | None = None,
    adopted: int = 0,
) -> AcidState:
    return select(
        listing(*paths),
        parse_write_id_list(f"db.t:{write_ids}"),
        None if txns is None else parse_txn_list(txns),
        metadata,
        adopted_txn_id=TxnId(adopted),
    )


def read(found: AcidState) -> list[str]:
    base = [] if found.base is None else [found.base.path]
    originals = [file.path for file in found.originals]
    return originals + base + [one.path for one in (*found.deltas, *found.delete_deltas)]


def test_s1_newest_valid_base_wins_with_the_deltas_above_it() -> None:
    found = state(
        "base_2", "base_5", "base_12", "delta_4_4_0", "delta_5_5_0", "delta_6_6_0", "delete_delta_7_7_0"
    )
    assert read(found) == ["base_5", "delta_6_6_0", "delete_delta_7_7_0"]
    assert found.obsolete == ("base_2", "delta_4_4_0", "delta_5_5_0")
    assert found.pending == ("base_12",)
    assert found.base is not None
    assert found.base.validity is RangeShare.ALL


def test_s2_a_wider_delta_hides_the_narrower_ones() -> None:
    found = state("delta_1_1_0", "delta_1_4", "delta_2_2_0", "delta_3_4", "delta_5_5_0", "delta_4_5")
    assert read(found) == ["delta_1_4", "delta_4_5"]
    assert found.obsolete == ("delta_1_1_0", "delta_2_2_0", "delta_3_4", "delta_5_5_0")


def test_s3_a_delta_hides_the_delete_deltas_inside_its_range() -> None:
    found = state("delta_3_5", "delete_delta_4_4_0", "delete_delta_5_5_0", "delete_delta_6_6_0")
    assert read(found) == ["delta_3_5", "delete_delta_6_6_0"]
    assert found.obsolete == ("delete_delta_4_4_0", "delete_delta_5_5_0")


def test_s4_delta_and_delete_delta_of_one_range_belong_together() -> None:
    found = state("delta_1_6", "delete_delta_1_6", "delta_2_2_0", "delete_delta_3_3_0")
    assert read(found) == ["delta_1_6", "delete_delta_1_6"]
    assert found.obsolete == ("delete_delta_3_3_0", "delta_2_2_0")


def test_s5_all_statements_of_a_write_id_are_read_until_a_minor_compaction_covers_them() -> None:
    statements = ("delta_3_3_0000", "delta_3_3_0001", "delete_delta_3_3_0001", "delta_3_3_0002")
    assert sorted(read(state(*statements))) == sorted(statements)
    found = state(*statements, "delta_3_3_v7", "delete_delta_3_3_v7")
    assert read(found) == ["delta_3_3_v7", "delete_delta_3_3_v7"]
    assert found.obsolete == tuple(sorted(statements))


def test_s6_a_compacted_base_above_an_open_write_id_is_not_usable() -> None:
    paths = ("base_2_v3", "base_6_v9", "delta_3_3_0", "delta_5_5_0", "delta_6_6_0")
    found = state(*paths, write_ids="6:5:5:", txns="20:9223372036854775807::")
    assert read(found) == ["base_2_v3", "delta_3_3_0", "delta_6_6_0"]
    with pytest.raises(NotEnoughHistoryError, match=r"\(6,5\)\. Oldest available base: 6"):
        state(*paths[1:], write_ids="6:5:5:", txns="20:9223372036854775807::")


def test_s6_time_travel_below_a_compacted_base_is_an_error_whichever_base_is_the_oldest() -> None:
    with pytest.raises(NotEnoughHistoryError, match=r"\(3,x\)"):
        state("base_5", "base_6_v9", "delta_2_2_0", write_ids="3:9223372036854775807::")
    assert read(state("base_5", "delta_2_2_0", write_ids="3:9223372036854775807::")) == ["delta_2_2_0"]


@pytest.mark.parametrize(
    ("write_ids", "aborted", "pending"),
    [("3:3:3:", (), ("base_3",)), ("3:9223372036854775807::3", ("base_3",), ())],
    ids=["open", "aborted"],
)
def test_s7_an_overwrite_that_is_open_or_aborted_leaves_the_older_data(
    write_ids: str, aborted: tuple[str, ...], pending: tuple[str, ...]
) -> None:
    # 4.0.1 reads an open base whose id is the lowest open one; 3.1.3 fails when the only base is not valid
    found = state("base_3", "delta_1_1_0", "delta_2_2_0", write_ids=write_ids)
    assert read(found) == ["delta_1_1_0", "delta_2_2_0"]
    assert (found.obsolete, found.aborted, found.pending) == ((), aborted, pending)


def test_s7_a_committed_overwrite_hides_what_was_before_even_while_an_older_id_is_open() -> None:
    found = state("base_3", "delta_1_1_0", "delta_2_2_0", write_ids="3:2:2:")
    assert read(found) == ["base_3"]
    assert found.obsolete == ("delta_1_1_0",)
    assert found.pending == ("delta_2_2_0",)  # its writer may still be writing


@pytest.mark.parametrize(
    ("txns", "expected", "aborted", "pending"),
    [
        ("20:9223372036854775807::", ["base_2_v7"], (), ()),
        ("20:7:7:", ["delta_1_1_0", "delta_2_2_0"], (), ("base_2_v7",)),
        ("6:9223372036854775807::", ["delta_1_1_0", "delta_2_2_0"], (), ("base_2_v7",)),
        ("20:9223372036854775807::7", ["delta_1_1_0", "delta_2_2_0"], ("base_2_v7",), ()),
        (None, ["base_2_v7"], (), ()),
    ],
    ids=["committed", "open", "later", "aborted", "no transactions known"],
)
def test_s8_a_compaction_counts_when_its_transaction_is_committed(
    txns: str | None, expected: list[str], aborted: tuple[str, ...], pending: tuple[str, ...]
) -> None:
    found = state("base_2_v7", "delta_1_1_0", "delta_2_2_0", txns=txns)
    assert read(found) == expected
    assert (found.aborted, found.pending) == (aborted, pending)


def test_s8_visibility_ids_of_an_adopted_table_count_as_committed() -> None:
    found = state("base_2_v580", "base_4_v600", "delta_3_3_0", txns="9:9223372036854775807::", adopted=580)
    assert read(found) == ["base_2_v580", "delta_3_3_0"]


@pytest.mark.parametrize("base", [(), ("base_1",)])
def test_s9_of_two_compactions_of_one_range_the_newest_valid_one_is_read(base: tuple[str, ...]) -> None:
    paths = [
        *base,
        "delta_2_6_v10",
        "delete_delta_2_6_v10",
        "delta_2_6_v20",
        "delete_delta_2_6_v20",
    ]
    found = state(*paths)
    assert read(found)[-2:] == ["delta_2_6_v20", "delete_delta_2_6_v20"]
    assert found.obsolete == ("delete_delta_2_6_v10", "delta_2_6_v10")
    found = state(*paths, txns="30:20:20:")
    assert read(found)[-2:] == ["delta_2_6_v10", "delete_delta_2_6_v10"]
    assert found.pending == ("delete_delta_2_6_v20", "delta_2_6_v20")


def test_s9_of_two_bases_of_one_write_id_the_newest_compaction_is_read() -> None:
    assert read(state("base_6_v10", "base_6_v9", "base_6")) == ["base_6_v10"]
    assert read(state("base_6_v10", "base_6_v9", "base_6", txns="30:10:10:")) == ["base_6_v9"]
    assert read(state("base_6_v10", "base_6", txns="30:10:10:")) == ["base_6"]
    assert state("base_6_v10", "base_6_v9", "base_6").obsolete == ("base_6", "base_6_v9")


def test_s10_hidden_names_are_passed_over_and_listed_as_foreign() -> None:
    found = state(
        "delta_1_1_0",
        "delta_1_1_0/_orc_acid_version",
        "delta_1_1_0/.bucket_00000.crc",
        "delta_1_1_0/_tmp.1/bucket_00009",
        ".hive-staging_hive_1/delta_2_2_0/bucket_00000",
        "_tmp.delta_3_3/bucket_00000",
        "_SUCCESS",
        "p=1/delta_1_1_0/bucket_00000",
        "notes/readme.txt",
    )
    assert read(found) == ["delta_1_1_0"]
    assert [file.path for file in found.deltas[0].files] == ["delta_1_1_0/bucket_00000"]
    assert found.foreign == (".hive-staging_hive_1", "_SUCCESS", "_tmp.delta_3_3", "notes", "p=1")


def test_s11_originals_are_sorted_by_path_as_text_and_union_directories_belong_to_their_parent() -> None:
    found = state(
        "000000_0_copy_2",
        "000000_0_copy_10",
        "000000_0",
        "000001_0",
        "HIVE_UNION_SUBDIR_1/000000_0",
        "delta_1_1_0/HIVE_UNION_SUBDIR_2/000000_0",
        "delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0",
    )
    assert [file.path for file in found.originals] == [
        "000000_0",
        "000000_0_copy_10",
        "000000_0_copy_2",
        "000001_0",
        "HIVE_UNION_SUBDIR_1/000000_0",
    ]
    assert [file.path for file in found.deltas[0].loaded_files] == [
        "delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0",
        "delta_1_1_0/HIVE_UNION_SUBDIR_2/000000_0",
    ]


def test_s11_a_base_makes_originals_obsolete() -> None:
    entries = listing("000000_0", "HIVE_UNION_SUBDIR_1/000000_0", "base_1")
    entries.append(FileEntry("000001_0", is_dir=False, size=0))
    found = select(entries, parse_write_id_list("db.t:1:9223372036854775807::"), None)
    assert found.originals == ()
    assert found.obsolete == ("000000_0", "000001_0", "HIVE_UNION_SUBDIR_1")


def test_s12_an_empty_base_hides_everything_older() -> None:
    found = state("base_4/", "delta_1_1_0", "000000_0", "delta_5_5_0")
    assert read(found) == ["base_4", "delta_5_5_0"]
    assert found.base is not None
    assert found.base.files == ()


def test_s12_a_truncated_base_is_judged_like_an_overwrite() -> None:
    paths = ("base_4/_metadata_acid", "delta_1_1_0")
    assert read(state(*paths, metadata={"base_4": TRUNCATED})) == ["base_4"]
    aborted = state(*paths, write_ids="5:9223372036854775807::4", metadata={"base_4": TRUNCATED})
    assert read(aborted) == ["delta_1_1_0"]
    assert aborted.aborted == ("base_4",)


def test_s13_partly_aborted_directories_are_filtered_row_by_row() -> None:
    found = state("delta_1_1_0", "delta_2_5", "delta_6_6_0", write_ids="6:5:5:3")
    assert [(one.path, one.validity) for one in found.deltas] == [
        ("delta_1_1_0", RangeShare.ALL),
        ("delta_2_5", RangeShare.SOME),
        ("delta_6_6_0", RangeShare.ALL),
    ]
    assert found.uncompacted_aborts
    assert not state("delta_2_5_v9", write_ids="6:9223372036854775807::3").uncompacted_aborts


def test_s13_a_wholly_aborted_directory_is_not_read() -> None:
    found = state("delta_2_3", "delta_4_4_0", "delete_delta_4_4_0", write_ids="5:9223372036854775807::2,3,4")
    assert read(found) == []
    assert found.aborted == ("delete_delta_4_4_0", "delta_2_3", "delta_4_4_0")
    assert not found.uncompacted_aborts


def test_s14_flush_lengths_go_with_their_files_in_streamed_deltas_only() -> None:
    found = state(
        "delta_2_5/bucket_00000",
        "delta_2_5/bucket_00000_flush_length",
        "delta_2_5/bucket_00001",
        "delta_6_6_0/bucket_00000",
        "delta_6_6_0/bucket_00000_flush_length",
        "delta_7_8_v3/bucket_00000",
        "delta_7_8_v3/bucket_00000_flush_length",
    )
    assert [(file.path, file.flush_length_path) for one in found.deltas for file in one.files] == [
        ("delta_2_5/bucket_00000", "delta_2_5/bucket_00000_flush_length"),
        ("delta_2_5/bucket_00001", None),
        ("delta_6_6_0/bucket_00000", None),
        ("delta_7_8_v3/bucket_00000", None),
    ]


@pytest.mark.parametrize(
    ("paths", "may_lack"),
    [
        (("delta_2_2_0/000000_0", "delta_2_2_0/000001_0"), True),
        (("base_2/000000_0",), True),
        (("delta_2_2_0/bucket_00000",), False),
        (("delta_2_2_0/bucket_00000", "delta_2_2_0/000002_0"), False),
        (("delta_2_2_0/000000_0", "delta_2_2_0/_orc_acid_version"), False),
        (("delta_2_2_v7/000000_0",), False),
        (("delta_2_3/000000_0",), False),
        (("base_2_v7/000000_0",), False),
        (("delta_2_2_0/part-00000.orc",), False),
        (("delete_delta_2_2_0/000000_0",), False),
    ],
)
def test_s15_loaded_files_are_told_by_name_or_left_to_their_schema(
    paths: tuple[str, ...],
    may_lack: bool,  # noqa: FBT001 - the expected value
) -> None:
    found = state(*paths)
    (directory,) = [*([found.base] if found.base else []), *found.deltas, *found.delete_deltas]
    assert directory.may_lack_acid_columns is may_lack


def test_s16_attempt_ids_are_accepted_and_other_files_kept_apart() -> None:
    found = state("delete_delta_1_1_0/bucket_00001_3", "delta_1_1_1/bucket_00000_0", "delta_1_1_1/part-0.orc")
    assert [file.name for file in found.delete_deltas[0].acid_files] == ["bucket_00001_3"]
    assert [file.name for file in found.deltas[0].acid_files] == ["bucket_00000_0"]
    assert [file.name for file in found.deltas[0].files] == ["bucket_00000_0", "part-0.orc"]


def test_empty_files_are_not_read() -> None:
    entries = [FileEntry("delta_1_1_0/bucket_00000", is_dir=False), FileEntry("000000_0", is_dir=False)]
    found = select(entries, parse_write_id_list(f"db.t:{ALL_10}"), None)
    assert found.originals == ()
    assert found.deltas[0].files == ()


def test_s17_buckets_above_4095_and_wide_numbers() -> None:
    found = state("delta_10000001_10000001_0000/bucket_100000", write_ids="10000001:9223372036854775807::")
    assert found.deltas[0].acid_files[0].name == "bucket_100000"


def test_a_base_that_hive_3_compacted_is_known_by_its_metadata_file() -> None:
    paths = ("base_5/_metadata_acid", "delta_4_4_0")
    open_4 = "5:4:4:"
    with pytest.raises(NotEnoughHistoryError):
        state(*paths, write_ids=open_4, metadata={"base_5": COMPACTED})
    # the lists' own id may be aborted: compaction covers it all the same
    aborted = state(*paths, write_ids="5:9223372036854775807::5", metadata={"base_5": COMPACTED})
    assert read(aborted) == ["base_5"]
    assert aborted.aborted == ()
    assert metadata_paths(
        listing("base_5/_metadata_acid", "base_6_v1/_metadata_acid", "x/_metadata_acid")
    ) == ("base_5/_metadata_acid",)


@pytest.mark.parametrize(
    "metadata", [{}, {"base_5": "{"}, {"base_5": "[]"}, {"base_5": '{"dataFormat":"other"}'}]
)
def test_metadata_files_that_say_nothing_are_errors(metadata: dict[str, str]) -> None:
    with pytest.raises(BadFileError) as error:
        state("base_5/_metadata_acid", metadata=metadata)
    assert error.value.path == "base_5/_metadata_acid"


def test_broken_directory_names_are_errors() -> None:
    with pytest.raises(BadDirectoryNameError):
        state("delta_1_x/bucket_00000")


def test_a_base_of_files_older_than_the_conversion_is_always_valid() -> None:
    found = state("base_-9223372036854775808", "delta_1_1_0", write_ids="1:1:1:")
    assert read(found) == ["base_-9223372036854775808"]


def test_a_streamed_delta_that_reaches_beyond_a_compacted_one_is_kept() -> None:
    # ids 6 and 7 of the batch are open; no compaction read ids 4 and 5 out of its file
    open_6 = "7:6:6,7:"
    assert read(state("base_5_v9", "delta_4_7", write_ids=open_6)) == ["base_5_v9", "delta_4_7"]
    assert read(state("delta_1_5_v9", "delta_4_7", write_ids=open_6)) == ["delta_1_5_v9", "delta_4_7"]


def test_a_compactor_sees_no_range_with_an_open_end() -> None:
    view = parse_write_id_list("db.t:7:6:6,7:2").compactor()
    found = select(listing("delta_1_1_0", "delta_2_2_0", "delta_3_5", "delta_4_7", "delta_8_8_0"), view, None)
    assert read(found) == ["delta_1_1_0", "delta_3_5"]
    assert found.pending == ("delta_4_7", "delta_8_8_0")
    assert found.aborted == ("delta_2_2_0",)


def test_a_compactor_filters_aborted_rows_inside_a_range() -> None:
    view = parse_write_id_list("db.t:7:9223372036854775807::4").compactor()
    found = select(listing("delta_3_5"), view, None)
    assert found.deltas[0].validity is RangeShare.SOME


def test_ten_thousand_directories_take_no_time() -> None:
    paths = [f"delta_{n}_{n}_0" for n in range(1, 5001)] + [f"delete_delta_{n}_{n}_1" for n in range(1, 5001)]
    entries = listing(*paths)
    aborted = ",".join(map(str, range(2, 5001, 3)))
    write_ids = parse_write_id_list(f"db.t:5000:9223372036854775807::{aborted}")
    assert_quick(lambda: select(entries, write_ids, None))
    found = select(entries, write_ids, None)
    assert len(found.deltas) + len(found.aborted) // 2 == 5000


def test_rows_without_ids_are_not_read_out_of_a_delta_that_reaches_beyond_the_snapshot() -> None:
    """As of write id 2 of an insert-only table, beside the minor compaction of 1 to 4."""
    entries = listing("delta_1_1_0", "delta_2_2_0", "delta_3_3_0", "delta_4_4_0", "delta_1_4_v9")
    as_of = parse_write_id_list("db.t:2:9223372036854775807::")
    assert read(select(entries, as_of, None)) == ["delta_1_4_v9"]  # full ACID: its rows tell their write ids
    found = select(entries, as_of, None, row_ids=False)
    assert read(found) == ["delta_1_1_0", "delta_2_2_0"]
    assert found.pending == ("delta_1_4_v9", "delta_3_3_0", "delta_4_4_0")
    whole = parse_write_id_list("db.t:4:9223372036854775807::3")
    assert read(select(entries, whole, None, row_ids=False)) == ["delta_1_4_v9"]
    # as of a moment before 3 was committed: no compaction joins what is open
    moment = parse_write_id_list("db.t:4:3:3:")
    assert read(select(entries, moment, None, row_ids=False)) == ["delta_1_1_0", "delta_2_2_0", "delta_4_4_0"]
    # nor one for Hive 3, whose name does not tell that it is one
    entries = listing("delta_1_1_0", "delta_2_2_0", "delta_3_3_0", "delta_4_4_0", "delta_1_4")
    assert read(select(entries, moment, None, row_ids=False)) == ["delta_1_1_0", "delta_2_2_0", "delta_4_4_0"]
    assert read(select(entries, whole, None, row_ids=False)) == ["delta_1_4"]


def test_a_base_that_is_too_new_is_passed_over_where_history_is_kept() -> None:
    """Nothing was removed that an earlier snapshot stands on: its deltas are all there."""
    entries = listing("delta_1_1_0", "delta_2_2_0", "base_2_v9")
    as_of = parse_write_id_list("db.t:1:9223372036854775807::")
    assert read(select(entries, as_of, None, history_kept=True)) == ["delta_1_1_0"]
    with pytest.raises(NotEnoughHistoryError):
        select(entries, as_of, None)
