"""LOAD DATA and conversions that die at any step: the table is as before or as after, and no file is lost.

Deaths are simulated as in `test_crash.py`: from the point on the dead session reaches neither disk nor store, and to
others it has been silent for an hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.corpus.acid_files import orc_bytes
from support.crash.faults import Faults, Moment, SimulatedCrash, crash, faulty
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

pytestmark = pytest.mark.usefixtures("without_heartbeats")

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
SCHEMA = "struct<a:int,b:string>"
FULL = "('transactional'='true')"
INSERT_ONLY = "('transactional'='true', 'transactional_properties'='insert_only')"
# verb, which of its calls (from the end where negative), when; whether the statement has happened then
LOAD = (
    ("fs.link_file", 1, BEFORE, False),
    ("fs.link_file", 1, AFTER, False),
    ("store.commit_txn", 1, BEFORE, False),
    ("store.commit_txn", 1, AFTER, True),
    ("fs.delete_tree", -2, AFTER, True),
)
TO_FULL = (("store.commit_txn", 1, BEFORE, False), ("store.commit_txn", 1, AFTER, True))
TO_INSERT_ONLY = (
    ("store.alter_table", 1, AFTER, False),
    ("fs.link_file", 1, AFTER, False),
    ("store.commit_txn", 1, BEFORE, False),
    ("store.commit_txn", 1, AFTER, True),
    ("fs.delete_listed", 1, BEFORE, True),
    ("fs.delete_listed", 1, AFTER, True),
)


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("crash")))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def late_store(warehouse: AcidSession) -> Iterator[SqlStore]:
    """Return the store as a session knows it that has not been heard of for an hour."""
    url = f"sqlite:///{warehouse.context.warehouse}/.hiveacid/store.db"
    store = SqlStore(url, clock=ManualClock(warehouse.context.clock.now() - 3_600_000))
    yield store
    store.close()


def rows(acid: AcidSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in acid.table(name).to_df().select("a", "b").collect())


def dies(acid: AcidSession, store: SqlStore, statement: str, verb: str, nth: int, moment: Moment) -> None:
    faults = Faults()
    faults.at(verb, nth, moment, crash)
    with pytest.raises(SimulatedCrash):
        faulty(acid, faults, store).sql(statement)


def calls(acid: AcidSession, store: SqlStore, statement: str) -> Counter[str]:
    """Run a statement, alive; count what it does."""
    faults = Faults()
    faulty(acid, faults, store).sql(statement)
    return Counter(faults.calls)


def which(count: int, nth: int) -> int:
    return nth if nth > 0 else count + 1 + nth


@pytest.mark.exhaustive("another case of the same test stays", cases=("insert_only",))
@pytest.mark.parametrize("properties", [FULL, INSERT_ONLY], ids=["full", "insert_only"])
def test_load_data_is_done_or_never_was(
    warehouse: AcidSession, late_store: SqlStore, tmp_path: Path, properties: str
) -> None:
    counts: Counter[str] = Counter()
    for number, (verb, nth, moment, happened) in enumerate((("alive", 0, AFTER, True), *sample(LOAD, 2))):
        name, source = f"l{number}_{len(properties)}", tmp_path / f"s{number}"
        warehouse.sql(f"CREATE TABLE {name} (a INT, b STRING) STORED AS ORC TBLPROPERTIES {properties}")
        source.mkdir()
        for n in (1, 2):
            (source / f"f{n}").write_bytes(orc_bytes([(n, "loaded")], SCHEMA))
        statement = f"LOAD DATA INPATH '{source}' INTO TABLE {name}"
        if verb == "alive":
            counts = calls(warehouse, late_store, statement)
            assert sorted(source.iterdir()) == []
        else:
            dies(warehouse, late_store, statement, verb, which(counts[verb], nth), moment)
        loaded = [(n, "loaded") for n in (1, 2)]
        assert rows(warehouse, name) == (loaded if happened else []), (verb, nth, moment)
        if not happened:
            assert [path.name for path in sorted(source.iterdir())] == ["f1", "f2"]
            warehouse.sql(statement)
            assert rows(warehouse, name) == loaded
        elif (
            moment is AFTER and verb == "store.commit_txn"
        ):  # docs/limits.md: the next LOAD DATA would take them again
            assert [path.name for path in sorted(source.iterdir())] == ["f1", "f2"]
            root = Path(warehouse.table(name).definition.location)
            taken = {path.stat().st_ino for path in root.rglob("*")}
            assert taken >= {path.stat().st_ino for path in source.iterdir()}
        if properties == FULL:
            warehouse.sql(f"UPDATE {name} SET b = 'changed' WHERE a = 2")
            assert rows(warehouse, name) == [loaded[0], (2, "changed")]
        warehouse.clean()
        root = Path(warehouse.table(name).definition.location)
        assert len(list(root.glob("delta_*"))) == (2 if properties == FULL else 1)
        warehouse.sql(f"DROP TABLE {name}")


@pytest.mark.exhaustive("the conversion with more steps stays", cases=("full",))
@pytest.mark.parametrize(
    ("properties", "points"), [(FULL, TO_FULL), (INSERT_ONLY, TO_INSERT_ONLY)], ids=["full", "insert_only"]
)
def test_a_conversion_is_done_or_never_was(
    warehouse: AcidSession,
    late_store: SqlStore,
    properties: str,
    points: tuple[tuple[str, int, Moment, bool], ...],
) -> None:
    counts: Counter[str] = Counter()
    for number, (verb, nth, moment, happened) in enumerate((("alive", 0, AFTER, True), *sample(points, 3))):
        name = f"c{number}_{len(properties)}"
        warehouse.sql(f"CREATE TABLE {name} (a INT, b STRING) STORED AS ORC")
        root = Path(warehouse.table(name).definition.location)
        for n in (1, 2):
            file = "000000_0" if n == 1 else "000000_0_copy_1"
            (root / file).write_bytes(orc_bytes([(n, "old")], SCHEMA))
        statement = f"ALTER TABLE {name} SET TBLPROPERTIES {properties}"
        if verb == "alive":
            counts = calls(warehouse, late_store, statement)
        else:
            dies(warehouse, late_store, statement, verb, which(counts[verb], nth), moment)
        expected = [(n, "old") for n in (1, 2)]
        assert rows(warehouse, name) == expected, (verb, nth, moment)
        is_converted = warehouse.table(name).definition.property("transactional") == "true"
        assert is_converted == happened, (verb, nth, moment)
        if not happened:
            warehouse.sql(statement)
            assert rows(warehouse, name) == expected
        warehouse.sql(f"INSERT INTO {name} VALUES (3, 'new')")
        assert rows(warehouse, name) == [*expected, (3, "new")]
        warehouse.clean()
        assert rows(warehouse, name) == [*expected, (3, "new")]
        warehouse.table(name).compact("major")
        assert rows(warehouse, name) == [*expected, (3, "new")]
        warehouse.clean()
        assert [path.name for path in root.iterdir() if path.is_file()] == []
        warehouse.sql(f"DROP TABLE {name}")
