"""Hive counts from statistics where it believes them: after each of our statements its answer is still the right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hive_client import Hive
from hive_server import HiveServers

from hiveacid.core.model import Partition, TableName
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Begun, Operation, Start
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.store import MetastoreStore
from support.samples import CLIENT, table, wrote

if TYPE_CHECKING:
    from hiveacid import AcidSession

_ANALYZE = ("ANALYZE TABLE {} COMPUTE STATISTICS", "ANALYZE TABLE {} COMPUTE STATISTICS FOR COLUMNS")

_MERGE = (
    "MERGE INTO counted t USING (SELECT 1 AS id UNION ALL SELECT 9) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', 'y')"
)


SETTING = "hive.compute.query.using.stats=true"


def test_counts_after_every_kind_of_statement(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    """Partitioned, one partition in a place of its own, names in upper case; exact statistics before each turn."""
    session.sql(
        "CREATE TABLE Counted (Id INT, V STRING) PARTITIONED BY (P STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    session.sql("INSERT INTO counted PARTITION (p) VALUES (1,'a','x'),(2,'b','x'),(3,'c','y')")
    acid.sql(  # 3.1.3 would load files from there
        f"ALTER TABLE counted ADD PARTITION (p='z') LOCATION 'file://{hive.place}/warehouse/of_its_own'"
    )
    turns = (
        ("INSERT INTO COUNTED PARTITION (P) VALUES (4,'d','x'), (5,'e','new')", 5, 5),
        ("INSERT INTO counted PARTITION (p='z') VALUES (6,'f')", 6, 6),
        ("UPDATE counted SET v = 'u' WHERE id IN (1, 6)", 6, 6),
        ("DELETE FROM counted WHERE id = 6", 5, 5),
        (_MERGE, 5, 9),
        ("INSERT OVERWRITE TABLE counted PARTITION (p) SELECT id + 10, v, p FROM counted WHERE p = 'y'", 5, 19),
        ("INSERT OVERWRITE TABLE counted PARTITION (p='x') VALUES (30, 'o')", 4, 30),
        ("TRUNCATE TABLE counted PARTITION (p='x')", 3, 19),
        ("ALTER TABLE counted DROP PARTITION (p='y')", 1, 5),
        ("TRUNCATE TABLE counted", 0, None),
    )  # fmt: skip
    for statement, rows, largest in turns:
        for analyze in _ANALYZE:
            session.sql(analyze.format("counted PARTITION (p)"))
        acid.sql(statement)
        assert session.sql("SELECT count(*), max(id) FROM counted") == [(rows, largest)], statement
    session.sql("INSERT INTO counted PARTITION (p='x') VALUES (1,'a')")
    assert session.sql("SELECT count(*), max(id) FROM counted") == [(1, 1)]


def test_counts_of_a_table_without_partitions(acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    acid.sql("CREATE TABLE flat_count STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 7 AS a")
    assert session.sql("SELECT count(*), max(a) FROM flat_count") == [(1, 7)]
    for analyze in _ANALYZE:
        session.sql(analyze.format("flat_count"))
    acid.sql("INSERT INTO flat_count VALUES (8), (9)")
    acid.sql("DELETE FROM flat_count WHERE a = 7")
    assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(2, 8)]
    if not hive.is_hive3:
        for analyze in _ANALYZE:
            session.sql(analyze.format("flat_count"))
        acid.set("hiveacid.compactor.here", "true")
        acid.sql("ALTER TABLE flat_count COMPACT 'major'")
        acid.set("hiveacid.compactor.here", "false")
        assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(2, 8)]
    acid.sql("INSERT OVERWRITE TABLE flat_count SELECT a FROM flat_count WHERE a = 9")
    assert session.sql("SELECT count(*), min(a) FROM flat_count") == [(1, 9)]


@pytest.fixture
def store(hive: HiveServers) -> Iterator[MetastoreStore]:
    if hive.is_hive3:
        pytest.skip(
            "Hive 3 takes no answer about transactional tables from statistics, and keeps no write id with them"
        )
    made = MetastoreStore(hive.url)
    yield made
    made.close()


class Analysis:
    """ANALYZE TABLE, by the calls that it makes: it begins, counts for as long as it takes, and says what it counted.

    ``partition``: its values; None for a table without partitions.
    """

    def __init__(self, store: MetastoreStore, name: TableName, partition: tuple[str, ...] | None) -> None:
        self.store, self.name, self.partition = store, name, partition
        self.begun: Begun = store.begin_txn(CLIENT, Start((), (name,), (name,)))

    def end(self) -> bool:
        """Store that the count is exact, and commit; tell whether it is left so."""
        own = self.begun.allocated[self.name]
        seen = self.begun.write_ids[self.name].with_own(own).to_string()
        raw = self._raw()
        raw.parameters = (raw.parameters or {}) | {
            "numRows": "5",
            definitions.ACCURATE: '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}',
        }
        raw.writeId = own
        fields = {
            "dbName": self.name.database,
            "tableName": self.name.name,
            "environmentContext": protocol.EnvironmentContext(properties=dict(definitions.QUIET)),
            "writeId": own,
            "validWriteIdList": seen,
        }
        if self.partition is None:
            self.store.client.call("alter_table_req", protocol.AlterTableRequest(table=raw, **fields))
        else:
            request = protocol.AlterPartitionsRequest(partitions=[raw], **fields)
            self.store.client.call("alter_partitions_req", request)
        self.store.commit_txn(self.begun.txn_id)
        return "BASIC_STATS" in (self._raw().parameters or {}).get(definitions.ACCURATE, "")

    def _raw(self) -> Any:
        if self.partition is None:
            return self.store._raw(self.name)
        every = self.store.client.call("get_partitions", self.name.database, self.name.name, -1)
        return next(one for one in every if tuple(one.values) == self.partition)


@pytest.mark.parametrize("partition", [None, ("2026-11-22", "oslo")])
def test_an_analysis_that_began_before_us_makes_no_count_exact(
    hive: HiveServers, store: MetastoreStore, partition: tuple[str, ...] | None
) -> None:
    """It ends after our commit, of whose rows it knows nothing; the next one counts them."""
    name = TableName("default", f"analysed_{'flat' if partition is None else 'parts'}")
    made = replace(
        table(name, f"{hive.place}/warehouse/{name.name}"),
        bucketing=None,
        comment=None,
        properties=(("transactional", "true"),),
    )
    store.create_table(made if partition else replace(made, partition_columns=()))
    place = None
    if partition:
        place = f"dt={partition[0]}/city={partition[1]}"
        store.add_partitions(name, [Partition(partition, f"{made.location}/{place}")])

    def insert(meanwhile: Callable[[], None]) -> None:
        ours = store.begin_txn(CLIENT, Start((), (name,), (name,)))
        meanwhile()
        store.commit_txn(ours.txn_id, written=[wrote(name, Operation.INSERT, place)])

    assert Analysis(store, name, partition).end()
    early = Analysis(store, name, partition)
    insert(lambda: None)  # takes the mark of the first one off
    assert not early.end()
    again = Analysis(store, name, partition)
    insert(lambda: None)  # finds no mark
    assert not again.end()
    assert Analysis(store, name, partition).end()
    while_we_write: list[Analysis] = []
    insert(lambda: while_we_write.append(Analysis(store, name, partition)))
    assert not while_we_write[0].end()
    if partition:
        new = ("2026-11-23", "oslo")
        fresh = f"dt={new[0]}/city={new[1]}"
        ours = store.begin_txn(CLIENT, Start((), (name,), (name,)))
        store.add_partitions(name, [Partition(new, f"{made.location}/{fresh}")])
        early = Analysis(store, name, new)
        changes = CatalogChanges(partitions=(NewPartition(name, Partition(new, f"{made.location}/{fresh}")),))
        store.commit_txn(ours.txn_id, changes, [wrote(name, Operation.INSERT, fresh)])
        assert not early.end()
    assert Analysis(store, name, partition).end()
    store.drop_table(name)
