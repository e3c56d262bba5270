"""Real Hives, one version at a time, where ``make interop-hive`` has put them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from support.servers.databases import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

sys.path.insert(0, str(Path(__file__).parent))

from hive_client import Hive
from hive_install import VERSIONS, is_installed, java_home
from hive_server import HiveServers


@pytest.fixture(scope="module", params=VERSIONS)
def hive(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[HiveServers]:
    """Return servers whose metastore runs; modules that say CLEANS or INITIATES have its cleaner or initiator at work."""
    if not is_installed(request.param) or java_home() is None:
        pytest.skip(f"Hive {request.param} is not installed: make interop-hive fetches it")
    made = HiveServers(
        request.param,
        postgres_server,  # type: ignore[arg-type]
        cleans=getattr(request.module, "CLEANS", False),
        initiates=getattr(request.module, "INITIATES", False),
    )
    try:
        made.start_metastore()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, hive: HiveServers) -> Iterator[Hive]:
    """Return a session of Hive with the setting that a module names; else a look at all rows starts no job there."""
    hive.start_hive_server()
    made = Hive(hive.hs2_port)
    made.sql(f"SET {getattr(request.module, 'SETTING', 'hive.fetch.task.conversion=more')}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def acid(hive: HiveServers, spark: SparkSession) -> Iterator[AcidSession]:
    """Return a connection of ours to the same metastore."""
    connection = hiveacid.connect(spark, store=hive.url)
    yield connection
    connection.close()
