"""One cluster for the tests of this directory that kill no worker and need no private file systems."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.servers.spark_cluster import Cluster, cluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a master and two workers until the last test has ended."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
