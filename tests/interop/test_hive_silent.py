"""Trino tells a metastore nothing about the partitions that its UPDATE changes; lost updates are found all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hive_server import HiveServers

import hiveacid
from hiveacid.errors import WriteConflictError
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.staging import staging_txn_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

SHARED_READ = 1  # on the wire
CREATE = "CREATE TABLE {} (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture(scope="module")
def silent(hive: HiveServers, spark: SparkSession) -> Iterator[AcidSession]:
    """Return a connection that locks as Trino does, and does not say either which partitions a statement changed."""
    connection = hiveacid.connect(spark, store=hive.url)
    client: Any = connection.context.store.client  # type: ignore[attr-defined]
    call = client.call

    def calling(method: str, *values: Any) -> object:
        if method == "lock":
            for one in values[0].component:
                one.type = SHARED_READ
        return None if method == "add_dynamic_partitions" else call(method, *values)

    client.call = calling
    yield connection
    connection.close()


def made(acid: AcidSession, name: str) -> None:
    acid.sql(CREATE.format(name))
    acid.sql(f"INSERT INTO {name} PARTITION (p='a') VALUES (1, 'one'), (2, 'two')")
    acid.sql(f"INSERT INTO {name} PARTITION (p='b') VALUES (3, 'three')")


def rows(acid: AcidSession, name: str) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in acid.sql(f"SELECT id, v FROM {name}").collect())


def test_a_silent_update_of_the_same_partition_is_a_conflict(acid: AcidSession, silent: AcidSession) -> None:
    made(acid, "silent_one")
    with acid.transaction() as txn:
        txn.sql("UPDATE silent_one SET v = 'mine' WHERE id = 1")
        silent.sql("UPDATE silent_one SET v = 'theirs' WHERE id = 1")
        inside = txn.joined
        assert inside is not None
        with pytest.raises(WriteConflictError, match=r"another engine changed rows of .*p=a"):
            inside.commit()
    assert rows(acid, "silent_one") == [(1, "theirs"), (2, "two"), (3, "three")]


def test_silent_inserts_deletes_and_other_partitions_are_none(acid: AcidSession, silent: AcidSession) -> None:
    made(acid, "silent_two")
    with acid.transaction() as txn:
        txn.sql("UPDATE silent_two SET v = 'mine' WHERE id = 1")
        silent.sql("INSERT INTO silent_two PARTITION (p='a') VALUES (4, 'four')")
        silent.sql("UPDATE silent_two SET v = 'theirs' WHERE id = 3")
    with acid.transaction() as txn:
        txn.sql("DELETE FROM silent_two WHERE id = 1")
        silent.sql("DELETE FROM silent_two WHERE id = 1")
    assert rows(acid, "silent_two") == [(2, "two"), (3, "theirs"), (4, "four")]


def test_a_statement_runs_again_after_a_silent_update(
    acid: AcidSession, silent: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(acid, "silent_three")
    done: list[str] = []

    def delete_tree(self: AnyFileSystem, path: str) -> None:
        removed(self, path)
        if self is acid.context.fs and not done and staging_txn_id(path.rpartition("/")[2]) is not None:
            done.append(path)
            silent.sql("UPDATE silent_three SET v = concat(v, ' theirs') WHERE id = 1")

    removed = AnyFileSystem.delete_tree
    monkeypatch.setattr(AnyFileSystem, "delete_tree", delete_tree)
    report = acid.table("silent_three").update({"v": "concat(v, ' mine')"}, where="id < 3")
    assert done
    assert report.retries == 1
    assert rows(acid, "silent_three") == [(1, "one theirs mine"), (2, "two mine"), (3, "three")]
