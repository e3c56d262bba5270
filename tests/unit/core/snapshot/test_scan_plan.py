"""Row ids of files without ACID columns, as Hive numbers them (``TestTxnNoBuckets``, multi-level conversion)."""

from __future__ import annotations

from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.scan_plan import number_originals
from hiveacid.core.snapshot.selection import AcidDirectory

BUCKET_0, BUCKET_1 = 1 << 29, 1 << 29 | 1 << 16


def numbered(rows: dict[str, int], directory: AcidDirectory | None = None) -> dict[str, tuple[int, int, int]]:
    files = [DataFile(path, 100) for path in rows]
    found = number_originals(files, rows, directory)
    return {one.file.path: (one.write_id, one.bucket_property, one.first_row_id) for one in found}


def test_row_ids_run_on_through_all_files_of_a_bucket_in_the_order_of_their_paths() -> None:
    """Union sub-directories are one bucket with the root: else two rows would have one id."""
    rows = {
        "HIVE_UNION_SUBDIR_1/000000_0": 2,
        "HIVE_UNION_SUBDIR_2/000000_0": 1,
        "HIVE_UNION_SUBDIR_2/000001_0": 1,
        "HIVE_UNION_SUBDIR_3/000000_0": 1,
        "HIVE_UNION_SUBDIR_15/000000_0": 2,
        "HIVE_UNION_SUBDIR_16/000000_0": 1,
        "HIVE_UNION_SUBDIR_16/000001_0": 1,
        "000000_0": 1,
    }
    assert numbered(rows) == {
        "000000_0": (0, BUCKET_0, 0),
        "HIVE_UNION_SUBDIR_1/000000_0": (0, BUCKET_0, 1),
        "HIVE_UNION_SUBDIR_15/000000_0": (0, BUCKET_0, 3),
        "HIVE_UNION_SUBDIR_16/000000_0": (0, BUCKET_0, 5),
        "HIVE_UNION_SUBDIR_2/000000_0": (0, BUCKET_0, 6),
        "HIVE_UNION_SUBDIR_3/000000_0": (0, BUCKET_0, 7),
        "HIVE_UNION_SUBDIR_16/000001_0": (0, BUCKET_1, 0),
        "HIVE_UNION_SUBDIR_2/000001_0": (0, BUCKET_1, 1),
    }


def test_copies_count_in_the_order_of_their_names_as_texts() -> None:
    found = numbered({"000000_0": 1, "000000_0_copy_2": 1, "000000_0_copy_10": 1})
    assert [found[name][2] for name in ("000000_0", "000000_0_copy_10", "000000_0_copy_2")] == [0, 1, 2]


def test_a_directory_gives_its_write_id_and_its_statement() -> None:
    loaded = DeltaName(False, WriteId(7), WriteId(7), 3)
    delta = AcidDirectory(loaded.format(), loaded, (), RangeShare.ALL, may_lack_acid_columns=True)
    assert numbered({f"{delta.path}/000001_0": 5}, delta) == {f"{delta.path}/000001_0": (7, BUCKET_1 | 3, 0)}
    base = AcidDirectory("base_0000009", BaseName(WriteId(9)), (), RangeShare.ALL, may_lack_acid_columns=True)
    assert numbered({"base_0000009/000000_0": 5}, base) == {"base_0000009/000000_0": (9, BUCKET_0, 0)}
