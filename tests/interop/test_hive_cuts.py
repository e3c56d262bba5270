"""A metastore that goes away in the middle of our statements: a clear error or success, and never a wrong state.

Every call of a statement is cut twice, before it and after the metastore has carried it out; HIVEACID_TEST_COUNT=4 takes
four cuts of each statement, as HIVEACID_TEST_SEED (1) draws them, and the two at the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest
from cutting_proxy import Cut, CuttingProxy
from hive_server import HiveServers

import hiveacid
from hiveacid.core.model import TableName
from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StoreUnavailableError
from hiveacid.stores.limits import RetryDeadlines
from support.exhaustive import COUNT, steady_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

STATEMENTS = {
    "insert": "INSERT INTO cut PARTITION (p) VALUES ({n}, 'new', 'a')",
    "new_partition": "INSERT INTO cut PARTITION (p) VALUES ({n}, 'new', 'n{n}')",
    "update": "UPDATE cut SET v = 'v{n}' WHERE p = 'a'",
    "delete": "DELETE FROM cut WHERE id = {last}",
    "overwrite": "INSERT OVERWRITE TABLE cut PARTITION (p='o') VALUES ({n}, 'over'), (0, 'zero')",
}
Rows = frozenset[tuple[int, str, str]]


@dataclass
class Cutting:
    """A table of a metastore that can go away, seen through the proxy and past it."""

    proxy: CuttingProxy
    servers: HiveServers
    through: AcidSession
    past: AcidSession
    number: int = 10

    def rows(self) -> Rows:
        found = [tuple(row) for row in self.past.sql("SELECT id, v, p FROM cut").collect()]
        assert len(set(found)) == len(found)
        return frozenset(found)

    def expected(self, name: str, rows: Rows) -> Rows:
        n = self.number
        if name == "insert":
            return rows | {(n, "new", "a")}
        if name == "new_partition":
            return rows | {(n, "new", f"n{n}")}
        if name == "update":
            return frozenset((key, f"v{n}" if p == "a" else v, p) for key, v, p in rows)
        if name == "delete":
            return frozenset(row for row in rows if row[0] != max(key for key, _, _ in rows))
        return frozenset(row for row in rows if row[2] != "o") | {(n, "over", "o"), (0, "zero", "o")}

    def run(self, name: str, cut: Cut | None) -> HiveAcidError | None:
        """Run a statement with a cut; look at the rows, and at what is left open."""
        self.number += 1
        before = self.rows()
        after = self.expected(name, before)
        last = max(key for key, _, _ in before)
        self.proxy.arm(cut)
        error = None
        try:
            self.through.sql(STATEMENTS[name].format(n=self.number, last=last))
        except HiveAcidError as raised:
            error = raised
        self.proxy.mend()
        what = f"{name} {cut}: {error!r}, calls {self.proxy.calls}, unanswered {self.proxy.unanswered}"
        self.end_what_is_left(cut, what)
        seen = self.rows()
        if error is None:
            assert seen == after, what
        elif isinstance(error, CommitStateUnknownError):
            assert cut is not None, what
            assert self.proxy.struck == "commit_txn", what
            assert seen in (before, after), what
        else:
            assert seen == before, what
        return error

    def end_what_is_left(self, cut: Cut | None, what: str) -> None:
        """Check that nothing is left open that could be ended; abort the rest, as the metastore's time-out does."""
        self.past.context.read_leases.close()
        self.through.context.read_leases.close()
        store = self.past.context.store
        left = [row.txn_id for row in store.show_transactions() if row.state == "OPEN"]
        gone = cut is not None and (not cut.blink or cut.also is not None)
        # opened, and its number was not heard: by the call that was cut, or by that of another thread at the same moment
        unheard = self.proxy.unanswered.count("open_txns")
        assert len(left) <= unheard or gone, what
        store.abort_txns(left, "silent")
        assert store.show_locks() == (), what


@pytest.fixture(scope="module")
def cutting(hive: HiveServers, spark: SparkSession) -> Iterator[Cutting]:
    past = hiveacid.connect(spark, store=hive.url)
    past.sql(
        "CREATE TABLE cut (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    past.sql(
        "INSERT INTO cut PARTITION (p) VALUES (1,'one','a'),(2,'two','a'),(3,'three','b'),(4,'four','o')"
    )
    proxy = CuttingProxy(hive.hms_port)
    through = hiveacid.connect(spark, store=f"thrift://127.0.0.1:{proxy.port}?timeout=60")
    through.sql("INSERT INTO cut PARTITION (p='b') VALUES (5,'five')")  # what a connection asks once is asked
    yield Cutting(proxy, hive, through, past)
    through.close()
    past.close()
    proxy.close()


def drawn(name: str, calls: list[str]) -> list[Cut]:
    every = [Cut(number, after) for number in range(1, len(calls) + 1) for after in (False, True)]
    if not 0 < COUNT < len(every):
        return every
    commit = calls.index("commit_txn") + 1
    some = Random(f"{steady_seed()} {name}").sample(every, COUNT)
    others = (cut for cut in some if cut.call != commit)
    return [*others, Cut("commit_txn", after=False), Cut("commit_txn", after=True)]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_cut_at_each_call(cutting: Cutting, name: str) -> None:
    """The server is there again at once: most statements do not notice."""
    assert cutting.run(name, None) is None
    calls = list(cutting.proxy.calls)
    before = cutting.proxy.cuts
    cuts = drawn(name, calls)
    for cut in cuts:
        cutting.run(name, cut)
    assert cutting.proxy.cuts > before


def test_a_cut_leaves_no_table_without_rows(cutting: Cutting) -> None:
    """CREATE TABLE AS SELECT makes the table just before its commit."""

    def run(name: str, cut: Cut | None) -> None:
        cutting.proxy.arm(cut)
        error = None
        try:
            cutting.through.sql(
                f"CREATE TABLE {name} TBLPROPERTIES ('transactional'='true') AS SELECT 1 AS id"
            )
        except HiveAcidError as raised:
            error = raised
        cutting.proxy.mend()
        what = f"{name} {cut}: {error!r}, calls {cutting.proxy.calls}, unanswered {cutting.proxy.unanswered}"
        cutting.end_what_is_left(cut, what)
        there = cutting.past.context.catalog.get_table(TableName("default", name)) is not None
        assert there == (error is None), what
        if there:
            assert cutting.past.sql(f"SELECT id FROM {name}").collect() == [(1,)], what

    run("made", None)
    calls = list(cutting.proxy.calls)
    at = [n for n, call in enumerate(calls, 1) if call.startswith("create_table") or call == "commit_txn"]
    assert len(at) > 1
    for number in at:
        for after in (False, True):
            run(f"made_{number}_{'after' if after else 'before'}", Cut(number, after))


def test_a_metastore_that_stays_away(cutting: Cutting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, and the next statement works when it is back."""
    # as if the transactions were about to expire: nine tenths of five minutes later
    monkeypatch.setattr(RetryDeadlines, "remaining", lambda _: 0.0)
    for call, after in ((1, False), ("commit_txn", False), ("commit_txn", True)):
        error = cutting.run("update", Cut(call, after, blink=False))
        assert isinstance(error, StoreUnavailableError | CommitStateUnknownError)
        assert cutting.run("insert", None) is None


def test_a_metastore_that_is_killed(cutting: Cutting, hive: HiveServers) -> None:
    """``kill -9`` before and after the commit, and a new process in its place."""
    for after in (False, True):
        error = cutting.run("update", Cut("commit_txn", after, also=hive.restart_metastore))
        assert error is None or isinstance(error, StoreUnavailableError | CommitStateUnknownError)
        assert cutting.run("update", None) is None
