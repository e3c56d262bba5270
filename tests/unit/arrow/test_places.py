"""Reads and appends without Spark, with stores on servers, in object stores, and beside a cleaner of another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.arrow.table import ArrowTable
from hiveacid.arrow.warehouse import ArrowWarehouse, open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import Partition, TableName
from hiveacid.errors import ConfigError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.streaming import Connection
from support.directories.shelves import definition
from support.samples import CLIENT
from support.servers.absent import skip_without
from support.servers.object_store import WHY_NOT, s3_server

CREATE = "CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
T = TableName("default", "t")
ROWS = [{"id": number, "v": f"v{number}", "p": number % 2} for number in range(6)]
CLEAN = """
import sys, hiveacid
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
with hiveacid.open(sys.argv[1]) as warehouse:
    print(*sorted(path.rpartition("/")[2] for path in clean(warehouse.context)))
"""


def create(warehouse: str, store: str | None) -> None:
    opened, _ = open_store(warehouse, store, Settings(), SystemClock())
    opened.create_table(definition(CREATE, f"{warehouse}/t"))
    opened.close()


def copy(home: Path, root: str, store: str, fs: AnyFileSystem) -> None:
    """Make a table below ``root`` with the files of one below ``home``, and commit the write ids of its directories."""
    create(root, store)
    opened, _ = open_store(root, store, Settings(), SystemClock())
    # before the rows: a partition hides directories of write ids that ended before it was recorded
    opened.add_partitions(T, [Partition((p,), f"{root}/t/p={p}") for p in "01"])
    for _ in range(2):
        (txn_id,) = opened.open_txns(CLIENT)
        opened.allocate_write_ids([txn_id], T)
        opened.commit_txn(txn_id)
    opened.close()
    for file in home.glob("t/p=*/delta*/bucket*"):
        fs.write_bytes(f"{root}/{file.relative_to(home)}", file.read_bytes())


def write(table: ArrowTable) -> None:
    """Append the rows in two transactions."""
    for rows in (ROWS[:3], ROWS[3:]):
        assert table.append(pa.Table.from_pylist(rows, table.schema)) == len(rows)


def read(warehouse: ArrowWarehouse) -> None:
    """Read all of the table, parts of it, and its past."""
    table = warehouse.table("t")
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == ROWS
    assert table.count(where="p = 1 AND v <> 'v1'") == 2
    assert sorted(table.to_arrow(["id"], as_of=1).column("id").to_pylist()) == [0, 1, 2]
    ids = {tuple(row["ROW__ID"].values())[0::2] for row in table.to_arrow(["id"], row_ids=True).to_pylist()}
    assert ids == {(1, 0), (1, 1), (2, 0), (2, 1)}


@pytest.mark.parametrize("server", ["postgres_server", "mariadb_server", "mysql_server"])
def test_a_store_on_a_server(request: pytest.FixtureRequest, tmp_path: Path, server: str) -> None:
    url = request.getfixturevalue(server).make_database("arrow_places")
    (tmp_path / "t").mkdir()
    create(str(tmp_path), url)
    with open_warehouse(str(tmp_path), store=url) as warehouse:
        write(warehouse.table("t"))
        read(warehouse)


def test_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(WHY_NOT)
    with s3_server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        (tmp_path / "t").mkdir()
        create(str(tmp_path), None)
        with open_warehouse(str(tmp_path)) as local:
            write(local.table("t"))
        root, store = f"{server.make_bucket('lake')}/wh", f"sqlite:///{tmp_path}/store.db"
        copy(tmp_path, root, store, server.file_system())
        with open_warehouse(root, store=store) as warehouse:
            read(warehouse)


def test_a_missing_store_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no store at .*new b.db"):
        open_warehouse(str(tmp_path), store=f"sqlite:///{tmp_path}/new b.db")
    with pytest.raises(ConfigError, match="there is no warehouse at"):
        Connection("t", warehouse=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_missing_directory_of_a_shared_store_is_not_made(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shared.db"
    (tmp_path / "warehouse").mkdir()
    create(str(tmp_path / "warehouse"), store)
    with pytest.raises(ConfigError, match=r"there is no warehouse at .*misspelt"):
        open_warehouse(str(tmp_path / "misspelt"), store=store)
    assert not (tmp_path / "misspelt").exists()


def test_a_cleaner_of_another_process_leaves_the_files_of_a_reader(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    create(str(tmp_path), None)

    def clean() -> str:
        command = [sys.executable, "-c", CLEAN, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout.strip()

    with open_warehouse(str(tmp_path)) as warehouse:
        table = warehouse.table("t")
        write(table)
        reader = table.to_batches(batch_size=1)
        first = reader.read_next_batch().to_pylist()
        with (
            Connection("t", warehouse=str(tmp_path), overwrite=True) as connection,
            connection.transaction(),
        ):
            connection.write(pa.Table.from_pylist(ROWS[:2], table.schema))
        assert clean() == ""
        rest = reader.read_all().to_pylist()
        assert sorted(first + rest, key=lambda row: row["id"]) == ROWS
        warehouse.context.read_leases.sweep()
        assert clean() == " ".join(["delta_0000001_0000001_0000"] * 2 + ["delta_0000002_0000002_0000"] * 2)
        assert table.count() == 2
