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
    stream = Connection("t", warehouse=sys.argv[1], batch_size=int(sys.argv[2]),
                        settings={"hive.txn.timeout": "5s"})
    number = 0
    while True:
        stream.begin_transaction()
        for _ in range(3):
            stream.write([{"id": number, "name": "x" * 50}] * 100)
            for file in stream._batch._files.values():
                file.spill()
        if number == int(sys.argv[3]):
            print("now", flush=True)
            time.sleep(600)
        stream.commit()
        number += 1
        print(number, flush=True)
""")


@pytest.mark.repeats("another case of the same test stays", cases=("50-3",))
@pytest.mark.parametrize(("size", "commits", "moment"), [(1, 2, "open"), (50, 3, "open"), (50, 3, "any")])
def test_a_killed_writer_leaves_what_it_committed(
    wh: Warehouse, size: int, commits: int, moment: str
) -> None:
    at_work = moment == "any"
    wh.create(f"CREATE TABLE t (id INT, name STRING) {ACID}")
    stop = 10**6 if at_work else commits
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(wh.root), str(size), str(stop)], stdout=subprocess.PIPE, text=True
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
    # nobody beats for its transactions any more
    silent = 1 if size == 1 else size - done
    reaped: list[int] = []
    for _ in range(3000):
        reaped += wh.store.abort_timed_out()
        if len(reaped) >= silent:
            break
        time.sleep(0.1)
    assert len(reaped) == silent
    assert wh.store.show_locks() == ()
    assert sorted(row[0] for row in wh.rows("t")) == found
    with wh.connect("t") as stream, stream.transaction():
        stream.write({"id": -1})
    assert sorted(row[0] for row in wh.rows("t")) == [-1, *found]
    kinds = {finding.partition(" ")[0] for finding in wh.findings("t")}
    assert kinds <= {"staging", "aborted"}
