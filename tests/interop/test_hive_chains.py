"""Chains of Hive's statements and ours on every kind of table; after each of them both see what the model says.

HIVEACID_TEST_CHAINS=plain,4.0.1:partitioned takes these kinds of tables, the second for that version only,
HIVEACID_TEST_CHAINS=2 two for each version, as HIVEACID_TEST_SEED (1) draws them.
"""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest
from hive_chains import KINDS, Chain, Kind, steps
from hive_client import Hive
from hive_install import VERSIONS
from hive_server import HiveServers

if TYPE_CHECKING:
    from hiveacid import AcidSession


CLEANS = True


def drawn(version: str) -> set[str]:
    wanted = os.environ.get("HIVEACID_TEST_CHAINS", "")
    names = [kind.name for kind in KINDS]
    if wanted.isdecimal():
        seed = os.environ.get("HIVEACID_TEST_SEED", "1")
        return set(Random(f"{seed} {version}").sample(names, min(int(wanted), len(names))))
    words = [word.rpartition(":") for word in wanted.split(",")]
    return {name for only, _, name in words if only in ("", version)} if wanted else set(names)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_chain(kind: Kind, acid: AcidSession, session: Hive, hive: HiveServers) -> None:
    if kind.name not in drawn(hive.version):
        pytest.skip(f"HIVEACID_TEST_CHAINS is {os.environ['HIVEACID_TEST_CHAINS']}")
    Chain(kind, f"chain_{kind.name}", acid, session, hive).run(steps(kind))


def test_chains_are_long_and_both_engines_write() -> None:
    for version in VERSIONS:  # a name that is none would leave everything out
        assert drawn(version) <= {kind.name for kind in KINDS}
    for kind in KINDS:
        chain = steps(kind)
        assert len(chain) >= 12, kind
        assert {step[0] for step in chain} == {"O", "T"}
