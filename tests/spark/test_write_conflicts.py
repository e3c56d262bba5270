"""What an UPDATE that loses to other writers again and again says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.errors import WriteConflictError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.staging import staging_txn_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


class Interrupted(LocalFileSystem):
    """A file system that runs ``action`` after each statement has published its files, before its commit."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self._action = action

    def delete_tree(self, path: str) -> None:
        super().delete_tree(path)
        if staging_txn_id(path.rpartition("/")[2]) is not None:
            self._action()


def test_a_statement_that_always_loses_says_how_often_it_was_tried(
    spark: SparkSession, tmp_path: Path
) -> None:
    acid, other = (hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) for _ in range(2))
    try:
        acid.sql("CREATE TABLE t (id INT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
        acid.sql("INSERT INTO t VALUES (1, 0)")
        acid.sql("SET hive.txn.retrysnapshot.max.count=1")
        acid.context.fs = Interrupted(lambda: other.sql("UPDATE t SET n = n + 1"))
        with pytest.raises(WriteConflictError) as raised:
            acid.sql("UPDATE t SET n = 100")
        text = str(raised.value)
        assert "UPDATE on default.t was tried 2 times" in text
        assert "hive.txn.retrysnapshot.max.count, now 1" in text
        assert "hive.txn.xlock.write=true" in text
        assert "Aborting [txnid:" in text
        assert [tuple(row) for row in other.sql("SELECT * FROM t").collect()] == [(1, 2)]
    finally:
        acid.close()
        other.close()
