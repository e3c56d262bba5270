"""A short soak: streams, changes, held readers, two service processes on PostgreSQL, one of them killed (C5, C6, C7).

``make stress`` runs the long one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.servers.databases import Server

pytestmark = pytest.mark.exhaustive(
    "test_services.py kills one of two processes at work, and make stress runs this for longer"
)


SOAK = Path(__file__).parents[2] / "tools" / "soak.py"
_PATIENCE = 900  # seconds


def test_rows_are_the_model_s_whatever_happens_to_the_services(postgres_server: Server) -> None:
    process = subprocess.Popen(
        [sys.executable, str(SOAK), "10"],
        env={**os.environ, "HIVEACID_STORE": postgres_server.make_database("soak")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=_PATIENCE)
    finally:
        with suppress(ProcessLookupError):  # its services, should it have been late
            os.killpg(process.pid, signal.SIGKILL)
    print(said[-5000:])  # noqa: T201 - shown when the test fails
    assert process.returncode == 0
    (report,) = [line for line in said.splitlines() if line.startswith("seed ")]
    assert "services killed: 1" in report
    assert "last compaction: 0" not in report
