"""Sessions of both kinds can't be in one process: ``test_run.py`` starts another, which collects the rest."""

from __future__ import annotations

import os

collect_ignore = ["test_run.py" if os.environ.get("HIVEACID_TEST_CONNECT") else "test_connect.py"]
