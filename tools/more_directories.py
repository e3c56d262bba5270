"""Random directories, many of them spoilt, as files: more_directories.py COUNT, COUNT times as many as ``make test`` reads."""

from __future__ import annotations

import os
import sys

import pytest

if __name__ == "__main__":
    os.environ["HIVEACID_TEST_MORE"] = sys.argv[1]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/property/test_spoilt_directories.py"]))
