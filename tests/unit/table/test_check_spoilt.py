"""Tables spoilt in one way each: the check finds exactly that, without reading a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.core.model import Partition
from hiveacid.core.snapshot.check_findings import Finding, FindingKind
from hiveacid.table.check_files import check_quick, inventory_of_partitions
from hiveacid.table.read.inventory import delta_rows, file_rows
from support.corpus.acid_files import (
    acid_bytes,
    bucket_property,
    deletes,
    flush_lengths,
    inserts,
    orc_bytes,
    put,
)
from support.directories.shelves import MemoryShelf, definition

COLUMNS = "id:int,name:string"
ROWS = [(n, f"n{n}") for n in range(4)]
INSERT = acid_bytes(inserts(1, ROWS), COLUMNS)
KEY = (1, bucket_property(0), 1)
DELETE = acid_bytes(deletes(2, [KEY]), COLUMNS)
GOOD = {
    "delta_0000001_0000001_0000/bucket_00000": INSERT,
    "delta_0000001_0000001_0000/_orc_acid_version": b"2",
    "delete_delta_0000002_0000002_0000/bucket_00000": DELETE,
    "delete_delta_0000002_0000002_0000/_orc_acid_version": b"2",
}
CREATE = "CREATE TABLE t (id INT, name STRING) {} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
FIRST, SECOND = "delta_0000001_0000001_0000/bucket_00000", "delete_delta_0000002_0000002_0000/bucket_00000"


def check(root: Path, files: dict[str, bytes], write_ids: str = "4:9223372036854775807::") -> list[Finding]:
    shelf = MemoryShelf()
    table = definition(CREATE.format(""), str(put(root / "t", files)))
    shelf.add(table, [], f"default.t:{write_ids}")
    return list(check_quick(shelf, table, None))


def kinds(found: list[Finding], root: Path) -> set[tuple[FindingKind, str]]:
    return {(one.kind, one.path.removeprefix(f"{root}/t").strip("/")) for one in found}


def test_a_good_table_has_nothing_to_say(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == []


def acid(*events: object, metadata: dict[str, str] | None = None) -> bytes:
    return acid_bytes(list(events), COLUMNS, metadata)  # type: ignore[arg-type]


def without(metadata: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key not in keys}


META = {"hive.acid.version": "2", "hive.acid.stats": "4,0,0", "hive.acid.key.index": "1,536870912,3;"}
DELETE_META = {"hive.acid.version": "2", "hive.acid.stats": "0,0,1"}
FIVE = "delta_0000003_0000003_0000"
SPOILT: list[tuple[FindingKind, str, dict[str, bytes]]] = [
    (FindingKind.BAD_NAME, "base_x", {"base_x/bucket_00000": INSERT}),
    (FindingKind.BAD_SIDE_FILE, "base_0000002/_metadata_acid", {"base_0000002/_metadata_acid": b"{"}),
    (FindingKind.UNREADABLE_FILE, FIRST, {FIRST: INSERT[:-10]}),
    (FindingKind.UNREADABLE_FILE, FIRST, {FIRST: b"PAR1 and more PAR1"}),
    (FindingKind.UNREADABLE_FILE, FIRST, {FIRST: INSERT + b"\0"}),
    (FindingKind.NOT_ACID, FIRST, {FIRST: orc_bytes(ROWS, f"struct<{COLUMNS}>")}),
    (FindingKind.ACID_ORIGINAL, "000000_0", {"000000_0": INSERT}),
    (FindingKind.SHORT_FILE, "delta_3_4/bucket_00000", {
        "delta_3_4/bucket_00000": acid_bytes(inserts(3, ROWS), COLUMNS),
        "delta_3_4/_orc_acid_version": b"2",
        "delta_3_4/bucket_00000_flush_length": flush_lengths(100, 99999)}),
    (FindingKind.WRONG_OPERATION, FIRST, {FIRST: acid((2, *KEY, 1, None), metadata={"hive.acid.version": "2", "hive.acid.stats": "1,0,0"})}),
    (FindingKind.WRONG_OPERATION, SECOND, {SECOND: acid((0, *KEY, 2, (1, "x")), metadata=DELETE_META)}),
    (FindingKind.NULL_KEY, SECOND, {SECOND: acid((2, 1, KEY[1], None, 2, None), metadata=DELETE_META)}),
    (FindingKind.WRITE_ID_OUTSIDE, FIRST, {FIRST: acid(*inserts(3, ROWS), metadata=without(META, "hive.acid.key.index"))}),
    (FindingKind.WRITE_ID_OUTSIDE, SECOND, {SECOND: acid((2, 4, KEY[1], 1, 2, None), metadata=DELETE_META)}),
    (FindingKind.BUCKET_CODEC, FIRST, {FIRST: acid((0, 1, 3 << 29, 0, 1, (1, "x")))}),
    (FindingKind.FILE_BUCKET, FIRST, {FIRST: acid(*inserts(1, ROWS, bucket=1))}),
    (FindingKind.DELETE_BUCKET, SECOND, {SECOND: acid((2, 1, bucket_property(3), 1, 2, None), metadata=DELETE_META)}),
    (FindingKind.FOREIGN_FILE, "delta_0000001_0000001_0000/part-0.orc", {"delta_0000001_0000001_0000/part-0.orc": INSERT}),
    (FindingKind.FOREIGN_FILE, "notes", {"notes/readme.txt": b"x"}),
    (FindingKind.ORIGINAL_NAME, "part-0.orc", {"part-0.orc": orc_bytes(ROWS, f"struct<{COLUMNS}>")}),
    (FindingKind.BEYOND, "delta_0000009_0000009_0000", {"delta_0000009_0000009_0000/bucket_00000": INSERT}),
    (FindingKind.DELETE_STATISTICS, SECOND, {SECOND: acid((2, *KEY, 2, None), metadata={"hive.acid.version": "2"})}),
    (FindingKind.DELETE_STATISTICS, SECOND, {
        SECOND: acid((2, *KEY, 2, None), metadata=DELETE_META | {"hive.acid.stats": "0,0,0"})}),
    (FindingKind.KEY_INDEX, FIRST, {
        FIRST: acid(*inserts(1, ROWS), metadata=META | {"hive.acid.key.index": "1,536870912,2;"})}),
    (FindingKind.VERSION_FILE, "delta_0000001_0000001_0000", {"delta_0000001_0000001_0000/_orc_acid_version": b"x"}),
    (FindingKind.ACID_V1_EVENT, FIRST, {FIRST: acid((1, 1, KEY[1], 0, 1, (1, "x")), metadata=META | {
        "hive.acid.stats": "1,0,0", "hive.acid.key.index": "1,536870912,0;"})}),
    (FindingKind.ACID_V1_EVENT, FIRST, {FIRST: acid(
        *((event, 1, KEY[1], event, 1, None if event == 2 else (1, "x")) for event in (0, 1, 2)),
        metadata=META | {"hive.acid.stats": "3,0,0", "hive.acid.key.index": "1,536870912,2;"})}),
    (FindingKind.INSERT_METADATA, FIRST, {FIRST: acid(*inserts(1, ROWS), metadata=META | {"hive.acid.stats": "9,0,0"})}),
    (FindingKind.INSERT_METADATA, FIRST, {FIRST: acid(*inserts(1, ROWS), metadata=without(META, "hive.acid.version"))}),
    (FindingKind.INSERT_METADATA, FIRST, {FIRST: acid(*inserts(1, ROWS), metadata=META | {"hive.acid.key.index": "x"})}),
    (FindingKind.NO_VERSION_FILE, FIVE, {f"{FIVE}/bucket_00000": acid(*inserts(3, ROWS))}),
    (FindingKind.TORN_FLUSH_LENGTH, "delta_3_4/bucket_00000", {
        "delta_3_4/bucket_00000": acid_bytes(inserts(3, ROWS), COLUMNS),
        "delta_3_4/_orc_acid_version": b"2",
        "delta_3_4/bucket_00000_flush_length": flush_lengths(0) + b"abc"}),
    (FindingKind.OBSOLETE, FIRST.partition("/")[0], {
        "delta_0000001_0000001/bucket_00000": INSERT, "delta_0000001_0000001/_orc_acid_version": b"2"}),
    (FindingKind.STAGING, ".hiveacid-staging-7-ab12", {".hiveacid-staging-7-ab12/x": b"x"}),
    (FindingKind.LEFTOVER, ".hive-staging_hive_1", {".hive-staging_hive_1/x": b"x"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "files"), SPOILT, ids=[f"{k.code}-{n}" for n, (k, _, _) in enumerate(SPOILT)]
)
def test_a_table_spoilt_in_one_way_has_this_finding_and_no_other_damage(
    kind: FindingKind, path: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    found = check(tmp_path, GOOD | files)
    assert kinds(found, tmp_path) == {(kind, path)}
    assert all(one.message for one in found)


def test_aborted_open_and_hidden_rows_are_notes(tmp_path: Path) -> None:
    files = GOOD | {
        "delta_0000003_0000003_0000/bucket_00000": acid(*inserts(3, ROWS)),
        "delta_0000004_0000005/bucket_00000": acid(*inserts(4, ROWS), *inserts(5, ROWS), metadata=META),
        "delta_0000004_0000005/_orc_acid_version": b"2",
    }
    found = check(tmp_path, files, "5:9223372036854775807::3,5")
    hidden = "delta_0000004_0000005/bucket_00000"
    assert {(FindingKind.ABORTED, "delta_0000003_0000003_0000"), (FindingKind.HIDDEN_ROWS, hidden)} <= kinds(
        found, tmp_path
    )


def test_a_history_that_was_compacted_too_far_is_damage(tmp_path: Path) -> None:
    files = {"base_0000003_v0000002/bucket_00000": INSERT}
    shelf = MemoryShelf()
    table = definition(CREATE.format(""), str(put(tmp_path / "t", files)))
    shelf.add(table, [], "default.t:2:9223372036854775807::")
    (one,) = check_quick(shelf, table, None)
    assert (one.kind, one.path) == (FindingKind.HISTORY_LOST, f"{tmp_path}/t")


def test_partitions_on_disk_and_in_the_catalog_are_compared(tmp_path: Path) -> None:
    root = put(tmp_path / "t", {f"p=1/{path}": data for path, data in GOOD.items()} | {
        "p=7/delta_0000001_0000001_0000/bucket_00000": INSERT, "stray.orc": INSERT, ".hive-staging_1/x": b"x"})  # fmt: skip
    shelf = MemoryShelf()
    table = definition(CREATE.format("PARTITIONED BY (p INT)"), str(root))
    known = [Partition(("1",), f"{root}/p=1"), Partition(("2",), f"{root}/p=2")]
    shelf.add(table, known, "default.t:4:9223372036854775807::")
    found = check_quick(shelf, table, known)
    assert {(one.kind, one.path.removeprefix(f"{root}/"), one.partition) for one in found} == {
        (FindingKind.MISSING_DIRECTORY, "p=2", "p=2"),
        (FindingKind.UNKNOWN_PARTITION, "p=7", None),
        (FindingKind.FOREIGN_FILE, "stray.orc", None),
        (FindingKind.LEFTOVER, ".hive-staging_1", None),
    }
    assert check_quick(shelf, table, known, {"p": "1"}) == ()
    found = inventory_of_partitions(shelf, table, known)
    states = {(row[0], row[2].removeprefix(f"{root}/")): row[5] for row in file_rows(found)}  # type: ignore[union-attr]
    assert states["p=1", f"p=1/{FIRST}"] == "used"
    assert states[None, "p=7/delta_0000001_0000001_0000/bucket_00000"] == "foreign"
    deltas = {(row[0], row[1]): row[7:9] for row in delta_rows(found)}
    assert deltas["p=2", ""] == ("missing", f"no such directory: {root}/p=2")
    assert deltas[None, "p=7"] == ("foreign", "the catalog knows no partition p=7")
    assert deltas["p=1", "delta_0000001_0000001_0000"] == ("used", "write id 1 is committed")


def test_files_of_other_formats_are_known_by_their_first_and_last_bytes(tmp_path: Path) -> None:
    create = (
        "CREATE TABLE t (id INT) STORED AS {} "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    for kind, good in (("PARQUET", b"PAR1....PAR1"), ("AVRO", b"Obj\x01...."), ("TEXTFILE", b"1\n2\n")):
        shelf = MemoryShelf()
        files = {"delta_1_1_0/000000_0": good, "delta_2_2_0/000000_0": good[1:]}
        table = definition(create.format(kind), str(put(tmp_path / kind, files)))
        shelf.add(table, [], "default.t:2:9223372036854775807::")
        bad = (
            []
            if kind == "TEXTFILE"
            else [(FindingKind.UNREADABLE_FILE, f"{tmp_path}/{kind}/delta_2_2_0/000000_0")]
        )
        assert [(one.kind, one.path) for one in check_quick(shelf, table, None)] == bad
