"""A store whose driver is not installed."""

from __future__ import annotations

import sys

import pytest

from hiveacid.errors import ConfigError
from hiveacid.stores.sql.database import Database
from support.clock import ManualClock


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://ann:secret@db/hive", "psycopg", "hiveacid[postgres]"),
        ("mysql+pymysql://ann:secret@db/hive", "pymysql", "hiveacid[mysql]"),
        ("mariadb+pymysql://ann:secret@db/hive", "pymysql", "hiveacid[mysql]"),
    ],
)
def test_the_package_to_install_is_named(
    url: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)  # import raises ModuleNotFoundError
    with pytest.raises(ConfigError, match="its driver is not installed: pip install") as caught:
        Database(url, ManualClock())
    assert extra in str(caught.value)
    assert "secret" not in str(caught.value)
