from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import hiveacid
from hiveacid.errors import UnsupportedFeatureError


def test_spark_connect_is_refused_where_plans_cannot_travel() -> None:
    session: Any = SimpleNamespace(version="3.5.9")  # no _jsparkSession: what a Connect session looks like
    with pytest.raises(UnsupportedFeatureError, match=r"Spark 4\.0"):
        hiveacid.connect(session, warehouse="nowhere")
