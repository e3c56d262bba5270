"""Let the tests of services import their neighbour ``scene``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return an empty warehouse."""
    return Scene(tmp_path)
