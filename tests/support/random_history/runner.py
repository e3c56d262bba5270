"""Drives one table through random statements, transactions, rivals, readers and upkeep, compared at every step."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import hiveacid
from hiveacid.errors import CompactionRefusedError, UnsupportedFeatureError, WriteConflictError
from support.crash.faults import Faults, Moment, faulty
from support.random_history.model import PLACES, Model, assignments, condition
from support.random_history.statements import Statements
from support.random_history.table import Layout, Reader, lies_in, listed

if TYPE_CHECKING:
    from hiveacid import AcidSession

_MOST_READERS = 3
_ROUNDS = 5


class Rollback(Exception):  # noqa: N818 - thrown to leave a transaction, not an error
    """Thrown inside a transaction's block."""


def _roll_back() -> None:
    raise Rollback


class Runner(Statements):
    """Several statements in one transaction, two sessions at once, old readers, compaction, new columns."""

    def transaction(self) -> None:
        """Several statements, one commit; or none, where the block ends by an error."""
        after, give_up = self.model.copy(), self.random.random() < 0.3
        by_text = self.random.random() < 0.4
        self.log.append("START TRANSACTION")
        try:
            if by_text:
                self.acid.sql("START TRANSACTION")
                self._several(self.acid, after)
                self.acid.sql("ROLLBACK" if give_up else "COMMIT")
            else:
                with self.acid.transaction() as txn:
                    self._several(txn, after)
                    if give_up:
                        _roll_back()
        except (Rollback, UnsupportedFeatureError):  # a table overwritten before cannot be written again
            give_up = True
            if by_text:
                self.acid.sql("ROLLBACK")
        self.log.append("ROLLBACK" if give_up else "COMMIT")
        if not give_up:
            self.model = after

    def _several(self, session: AcidSession, after: Model) -> None:
        kinds = ["insert", "insert", "overwrite"]
        kinds += [] if self.layout.insert_only else ["update", "delete", "merge"]
        for _ in range(self.random.randint(2, 4)):
            getattr(self, self.random.choice(kinds))(session, after)
            if self.random.random() < 0.3:
                seen = {row["n"] for row in session.table("t").to_df().collect()}
                assert seen == set(after.rows), "a transaction sees its own writes"

    def conflict(self) -> None:
        """Let a rival change rows meanwhile: the first committer wins, unless both touch other partitions."""
        before, rivals, mine = self.model, self.model.copy(), self.model.copy()
        try:
            with self.acid.transaction() as txn:
                getattr(self, self.random.choice(["update", "delete"]))(self.rival, rivals)
                getattr(self, self.random.choice(["update", "delete"]))(txn, mine)
        except WriteConflictError:
            assert self.meet(before, rivals, mine), "a conflict without common partitions"
            self.model = rivals
        else:
            assert not self.meet(before, rivals, mine), "an update was lost"
            self.model = self.joined(before, rivals, mine)

    def retry(self) -> None:
        """Let a rival commit between a statement's snapshot and its commit: it runs again on what is there now."""
        values, where = (
            assignments(self.random, self.model.columns),
            condition(self.random, self.layout.partitioned),
        )
        before, rivals, mine = self.model, self.model.copy(), self.model.copy()
        mine.update(values, where)
        faults = Faults()
        faults.at("store.begin_txn", 1, Moment.AFTER, lambda _: self.update(self.rival, rivals))
        shared = {column: value.sql for column, value in values.items()}
        self.log.append(f"# meanwhile: UPDATE t SET {shared} WHERE {where.sql}")
        slow = hiveacid.connect(
            self.spark, warehouse=self.warehouse, settings={"hive.txn.xlock.write": "false"}
        )
        report = faulty(slow, faults).table("t").update(shared, where=where.sql)
        slow.close()
        if self.meet(before, rivals, mine):
            assert report.retries == 1
            assert report.updated == rivals.update(values, where)
            self.model = rivals
        else:
            assert report.retries == 0
            self.model = self.joined(before, rivals, mine)

    def meet(self, before: Model, one: Model, other: Model) -> bool:
        """Tell whether two sets of changes have a partition in common."""
        places = [
            {before.place(before.rows[n]) for n in model.changed_from(before)} for model in (one, other)
        ]
        return bool(places[0] & places[1])

    def joined(self, before: Model, one: Model, other: Model) -> Model:
        """Return what both sets of changes make of ``before``."""
        result = one.copy()
        for n in other.changed_from(before):
            if n in other.rows:
                result.rows[n], result.ids[n] = other.rows[n], None
            else:
                result.remove([n])
        return result

    # --- upkeep, definitions, readers -----------------------------------------------------------------

    def compact(self) -> None:
        """Compact the table or a partition; nothing to do is fine."""
        kind, spec = self.random.choice(["minor", "major"]), self.one_place()
        with suppress(CompactionRefusedError):
            if self.random.random() < 0.5:
                where = "" if spec is None else f" PARTITION ({listed(spec)})"
                self.sql(f"ALTER TABLE t{where} COMPACT '{kind}' AND WAIT")
            else:
                self.log.append(f"# compact {kind} {spec}")
                self.table.compact(kind, partition=spec)

    def clean(self) -> None:
        """Remove what nobody can read any more."""
        self.log.append("# clean")
        self.acid.clean()

    def add_column(self) -> None:
        """ALTER TABLE ADD COLUMNS, twice at most."""
        number = len(self.model.columns) - 2
        if number > 2:
            return
        self.sql(f"ALTER TABLE t ADD COLUMNS (x{number} INT)")
        self.model.add_column(f"x{number}")

    def add_partition(self) -> None:
        """ALTER TABLE ADD PARTITION: an empty one."""
        if self.layout.partitioned:
            spec = {"p": self.random.choice(PLACES[:4]), "q": self.random.choice([0, 1, 2])}
            self.sql(f"ALTER TABLE t ADD IF NOT EXISTS PARTITION ({listed(spec)})")

    def drop_partition(self) -> None:
        """ALTER TABLE DROP PARTITION takes the files with it, from old readers too."""
        if self.layout.partitioned:
            self.readers.clear()
            spec = {"p": self.random.choice(PLACES[:4])}
            self.sql(f"ALTER TABLE t DROP IF EXISTS PARTITION ({listed(spec)})")
            self.model.remove([n for n, row in self.model.rows.items() if lies_in(row, spec)])

    def open_reader(self) -> None:
        """Make a DataFrame and keep it."""
        session = self.random.choice([self.acid, self.rival])
        where = condition(self.random, self.layout.partitioned)
        if self.random.random() < 0.5:
            frame = session.sql(f"SELECT * FROM t WHERE {where.sql}")
        else:
            frame = session.table("t").scan(where=where.sql).to_df()
        self.log.append(f"# reader WHERE {where.sql}")
        names = self.model.chosen(where)
        rows = Counter(repr(sorted(self.model.rows[n].items())) for n in names)
        self.readers = [*self.readers, Reader(frame, rows)][-_MOST_READERS:]

    def read_old(self) -> None:
        """All old readers read again; sometimes one goes."""
        for reader in self.readers:
            self.read_again(reader)
        if self.readers and self.random.random() < 0.5:
            self.readers.pop(0)

    def finish(self) -> None:
        """Let the readers go: what only they could read goes with them, and the rows stay."""
        self.read_old()
        self.readers.clear()
        self.feed.check(self.table, self.model, self.random)
        if self.layout.retention:
            self.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.history.retention'='0')")
        self.insert()  # or there may be nothing to compact, and so nothing to clean after
        with suppress(CompactionRefusedError):
            self.table.compact("major")
        # What an overwrite replaced goes with the next compaction of its partition, as in Hive.
        expected = {"used", "obsolete"} if self.layout.partitioned else {"used"}
        for _ in range(_ROUNDS):  # the JVM says when a reader's plan is really gone
            self.rival.clean()
            self.acid.clean()
            states = Counter(row.state for row in self.table.inspect.deltas().collect())
            if set(states) <= expected:
                break
        self.look(self.rival)
        assert set(states) <= expected, f"left on disk: {states}"


__all__ = ["Layout", "Runner"]
