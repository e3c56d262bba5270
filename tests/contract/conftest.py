"""Let the contract tests import their neighbour ``server_rules``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
