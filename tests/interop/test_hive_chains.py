"""Chains of Hive's statements and ours on every kind of table; after each of them both see what the model says.

HIVEACID_TEST_CHAINS=plain,partitioned takes these kinds of tables, HIVEACID_TEST_CHAINS=2 two for each version, as
HIVEACID_TEST_SEED (1) draws them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest
from hive_chains import KINDS, Chain, Kind, steps
from hive_client import Hive
from hive_server import HiveServers

import hiveacid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


CLEANS = True


@pytest.fixture(scope="module")
def session(hive: HiveServers) -> Iterator[Hive]:
    hive.start_hive_server()
    made = Hive(hive.hs2_port)
    made.sql("SET hive.fetch.task.conversion=more")  # a look at all rows starts no job
    yield made
    made.close()


@pytest.fixture(scope="module")
def acid(hive: HiveServers, spark: SparkSession) -> Iterator[AcidSession]:
    connection = hiveacid.connect(spark, store=hive.url)
    yield connection
    connection.close()


def drawn(version: str) -> set[str]:
    wanted = os.environ.get("HIVEACID_TEST_CHAINS", "")
    names = [kind.name for kind in KINDS]
    if wanted.isdecimal():
        seed = os.environ.get("HIVEACID_TEST_SEED", "1")
        return set(Random(f"{seed} {version}").sample(names, min(int(wanted), len(names))))
    return set(wanted.split(",")) if wanted else set(names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_chain(kind: Kind, acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    if kind.name not in drawn(hive.version):
        pytest.skip(f"HIVEACID_TEST_CHAINS is {os.environ['HIVEACID_TEST_CHAINS']}")
    Chain(kind, f"chain_{kind.name}", acid, session, hive).run(steps(kind))


def test_chains_are_long_and_both_engines_write() -> None:
    assert set(os.environ.get("HIVEACID_TEST_CHAINS", "1").split(",")) <= {kind.name for kind in KINDS} | {
        *map(str, range(20))
    }
    for kind in KINDS:
        chain = steps(kind)
        assert len(chain) >= 12, kind
        assert {step[0] for step in chain} == {"O", "T"}
