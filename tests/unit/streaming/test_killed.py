"""A writer that is killed: nothing of its open transaction is seen, what it committed is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest
from stream_tables import ACID, Warehouse

VICTIM = textwrap.dedent("""
    import sys, time
    from hiveacid.streaming import Connection
    stream = Connection("t", warehouse=sys.argv[1], settings={"hive.txn.timeout": "5s"})
    number = 0
    while True:
        stream.begin_transaction()
        for _ in range(3):
            stream.write([{"id": number, "name": "x" * 50}] * 100)
            for file in stream._current._files.values():
                file.spill()
        if number == int(sys.argv[2]):
            print("now", flush=True)
            time.sleep(600)
        stream.commit()
        number += 1
        print(number, flush=True)
""")


@pytest.mark.parametrize(("commits", "moment"), [(2, "open"), (3, "any")])
def test_a_killed_writer_leaves_what_it_committed(wh: Warehouse, commits: int, moment: str) -> None:
    at_work = moment == "any"
    wh.create(f"CREATE TABLE t (id INT, name STRING) {ACID}")
    stop = 10**6 if at_work else commits
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(wh.root), str(stop)], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        told = 0
        for line in victim.stdout:
            if line.strip() == "now":
                break
            told = int(line)
            if at_work and told == commits:
                break
        victim.send_signal(signal.SIGKILL)
    found = sorted(row[0] for row in wh.rows("t"))
    done = len(found) // 300
    assert found == [n for n in range(done) for _ in range(300)]
    assert done == told if not at_work else done >= told
    # nobody beats for its transaction any more
    reaped: list[int] = []
    for _ in range(3000):
        reaped += wh.store.abort_timed_out()
        if not wh.store.valid_txns().open:
            break
        time.sleep(0.1)
    assert wh.store.valid_txns().open == ()
    assert len(reaped) == 1 or (at_work and not reaped)
    assert wh.store.show_locks() == ()
    assert sorted(row[0] for row in wh.rows("t")) == found
    with wh.connect("t") as stream, stream.transaction():
        stream.write({"id": -1})
    assert sorted(row[0] for row in wh.rows("t")) == [-1, *found]
    kinds = {finding.partition(" ")[0] for finding in wh.findings("t")}
    assert kinds <= {"staging", "aborted"}
