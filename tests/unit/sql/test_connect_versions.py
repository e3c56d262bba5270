from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import hiveacid
from hiveacid.errors import UnsupportedFeatureError


def test_a_client_of_spark_connect_is_told_to_use_a_server_with_a_native_session() -> None:
    session: Any = SimpleNamespace(version="4.3.0")  # no _jsparkSession: what a Connect session looks like
    with pytest.raises(UnsupportedFeatureError, match="native session"):
        hiveacid.connect(session, warehouse="nowhere")
