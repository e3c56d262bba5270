"""What each directory and file of a location is, and why: every state, and nothing left out."""

from __future__ import annotations

from hiveacid.core.format.names import PAIR_FILE
from hiveacid.core.format.write_id_lists import parse_txn_list, parse_write_id_list
from hiveacid.core.model import TableKind, TxnId
from hiveacid.core.snapshot.classify_entries import (
    FileItem,
    Inventory,
    InventorySnapshot,
    ItemState,
    take_inventory,
)
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import BadDirectoryNameError, BadFileError, NotEnoughHistoryError
from hiveacid.storage.staging import staging_txn_id

NO_OPEN = 2**63 - 1


def inventory(
    *paths: str,
    write_ids: str = f"9:{NO_OPEN}::",
    txns: str = f"99:{NO_OPEN}::",
    metadata: dict[str, str] | None = None,
    kind: TableKind = TableKind.FULL_ACID,
    uncommitted: frozenset[int] = frozenset(),
) -> Inventory:
    """Take the inventory of files (0 bytes where a name ends with '!') and empty directories ('x/')."""
    entries = [
        FileEntry(path.rstrip("/!"), is_dir=path.endswith("/"), size=0 if path[-1] in "/!" else 9)
        for path in paths
    ]
    snapshot = InventorySnapshot(
        parse_write_id_list(f"db.t:{write_ids}"), parse_txn_list(txns), TxnId(0), uncommitted
    )
    return take_inventory(entries, snapshot, metadata or {}, kind, staging_txn_id)


def states(found: Inventory) -> dict[str, str]:
    return {item.path: item.state.value for item in found.directories}


def reasons(found: Inventory) -> dict[str, str]:
    return {item.path: item.reason for item in found.directories}


def file(found: Inventory, path: str) -> FileItem:
    return next(item for item in found.files if item.path == path)


def test_every_state_of_a_directory_has_its_reason() -> None:
    found = inventory(
        "base_3/bucket_00000",
        "delta_2_2_0/bucket_00000",
        "delta_4_6/bucket_00000",
        "delta_7_7_0/bucket_00000",
        "delta_8_8_0/bucket_00000",
        "delta_10_10_0/bucket_00000",
        "delta_4_5_v11/bucket_00000",
        "delta_4_5_v12/bucket_00000",
        "base_5_v13/bucket_00000",
        ".hiveacid-staging-17-ab/part-0",
        ".hive-staging_hive_1/x",
        "notes/readme",
        "000000_0",
        write_ids="9:8:8:7,5",
        txns=f"20:{NO_OPEN}:12:11",
        uncommitted=frozenset({13}),
    )
    assert reasons(found) == {
        "": "base_3 holds or replaces the rows of the original files",
        ".hive-staging_hive_1": "hidden: no reader looks at it",
        ".hiveacid-staging-17-ab": "files of a statement of transaction 17 that was not published",
        "base_3": "the newest base that this snapshot may read",
        "base_5_v13": "transaction 13 of its compaction had not committed when the table was adopted",
        "delta_10_10_0": "write id 10 lies above the table's last write id, 9",
        "delta_2_2_0": "base_3 holds or replaces its rows",
        "delta_4_5_v11": "transaction 11 of its compaction was aborted",
        "delta_4_5_v12": "transaction 12 of its compaction had not committed yet",
        "delta_4_6": "some of its write ids are open or aborted: its rows are looked at one by one",
        "delta_7_7_0": "write id 7 is aborted",
        "delta_8_8_0": "write id 8 is open",
        "notes": "not of the layout: no reader looks at it",
    }
    assert states(found) == {
        "": "obsolete",
        ".hive-staging_hive_1": "hidden",
        ".hiveacid-staging-17-ab": "staging",
        "base_3": "used",
        "base_5_v13": "aborted",
        "delta_10_10_0": "open",
        "delta_2_2_0": "obsolete",
        "delta_4_5_v11": "aborted",
        "delta_4_5_v12": "open",
        "delta_4_6": "used",
        "delta_7_7_0": "aborted",
        "delta_8_8_0": "open",
        "notes": "foreign",
    }


def test_what_covers_an_obsolete_delta_is_named_and_a_base_too_new_says_why() -> None:
    found = inventory(
        "delta_1_1_0/bucket_00000",
        "delta_1_4_v7/bucket_00000",
        "base_6_v9/bucket_00000",
        "delta_5_5/bucket_00000",
        "base_0/bucket_00000",
        write_ids="9:6:6:",
    )
    assert reasons(found)["delta_1_1_0"] == "delta_1_4_v7 holds its rows"
    assert reasons(found)["base_6_v9"] == "write id 6 is open"
    assert states(found)["base_6_v9"] == "open"
    assert reasons(found)["delta_5_5"] == "write id 5 is committed"


def test_what_holds_rows_and_what_holds_delete_events_are_told_apart() -> None:
    found = inventory(
        *(f"{kind}_{ids}/bucket_00000" for kind in ("delta", "delete_delta") for ids in ("1_4_v7", "2_2_0")),
        "delta_3_3_0/bucket_00000",
    )
    assert reasons(found)["delta_2_2_0"] == reasons(found)["delta_3_3_0"] == "delta_1_4_v7 holds its rows"
    assert reasons(found)["delete_delta_2_2_0"] == "delete_delta_1_4_v7 holds its rows"


def test_half_a_compaction_is_not_read_for_the_other_half_is_missing() -> None:
    found = inventory("delta_1_4/bucket_00000", f"delta_1_4/{PAIR_FILE}", "delta_1_1_0/bucket_00000")
    assert states(found) == {"delta_1_1_0": "used", "delta_1_4": "open"}
    assert reasons(found)["delta_1_4"] == (
        "the delta or delete delta that its compaction made beside it is missing"
    )


def test_a_delta_of_rows_without_ids_is_read_as_a_whole_or_not_at_all() -> None:
    """As readers do: such a row does not tell the write id that this snapshot must not see."""
    paths = "delta_1_4/000000_0", "delta_1_1_0/000000_0"
    found = inventory(*paths, write_ids="3:3:3:", kind=TableKind.INSERT_ONLY)
    assert states(found) == {"delta_1_1_0": "used", "delta_1_4": "open"}
    assert reasons(found)["delta_1_4"].startswith("it holds rows that this snapshot must not see")
    assert states(inventory(*paths, write_ids="3:3:3:"))["delta_1_4"] == "used"


def test_files_of_a_used_directory_are_judged_by_their_names() -> None:
    found = inventory(
        "delta_1_3/bucket_00000",
        "delta_1_3/bucket_00000_flush_length",
        "delta_1_3/bucket_00001!",
        "delta_1_3/_orc_acid_version",
        "delta_1_3/part-00000.orc",
        "delta_1_3/.bucket_00000.crc",
        "delta_4_4_0/000000_0",
        "delta_5_5_0/000000_0",
        "delta_5_5_0/_orc_acid_version",
    )
    assert {item.path: item.state.value for item in found.files} == {
        "delta_1_3/.bucket_00000.crc": "hidden",
        "delta_1_3/_orc_acid_version": "side file",
        "delta_1_3/bucket_00000": "used",
        "delta_1_3/bucket_00000_flush_length": "side file",
        "delta_1_3/bucket_00001": "empty",
        "delta_1_3/part-00000.orc": "foreign",
        "delta_4_4_0/000000_0": "used",
        "delta_5_5_0/000000_0": "foreign",
        "delta_5_5_0/_orc_acid_version": "side file",
    }
    assert file(found, "delta_1_3/bucket_00000").reason == "read as far as its _flush_length file says"
    assert file(found, "delta_4_4_0/000000_0").reason == "a file without row ids (LOAD DATA)"
    (wide,) = (item for item in found.directories if item.path == "delta_1_3")
    assert (wide.kind, wide.files, wide.bytes) == ("delta", 6, 45)


def test_original_files_are_one_directory_with_those_of_union_all_beside() -> None:
    found = inventory(
        "000000_0", "000000_0_copy_1", "HIVE_UNION_SUBDIR_1/000000_0", "_SUCCESS", "delta_1_1_0/"
    )
    assert states(found) == {"": "used", "HIVE_UNION_SUBDIR_1": "used", "delta_1_1_0": "used"}
    root = next(item for item in found.directories if item.path == "")
    assert (root.kind, root.files) == ("original", 3)
    assert file(found, "_SUCCESS").state is ItemState.HIDDEN
    assert file(found, "HIVE_UNION_SUBDIR_1/000000_0").kind == "original"


def test_any_directory_of_original_files_is_read_and_replaced_with_them() -> None:
    read = inventory("sub.d/000000_0", "sub.d/deeper/000001_0", "notes/readme")
    assert states(read) == {"notes": "foreign", "sub.d": "used"}
    assert file(read, "sub.d/deeper/000001_0").state is ItemState.USED
    assert states(inventory("sub.d/000000_0", "base_5/bucket_00000"))["sub.d"] == "obsolete"


def test_a_bad_name_is_refused_and_the_others_are_told_all_the_same() -> None:
    found = inventory("base_x/bucket_00000", "delta_1_1_0/bucket_00000")
    assert states(found) == {"base_x": "refused", "delta_1_1_0": "used"}
    assert found.state is None
    (error,) = found.errors
    assert isinstance(error, BadDirectoryNameError)
    assert file(found, "base_x/bucket_00000").state is ItemState.REFUSED


def test_where_nothing_can_be_read_the_reason_stands_at_every_directory() -> None:
    found = inventory("base_5_v7/bucket_00000", "delta_6_6_0/bucket_00000", write_ids="9:4:4:")
    assert states(found) == {"base_5_v7": "refused", "delta_6_6_0": "refused"}
    assert all(reason.startswith("Not enough history") for reason in reasons(found).values())
    assert isinstance(found.errors[0], NotEnoughHistoryError)
    spoilt = inventory("base_5/_metadata_acid", "base_5/bucket_00000", metadata={"base_5": "{"})
    assert isinstance(spoilt.errors[0], BadFileError)
    assert states(spoilt) == {"base_5": "refused"}


def test_insert_only_tables_read_any_name_and_plain_tables_read_everything() -> None:
    insert_only = inventory(
        "delta_1_1_0/part-0.parquet", "delta_1_1_0/_x", "delta_2_2_0/HIVE_UNION_SUBDIR_1/000000_0",
        kind=TableKind.INSERT_ONLY,
    )  # fmt: skip
    assert {item.path: item.state.value for item in insert_only.files} == {
        "delta_1_1_0/_x": "hidden",
        "delta_1_1_0/part-0.parquet": "used",
        "delta_2_2_0/HIVE_UNION_SUBDIR_1/000000_0": "used",
    }
    plain = inventory("part-0.parquet", "base_x/part-1", "_SUCCESS", kind=TableKind.PLAIN)
    assert {item.path: item.state.value for item in plain.files} == {
        "_SUCCESS": "hidden",
        "base_x/part-1": "used",
        "part-0.parquet": "used",
    }
