"""Memory limit of test processes: a process above it says so and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
GROWS = f"""
import sys, threading
sys.path.insert(0, {str(TESTS)!r})
from support.memory_limit import resident_bytes, watch_memory
watch_memory(limit=resident_bytes() + (20 << 20), seconds=0.01)
def fill_the_memory():
    held = [bytes([1]) * (1 << 20) for _ in range(int(sys.argv[1]))]
    threading.Event().wait(float(sys.argv[2]))
    return held
fill_the_memory()
"""


def run(megabytes: int, seconds: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GROWS, str(megabytes), str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_process_that_grows_says_where_it_is() -> None:
    ended = run(100, 90)
    assert ended.returncode == 1
    assert "more than tests may hold" in ended.stderr
    assert "in fill_the_memory" in ended.stderr


def test_one_that_does_not_grow_goes_on() -> None:
    assert run(1, 0.1).returncode == 0
