"""A history on a PostgreSQL where opening a transaction is slow: tools/slow_openings.py COUNT [blind].

The URL of an empty store stands in the variable HIVEACID_STORE.

A trigger waits between the moment when an id is given and the moment when others see its row. ``blind``: the
clients' stores take such ids for ended ones. Exit 1 on an anomaly.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from sqlalchemy import create_engine, text

from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.dialects.postgres import PostgresDialect
from hiveacid.stores.sql.store import SqlStore
from support.history.client import Workload
from support.history.processes import Misfortune, ProcessRun
from support.history.verdict import judge

FUNCTION = """CREATE FUNCTION slow_opening() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_sleep(CASE WHEN random() < 0.5 THEN 0.15 ELSE 0 END); RETURN NEW; END $$"""
TRIGGER = "CREATE TRIGGER slow BEFORE INSERT ON hiveacid_txns FOR EACH ROW EXECUTE FUNCTION slow_opening()"

CALM = Misfortune(killed=0, stopped=0, struck=0, cut=0)
SLOW = Workload(tables=3, operations=6, seconds_asleep=0.2, read_only=0.4)


class BlindDialect(PostgresDialect):
    """Looks for no gaps."""

    ids_may_gap = False


def open_blindly(url: str, limits: Limits) -> SqlStore:
    """Open a store that takes ids without a row for ended ones."""
    store = SqlStore(url, limits=limits)
    store._database.dialect = BlindDialect()  # noqa: SLF001 - a bug is planted
    return store


def main(count: str, blind: str = "") -> int:
    """Run it."""
    url = os.environ["HIVEACID_STORE"]
    SqlStore(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(FUNCTION))
        connection.execute(text(TRIGGER))
    engine.dispose()
    with tempfile.TemporaryDirectory() as directory:
        tables = Path(directory, "tables")
        run = ProcessRun(url, tables, int(count), clients=10, misfortune=CALM, workload=SLOW)
        if blind:
            run.open_store = open_blindly
        verdict = judge(run.run())
    print(verdict, *verdict.examples(), sep="\n")
    return 1 if verdict.anomalies else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
