"""Staged files on a local disk have no checksum files beside them; what Spark writes by itself keeps them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.spark.formats.file_columns import ORC
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write import write_tasks
from hiveacid.spark.write.write_tasks import save_frame, without_checksums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checksums(directory: Path) -> int:
    assert any(directory.rglob("part-*")), "nothing was written"
    return len(list(directory.rglob(".part-*.crc")))


def test_files_have_no_checksums_while_one_of_ours_is_written(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10)
    ours, within, after, remote = (tmp_path / name for name in ("ours", "within", "after", "remote"))
    with without_checksums(frame, str(ours)):
        frame.write.orc(str(ours))
        with without_checksums(frame, str(within)):
            frame.write.orc(str(within))
        frame.write.orc(str(within / "more"))
    frame.write.orc(str(after))
    with without_checksums(frame, "s3a://bucket/table"):
        frame.write.orc(str(remote))
    assert [checksums(one) > 0 for one in (ours, within, after, remote)] == [False, False, True, True]


def test_staged_files_are_written_so(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id AS c0", "id AS k")
    save_frame(SparkEnvironment(spark), frame, ORC, {"compression": "zlib"}, ["k"], str(tmp_path / "staged"))
    assert not checksums(tmp_path / "staged")


def test_nor_do_those_of_executors_have_any(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their file system is another object, which no call of the driver reaches."""
    monkeypatch.setattr(write_tasks, "driver_runs_tasks", lambda _: False)
    monkeypatch.setattr(write_tasks, "without_checksums", lambda *_: nullcontext())
    frame = spark.range(3).selectExpr("id AS c0", "id AS k")
    report = save_frame(
        SparkEnvironment(spark), frame, ORC, {"compression": "zlib"}, ["k"], str(tmp_path / "staged")
    )
    assert (report.rows, report.files) == (3, 3)
    assert not checksums(tmp_path / "staged")
    assert spark.read.orc(str(tmp_path / "staged")).count() == 3
    frame.write.orc(str(tmp_path / "others"))
    assert checksums(tmp_path / "others")
