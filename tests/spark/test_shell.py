"""The shell on a real pseudo-terminal and from a pipe: typing, completing, cancelling, plain output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import hiveacid
from hiveacid.cli import main
from hiveacid.cli.options import ConnectionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.ports.transactions import LockRow

TABLE = "CREATE TABLE sales (id BIGINT, item STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][AB0]|\x1b[=>]|\x1b\][^\x07]*\x07|[\x07\x08]")
PROMPT = "hiveacid:default> "
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|[34]8;5;\d+)m")
UNFINISHED = re.compile(r"\x1b[^A-Za-z]*\Z")
FORWARD = re.compile(r"\x1b\[(\d*)C")
PATIENCE = 300.0  # seconds for what should come at once, on a machine that is busy


# Two shells one after the other, as two calls of the command line would be, but on one JVM.
SHELLS = """
import os, sys
from hiveacid.cli import main
from hiveacid.spark.session.jvm_process import local_session

warehouse, state = sys.argv[1:]
os.environ["XDG_STATE_HOME"] = state
with local_session({"spark.master": "local[1]", "spark.driver.memory": "1g"}):
    for environment in ({}, {"NO_COLOR": "1"}):
        os.environ.update(environment)
        print("ended with", main(["shell", "-w", warehouse], standalone_mode=False) or 0)
"""


class Terminal:
    """A shell on a pseudo-terminal, as a person sees and types it."""

    def __init__(self, *arguments: str) -> None:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("HIVEACID_", "NO_COLOR"))
        }
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            command = [sys.executable, "-c", SHELLS, *arguments]
            os.execve(sys.executable, command, {**kept, "TERM": "xterm"})  # noqa: S606
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.raw = ""
        self.seen = 0

    @property
    def text(self) -> str:
        """What is on it, without colours and movements; an editor steps over blanks."""
        whole = UNFINISHED.sub("", self.raw)
        return STEERING.sub("", FORWARD.sub(lambda found: " " * int(found[1] or 1), whole))

    def type(self, text: str) -> None:
        """Press keys; what comes afterwards is new."""
        self.seen = len(self.text)
        os.write(self.fd, text.encode())

    def wait(self, expected: str) -> str:
        """Wait for a text; return all that is new up to its end, which is not new any more."""
        until = time.monotonic() + PATIENCE
        while expected not in (new := self.text[self.seen :]):
            assert time.monotonic() < until, f"{expected!r} does not come: {self.text[self.seen - 500 :]!r}"
            self._read(0.2)
        length = new.index(expected) + len(expected)
        self.seen += length
        return new[:length]

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        # an editor asks where the cursor is
        if b"\x1b[6n" in data:
            os.write(self.fd, b"\x1b[1;1R")
        self.raw += data.decode(errors="replace")
        return bool(data)

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._read(0.2):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    made = Terminal(*arguments)
    try:
        yield made
    finally:
        os.close(made.fd)
        try:
            os.kill(made.pid, signal.SIGKILL)
            os.waitpid(made.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a warehouse with a table of three rows."""
    place = str(tmp_path_factory.mktemp("shell") / "warehouse")
    with hiveacid.connect(spark, warehouse=place) as acid:
        acid.sql(TABLE)
        acid.sql("INSERT INTO sales VALUES (1, 'tea'), (2, 'jam'), (3, NULL)")
    return place


def piped(script: str, *arguments: str, **environment: str | None) -> Result:
    """Run the shell on the process's own Spark session, its statements from a pipe."""
    return CliRunner().invoke(
        main, ["shell", *arguments], input=script, env={"NO_COLOR": None, **environment}
    )


def test_a_pipe_runs_as_sql_does(warehouse: str) -> None:
    script = "SELECT 1 AS a;\nSELECT *\n FROM nosuch;\nSELECT 2 AS b"
    done = piped(script, "-w", warehouse, "-o", "csv")
    assert (done.exit_code, done.stdout) == (1, "a\n1\n")
    assert "nosuch" in done.stderr
    assert "line 3, column 7" in done.stderr
    kept = piped(script, "-w", warehouse, "-o", "csv", "-k")
    assert (kept.exit_code, kept.stdout) == (1, "a\n1\nb\n2\n")
    done = piped("SELECT id FROM sales WHERE id > 2;\n", "-w", warehouse, "-o", "json")
    assert (done.exit_code, done.stdout) == (0, '{"id":3}\n')


def locks(warehouse: str) -> tuple[LockRow, ...]:
    with ConnectionOptions(warehouse, None, (), verbose=False).opened_store() as store:
        return store.show_locks()


def locks_at_last(warehouse: str, state: str) -> None:
    """Wait until somebody holds a lock, or waits for one."""
    until = time.monotonic() + PATIENCE
    while state not in {row.state for row in locks(warehouse)}:
        assert time.monotonic() < until
        time.sleep(0.1)


LONG = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE id % 7 = 3"


@pytest.mark.exhaustive("unit/cli/test_shell_parts.py has its parts; shells on a pipe stay")
def test_a_person_at_a_terminal(warehouse: str, tmp_path: Path) -> None:
    with terminal(warehouse, str(tmp_path)) as shell:
        shell.wait(PROMPT)
        types_statements(shell)
        cancels(shell, warehouse)
        shell.type("\x04")
        shell.wait("ended with 0")
        recalls(shell, tmp_path / "hiveacid" / "history")
        shell.type("quit\r")
        shell.wait("ended with 0")
        assert shell.end() == 0


def types_statements(shell: Terminal) -> None:
    """Completion, several lines, a command, an error with its place, a password."""
    shell.type("SELECT item FROM sa\t")
    shell.wait("les")
    shell.type(" WHERE\rid = 1")  # Enter: the statement goes on
    shell.wait("-> ")
    shell.type(";\r")
    assert "│ tea  │" in shell.wait("1 row in ")
    shell.wait(PROMPT)
    shell.type("\\dt\r")
    assert "sales" in shell.wait("1 row in ")
    shell.wait(PROMPT)
    shell.type("SELECT nope FROM sales;\r")
    assert "error 10002" in shell.wait("\n         ^")
    shell.wait(PROMPT)
    shell.type("SET my.password=geheim;\r")
    shell.wait("done in")
    shell.wait(PROMPT)


def cancels(shell: Terminal, warehouse: str) -> None:
    """Ctrl-C: Spark's job goes, and the lock with it; a transaction of statements is rolled back."""
    shell.type(f"UPDATE sales SET item = ({LONG});\r")
    shell.wait("Ctrl-C cancels")
    locks_at_last(warehouse, "ACQUIRED")
    shell.type("\x03")
    shell.wait("error CANCELLED")
    assert locks(warehouse) == ()
    shell.wait(PROMPT)
    shell.type("UPDATE sales SET item = 'tee' WHERE id = 1;\r")
    shell.wait("1 row updated, write id ")
    shell.wait(PROMPT)
    shell.type("START TRANSACTION;\r")
    shell.wait("hiveacid:default*> ")
    shell.type("DELETE FROM sales WHERE id = 2;\r")
    shell.wait("1 row deleted, write id ")
    shell.wait("hiveacid:default*> ")
    shell.type(f"{LONG};\r")
    shell.wait("Ctrl-C cancels")
    shell.type("\x03")
    assert "was rolled back" in shell.wait("hiveacid:default!> ")
    assert locks(warehouse) == ()
    shell.type("ROLLBACK;\r")
    shell.wait(PROMPT)
    shell.type("SELECT count(*) AS n FROM sales;\r")
    assert "│ 3 │" in shell.wait("1 row in ")
    shell.wait(PROMPT)


def recalls(shell: Terminal, history: Path) -> None:
    """Find by arrow up, in the second shell, what was typed last in the first; no colours."""
    assert history.stat().st_mode & 0o777 == 0o600
    assert "geheim" not in history.read_text(encoding="utf-8")
    shell.wait(PROMPT)
    begun = len(shell.raw)
    shell.type("\x1b[A")
    shell.wait("SELECT count(*) AS n FROM sales;")
    shell.type("\r")
    assert "│ 3 │" in shell.wait("1 row in ")
    shell.wait(PROMPT)
    assert COLOUR.search(shell.raw[begun:]) is None
