"""A warehouse for each test of streams."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stream_tables import Warehouse, opened


@pytest.fixture
def wh(tmp_path: Path) -> Iterator[Warehouse]:
    with opened(tmp_path) as warehouse:
        yield warehouse
