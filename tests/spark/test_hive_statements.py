"""The page of Hive's statements: each example of tools/hive_statements.toml runs, or is refused with the error that the page shows."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from hiveacid.errors import HiveAcidError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

PARTS = tomllib.loads((Path(__file__).parents[2] / "tools" / "hive_statements.toml").read_text("utf-8"))[
    "part"
]
Run = Callable[[str], "DataFrame"]


def failures(run: Run, door: int, data: Path) -> list[str]:
    """Run all examples in turn; return those with another mark or another error. ``door``: the mark's place."""
    found = []
    for part in PARTS:
        for marks, text, *more in part["statements"]:
            mark = marks[door % len(marks)]
            filled = text.replace("/data/", f"{data}/")
            if text.startswith("ABORT TRANSACTIONS"):
                filled = f"ABORT TRANSACTIONS {run('SHOW TRANSACTIONS').collect()[0]['txnid']}"
            error = outcome(run, filled)
            if mark == "✘" and isinstance(error, HiveAcidError):
                code, message = more
                shown = str(error).replace(f"{data}/", "/data/")
                if error.code != code or message not in shown:
                    found.append(f"{text}\n   {error.code} {shown}")
            elif error is not None or mark == "✘":
                found.append(f"{text}\n   {mark}, but {error!r}")
    return found


def outcome(run: Run, text: str) -> Exception | None:
    try:
        run(text).collect()
    except (HiveAcidError, PySparkException) as error:
        return error
    return None


@pytest.fixture
def data(spark: SparkSession, tmp_path: Path) -> Path:
    """Return a directory with the files that the examples read."""
    found = tmp_path / "data"
    rows = spark.range(3).selectExpr("CAST(id AS INT) AS id", "'loaded' AS msg")
    rows.coalesce(1).write.orc(str(found))
    file = next(found.glob("*.orc"))
    shutil.copy(file, found / "load.orc")
    file.rename(found / "rows.orc")
    (found / "load.csv").write_text("1,tea\n")
    return found


def test_by_acid_sql(acid: AcidSession, data: Path) -> None:
    found = failures(acid.sql, 0, data)
    assert not found, "\n".join(found)


def test_by_spark_sql(native: NativeSession, data: Path) -> None:
    found = failures(native.sql, 1, data)
    assert not found, "\n".join(found)


def test_each_mark_has_many_examples() -> None:
    marks = [statement[0][0] for part in PARTS for statement in part["statements"]]
    assert min(marks.count("✔"), marks.count("✘")) > 80
    assert set(marks) == {"✔", "◐", "✘", "."}
