"""Chains of Hive's statements and ours on every kind of table; after each of them both see what the model says.

HIVEACID_TEST_CHAINS=plain,4.0.1:partitioned takes these kinds of tables, the second for that version only,
HIVEACID_TEST_CHAINS=2 two for each version, as HIVEACID_TEST_SEED (1) draws them. Words with hdfs or s3 are those of
test_hive_places.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from hive_chains import KINDS, Chain, Kind, steps, wanted_chains
from hive_client import Hive
from hive_install import VERSIONS
from hive_server import HiveServers

from hiveacid.core.model import TableName
from hiveacid.errors import CompactionRefusedError, WriteConflictError
from hiveacid.ports.transactions import Operation, Start, Written
from hiveacid.stores.hms.definitions import ACCURATE
from hiveacid.streaming import Connection
from support.exhaustive import steady_seed
from support.samples import CLIENT

if TYPE_CHECKING:
    from hiveacid import AcidSession


CLEANS = True


def drawn(version: str) -> set[str]:
    wanted = wanted_chains(elsewhere=False)
    names = [kind.name for kind in KINDS]
    if "".join(wanted).isdecimal():
        count = min(int(wanted[0]), len(names))
        return set(Random(f"{steady_seed()} {version}").sample(names, count))
    words = [word.rpartition(":") for word in wanted]
    return {name for only, _, name in words if only in ("", version)} if wanted else set(names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_chain(kind: Kind, acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    if kind.name not in drawn(hive.version):
        pytest.skip(f"HIVEACID_TEST_CHAINS is {','.join(wanted_chains(elsewhere=False))}")
    Chain(kind, f"chain_{kind.name}", acid, session, hive).run(steps(kind))


def test_chains_are_long_and_both_engines_write() -> None:
    for version in VERSIONS:  # a name that is none would leave everything out
        assert drawn(version) <= {kind.name for kind in KINDS}
    for kind in KINDS:
        chain = steps(kind)
        assert len(chain) >= 12, kind
        assert {step[0] for step in chain} == {"O", "T"}


def _parameters(acid: AcidSession, name: str) -> dict[str, dict[str, str]]:
    """Return what the metastore keeps of each partition ("": the table without partitions)."""
    store = acid.context.store
    raw = store._raw(TableName("default", name))
    if not raw.partitionKeys:
        return {"": raw.parameters}
    found = store.client.call("get_partitions", "default", name, -1)
    return {one.values[0]: one.parameters for one in found}


def _require_counts(acid: AcidSession, name: str, after: str) -> None:
    place = "p" if acid.table(name).definition.partition_columns else "''"
    rows = acid.sql(f"SELECT {place}, count(*) FROM {name} GROUP BY {place}").collect()
    true = dict.fromkeys(_parameters(acid, name), 0) | {row[0]: row[1] for row in rows}
    assert {place: int(one["numRows"]) for place, one in _parameters(acid, name).items()} == true, after


def _compact_by_hive(acid: AcidSession, session: Hive, name: str, how: str) -> None:
    """Wait for Hive's worker, and for its ANALYZE … NOSCAN, which marks a count as exact; compare the counts."""
    for place in _parameters(acid, name):
        partition = f"PARTITION (p='{place}')" if place else ""
        try:
            (report,) = acid.sql(f"ALTER TABLE {name} {partition} COMPACT '{how}' AND WAIT").collect()
        except CompactionRefusedError:  # nothing to compact, and so no mark
            continue
        assert report.state in ("ready for cleaning", "succeeded"), report
        end = time.monotonic() + 120
        while "BASIC_STATS" not in _parameters(acid, name)[place].get(ACCURATE, ""):
            assert time.monotonic() < end, _parameters(acid, name)
            time.sleep(0.1)
    _require_counts(acid, name, how)
    true = acid.sql(f"SELECT count(*) FROM {name}").first()[0]
    session.sql("SET hive.compute.query.using.stats=true")
    assert session.sql(f"SELECT count(*) FROM {name}") == [(true,)]
    session.sql("SET hive.compute.query.using.stats=false")


_MERGE = (
    "MERGE INTO counted t USING (SELECT 1 AS id UNION ALL SELECT 3 UNION ALL SELECT 9) s ON t.id = s.id "
    "WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm' "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', 'z')"
)


def test_both_engines_keep_the_row_counts(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """Hive 4's compaction marks counts as exact without counting: each writer has to add its rows (test_hive_statistics)."""
    if hive.is_hive3:
        pytest.skip("Hive 3 takes no answer about transactional tables from statistics")
    acid.sql(
        "CREATE TABLE counted (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("ALTER TABLE counted ADD PARTITION (p='w')")
    for ours, statement in (
        (
            True,
            "INSERT INTO counted VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y'), (4, 'd', 'y'), (15, 'i', 'w'), (8, 'h', 'z')",
        ),
        (False, "INSERT INTO counted PARTITION (p) VALUES (5, 'e', 'x'), (6, 'f', 'y'), (7, 'g', 'w')"),
        (True, "UPDATE counted SET v = 'u' WHERE id IN (2, 5)"),
        (True, "DELETE FROM counted WHERE id = 4"),
        (False, "DELETE FROM counted WHERE id = 5"),
        (True, _MERGE),
    ):
        acid.sql(statement) if ours else session.sql(statement)
        _require_counts(acid, "counted", statement)
    store, name = acid.context.store, TableName("default", "counted")
    first, second = [store.begin_txn(CLIENT, Start((), (name,), (name,))) for _ in range(2)]
    store.commit_txn(first.txn_id, written=[Written(name, "p=x", Operation.UPDATE, 0)])
    with pytest.raises(WriteConflictError):
        store.commit_txn(second.txn_id, written=[Written(name, "p=x", Operation.UPDATE, -1)])
    _require_counts(acid, "counted", "a conflict")
    _compact_by_hive(acid, session, "counted", "minor")


@pytest.mark.parametrize("kind", ["default", "insert_only"])
def test_row_counts_of_tables_without_partitions(
    acid: AcidSession, session: Hive, hive: HiveServers, kind: str
) -> None:
    if hive.is_hive3:
        pytest.skip("Hive 3 takes no answer about transactional tables from statistics")
    properties = f"'transactional'='true', 'transactional_properties'='{kind}'"
    acid.sql(f"CREATE TABLE flat (a INT) STORED AS ORC TBLPROPERTIES ({properties})")
    acid.sql("INSERT INTO flat VALUES (1), (2), (3)")
    session.sql("INSERT INTO flat VALUES (4)")
    with Connection("flat", store=hive.url) as stream:
        stream.begin_transaction()
        stream.write([{"a": 5}, {"a": 6}])
        stream.commit()
    _require_counts(acid, "flat", "a stream")
    _compact_by_hive(acid, session, "flat", "major")
    acid.sql("DROP TABLE flat")
    acid.sql(f"CREATE TABLE flat STORED AS ORC TBLPROPERTIES ({properties}) AS SELECT id AS a FROM range(5)")
    session.sql("INSERT INTO flat VALUES (4)")
    _compact_by_hive(acid, session, "flat", "major")
    acid.sql("DROP TABLE flat")
