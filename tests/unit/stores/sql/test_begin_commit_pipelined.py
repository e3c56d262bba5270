"""What a process keeps of the PostgreSQL stores that it has closed."""

from __future__ import annotations

import gc
import weakref

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from hiveacid.stores.sql import begin_commit_pipelined
from hiveacid.stores.sql.begin_commit_pipelined import _own_snapshot_query, _step

_STORES = 600


def test_the_statements_of_closed_stores_do_not_stay() -> None:
    """A process that opens the store for each request would keep the compiler and the texts of each."""
    begin_commit_pipelined._compiled.cache_clear()
    compilers: list[weakref.ref[PGDialect_psycopg]] = []
    for _ in range(_STORES):
        compiler = PGDialect_psycopg()
        text, _ = _step(compiler, _own_snapshot_query())
        assert text.startswith("SELECT")
        compilers.append(weakref.ref(compiler))
    del compiler
    gc.collect()
    assert sum(one() is not None for one in compilers) <= _STORES - 100
    assert compilers[-1]() is not None
