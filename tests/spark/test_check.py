"""The check of rows: each spoilt partition has its finding and no other damage; what engines wrote has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import hiveacid
from hiveacid.cli import main
from hiveacid.core.schema.bucket_hash import bucket_number
from hiveacid.core.schema.types import Primitive
from hiveacid.core.snapshot.check_findings import Finding, FindingKind, Severity
from hiveacid.orc.tail import read_tail
from hiveacid.orc.wire_format import encode_field
from hiveacid.storage.local_file_system import LocalFileSystem
from support.corpus.acid_files import Event, acid_bytes, bucket_property, deletes, inserts, orc_bytes, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

COLUMNS = "id:int,name:string"
ROWS = [(n, f"n{n}") for n in range(50)]
CREATE = "CREATE TABLE {} (id INT, name STRING) {} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
ONE, TWO, THREE = (f"delta_{n:07d}_{n:07d}_0000" for n in (1, 2, 3))
BUCKET_0 = bucket_property(0)
VERSION = {f"{name}/_orc_acid_version": b"2" for name in (ONE, f"delete_{TWO}")}
FIVE = (5, "n5")
DELETE_META = {"hive.acid.version": "2", "hive.acid.stats": "0,0,2"}


def acid(events: list[Event], **options: Any) -> bytes:
    return acid_bytes(events, COLUMNS, **options)


GOOD = VERSION | {
    f"{ONE}/bucket_00000": acid(inserts(1, ROWS)),
    f"delete_{TWO}/bucket_00000": acid(deletes(2, [(1, BUCKET_0, 3), (1, BUCKET_0, 9)])),
}


def damaged(data: bytes) -> bytes:
    """Return a file whose footer is whole and whose rows are not."""
    end = len(data) // 2  # of so few rows the footer is the larger part
    return data[:3] + bytes(255 - byte for byte in data[3:end]) + data[end:]


def with_statistics_of(data: bytes, other: bytes, folder: Path) -> bytes:
    """Return a file with the footer's column statistics of another one."""
    fs = LocalFileSystem(durable=False)
    put(folder, {"a": data, "b": other})
    one, two = (read_tail(fs, f"{folder}/{name}", len(text)) for name, text in (("a", data), ("b", other)))
    assert one.source is not None
    assert two.source is not None
    statistics = iter([value for number, _, value in two.source.footer.fields if number == 7])
    footer = b"".join(
        encode_field(number, next(statistics) if number == 7 else value, wire)
        for number, wire, value in one.source.footer.fields
    )
    postscript = b"".join(
        encode_field(number, len(footer) if number == 1 else value, wire)
        for number, wire, value in one.source.postscript.fields
    )
    return data[: one.source.footer_start] + footer + postscript + bytes([len(postscript)])


def spoilt(tmp_path: Path) -> dict[str, tuple[FindingKind | None, str, dict[str, bytes]]]:
    """Return partitions by name: the finding they must have (None: none), where, and their files."""
    events = inserts(1, ROWS)
    plain = {"compression": 0}
    return {
        "good": (None, "", GOOD),
        "unsorted": (FindingKind.UNSORTED, f"{ONE}/bucket_00000", GOOD | {
            f"{ONE}/bucket_00000": acid([*events[:20], events[30], *events[20:30], *events[31:]])}),
        "unsorted_deletes": (FindingKind.UNSORTED, f"delete_{TWO}/bucket_00000", GOOD | {
            f"delete_{TWO}/bucket_00000": acid(
                deletes(2, [(1, BUCKET_0, 3), (1, BUCKET_0, 9)])[::-1], metadata=DELETE_META
            )}),
        "doubled": (FindingKind.DUPLICATE_ROW_ID, "", GOOD | {
            f"{ONE}/bucket_00000": acid([*events[:20], events[19], *events[20:]])}),
        "doubled_over_files": (FindingKind.DUPLICATE_ROW_ID, "", GOOD | {
            f"{ONE}/bucket_00000_1": acid(events[40:], metadata={"hive.acid.version": "2", "hive.acid.stats": "10,0,0"})}),
        "orphan": (FindingKind.ORPHAN_DELETE, f"delete_{TWO}/bucket_00000", GOOD | {
            f"delete_{TWO}/bucket_00000": acid(deletes(2, [(1, BUCKET_0, 3), (1, BUCKET_0, 99)]))}),
        "old_delete": (FindingKind.OLD_DELETE, f"delete_{TWO}/bucket_00000", {
            "base_0000001/bucket_00000": acid(events[10:]), "base_0000001/_orc_acid_version": b"2",
            f"delete_{TWO}/bucket_00000": GOOD[f"delete_{TWO}/bucket_00000"],
            f"delete_{TWO}/_orc_acid_version": b"2"}),
        "double_delete": (FindingKind.DOUBLE_DELETE, "", GOOD | {
            f"delete_{THREE}/bucket_00000": acid(deletes(3, [(1, BUCKET_0, 9)])),
            f"delete_{THREE}/_orc_acid_version": b"2"}),
        "damaged": (FindingKind.UNREADABLE_FILE, f"{ONE}/bucket_00000", {
            f"{ONE}/bucket_00000": damaged(acid(events)), f"{ONE}/_orc_acid_version": b"2"}),
        "damaged_beside_deletes": (FindingKind.UNREADABLE_FILE, f"{ONE}/bucket_00000", GOOD | {
            f"{ONE}/bucket_00000": damaged(acid(events))}),
        "streamed": (None, "", {
            "delta_0000001_0000002/bucket_00000": acid(events),
            "delta_0000001_0000002/bucket_00000_flush_length": len(acid(events)).to_bytes(8, "big"),
            "delta_0000001_0000002/_orc_acid_version": b"2",
            f"delete_{THREE}/bucket_00000": acid(deletes(3, [(1, BUCKET_0, 3)])),
            f"delete_{THREE}/_orc_acid_version": b"2"}),
        "damaged_original": (FindingKind.UNREADABLE_FILE, "000000_0", {
            "000000_0": damaged(orc_bytes(ROWS, f"struct<{COLUMNS}>"))}),
        "statistics": (FindingKind.WRONG_STATISTICS, f"{ONE}/bucket_00000", VERSION | {
            f"{ONE}/bucket_00000": with_statistics_of(
                acid(inserts(1, ROWS, first=5), **plain), acid(events, **plain), tmp_path / "statistics")}),
        "borrowed": (FindingKind.WRITE_ID_OF_ROW, f"{TWO}/bucket_00000", GOOD | {
            f"{TWO}/bucket_00000": acid([(0, 1, BUCKET_0, 77, 2, FIVE)]), f"{TWO}/_orc_acid_version": b"2"}),
        "originals": (None, "", {
            "000000_0": orc_bytes(ROWS, f"struct<{COLUMNS}>"),
            "HIVE_UNION_SUBDIR_1/000000_0": orc_bytes(ROWS, f"struct<{COLUMNS}>"),
            f"delete_{TWO}/bucket_00000": acid(deletes(2, [(0, BUCKET_0, 3), (0, BUCKET_0, 99)])),
            f"delete_{TWO}/_orc_acid_version": b"2"}),
    }  # fmt: skip


def adopted(acid_session: AcidSession, name: str, clauses: str, root: Path, high: int = 3) -> None:
    ids = f"default.{name}:{high}:9223372036854775807::"
    acid_session.adopt(CREATE.format(name, clauses), location=str(root), valid_write_ids=ids)


def test_each_spoilt_partition_has_its_finding_and_no_other(acid: AcidSession, tmp_path: Path) -> None:
    cases = spoilt(tmp_path)
    root = tmp_path / "t"
    for name, (_, _, files) in cases.items():
        put(root / f"p={name}", files)
    adopted(acid, "t", "PARTITIONED BY (p STRING)", root)
    found = acid.table("t").inspect.check()
    given = {(one.partition, one.kind, one.path.removeprefix(f"{root}/")) for one in found}
    doubt = (
        None,
        FindingKind.NOT_CHECKED,
        str(root),
    )  # an original cannot be read, so row ids cannot be told
    assert doubt in given
    ids = (
        FindingKind.DUPLICATE_ROW_ID,
        FindingKind.ORPHAN_DELETE,
        FindingKind.OLD_DELETE,
        FindingKind.DOUBLE_DELETE,
    )
    expected = {
        (f"p={name}", kind, f"p={name}/{path}".rstrip("/"))
        for name, (kind, path, _) in cases.items()
        if kind is not None and kind not in ids
    }
    assert given - {doubt} == expected
    acid.sql("ALTER TABLE t DROP PARTITION (p='damaged_original')")
    again = [one for one in acid.table("t").inspect.check() if one.partition]
    assert {(one.partition, one.kind) for one in again} == {
        (f"p={name}", kind)
        for name, (kind, _, _) in cases.items()
        if kind is not None and name != "damaged_original"
    }
    worst = [one.severity for one in again]
    assert worst == sorted(worst, key=list(Severity).index)


@pytest.mark.exhaustive("each spoilt partition has its finding, and stays")
def test_rows_in_the_wrong_bucket_of_a_bucketed_table(acid: AcidSession, tmp_path: Path) -> None:
    """4 buckets: Hive's hash of an INT says where each id belongs."""
    acid.sql(CREATE.format("b", "CLUSTERED BY (id) INTO 4 BUCKETS"))
    acid.sql("INSERT INTO b SELECT CAST(id AS INT), 'x' FROM range(100)")
    assert acid.table("b").inspect.check() == ()
    good = {one.file: one for one in acid.table("b").inspect.files().collect() if one.state == "used"}
    root = tmp_path / "w"
    moved = inserts(1, [(n, "y") for n in range(20)], bucket=1)
    put(root, {f"{ONE}/bucket_00001": acid_bytes(moved, COLUMNS), f"{ONE}/_orc_acid_version": b"2"})
    adopted(acid, "w", "CLUSTERED BY (id) INTO 4 BUCKETS", root)
    (one,) = acid.table("w").inspect.check()
    assert (one.kind, one.path) == (FindingKind.WRONG_HASH_BUCKET, f"{root}/{ONE}/bucket_00001")
    assert good
    root = tmp_path / "o"  # an adopted table has version 1; Hive 3.1.3 does the reverse in a MERGE
    elsewhere = [n for n in range(50) if bucket_number([n], [Primitive("int")], 4, 2) == 1 != n % 4]
    moved = inserts(1, [(n, "y") for n in elsewhere], bucket=1)
    put(root, {f"{ONE}/bucket_00001": acid_bytes(moved, COLUMNS), f"{ONE}/_orc_acid_version": b"2"})
    adopted(acid, "o", "CLUSTERED BY (id) INTO 4 BUCKETS", root)
    (one,) = acid.table("o").inspect.check()
    assert (one.kind, one.severity) == (FindingKind.OTHER_HASH_BUCKET, Severity.WARNING)


@pytest.mark.exhaustive("unit/table/test_check_golden.py has tables without findings")
def test_our_own_tables_are_free_of_findings(acid: AcidSession) -> None:
    acid.sql(CREATE.format("o", "PARTITIONED BY (p STRING)"))
    acid.sql("INSERT INTO o SELECT CAST(id AS INT), 'x', concat('a b%/', id % 2) FROM range(40)")
    acid.sql("UPDATE o SET name = 'y' WHERE id % 3 = 0")
    acid.sql("DELETE FROM o WHERE id % 5 = 0")
    acid.sql("INSERT INTO o VALUES (7, 'z', NULL)")
    assert acid.table("o").inspect.check() == ()
    assert acid.table("o").inspect.check({"p": "a b%/1"}) == ()
    acid.table("o").compact("minor")
    acid.table("o").compact("major")
    left = acid.table("o").inspect.check()
    assert {one.kind for one in left} <= {FindingKind.OBSOLETE}
    for kind in ("TEXTFILE", "PARQUET"):
        name = kind.lower()
        acid.sql(
            f"CREATE TABLE {name} (id INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS {kind} "
            "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
        )
        acid.sql(f"INSERT INTO {name} VALUES (1), (2), (3)")
        assert acid.table(name).inspect.check() == ()


def test_the_command_prints_what_is_wrong_and_ends_with_1(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    root = put(tmp_path / "t", GOOD | {f"{ONE}/bucket_00000": GOOD[f"{ONE}/bucket_00000"][:-9]})
    with hiveacid.connect(spark, warehouse=warehouse) as acid:
        adopted(acid, "t", "", root)
        acid.sql(CREATE.format("good", ""))
    run = CliRunner().invoke(main, ["check", "t", "-w", warehouse, "-o", "json"])
    assert run.exit_code == 1
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[0].keys() == {"severity", "code", "partition", "path", "message", "advice"}
    assert (lines[0]["severity"], lines[0]["code"]) == ("damage", "unreadable-file")
    assert lines[0]["path"] == f"{root}/{ONE}/bucket_00000"
    quick = CliRunner().invoke(main, ["check", "t", "-w", warehouse, "--quick"])
    assert quick.exit_code == 1
    assert f"damage unreadable-file: {root}/{ONE}/bucket_00000" in quick.stdout
    assert quick.stdout.endswith("t: 1 damage, 0 warnings, 0 notes\n")
    good = CliRunner().invoke(main, ["check", "good", "-w", warehouse])
    assert (good.exit_code, good.stdout) == (0, "good: nothing found\n")
    assert CliRunner().invoke(main, ["check", "nosuch", "-w", warehouse]).exit_code == 1
    assert CliRunner().invoke(main, ["check", "-w", warehouse]).exit_code == 2


def by_kind(found: tuple[Finding, ...]) -> dict[FindingKind, Finding]:
    return {one.kind: one for one in found}
