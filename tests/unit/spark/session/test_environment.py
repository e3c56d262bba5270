"""The time zone of executors: when it is known without asking, and what is refused (issue 20, point 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from hiveacid.errors import ConfigError
from hiveacid.spark.session.environment import (
    ExecutorTimeZones,
    driver_runs_tasks,
    named_zone,
    require_single_zone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[4]", True),
        ("local-cluster[2,1,512]", False),
        ("spark://h:7077", False),
        ("yarn", False),
    ],
)
def test_a_local_master_has_no_other_jvms(master: str, local: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert driver_runs_tasks(master) is local


def test_options_of_executors_name_their_time_zone() -> None:
    assert named_zone("-Xmx1g -Duser.timezone=America/New_York -XX:+UseSerialGC") == "America/New_York"
    assert named_zone("-Duser.timezone=UTC '-Duser.timezone=Asia/Tokyo'") == "Asia/Tokyo"
    assert named_zone("-Dmy.timezone=UTC") is None


def test_executors_of_several_time_zones_are_refused_with_the_setting() -> None:
    assert require_single_zone(["Asia/Tokyo", "Asia/Tokyo"], "UTC") == "Asia/Tokyo"
    with pytest.raises(
        ConfigError, match=r"Asia/Tokyo, UTC.*spark\.executor\.extraJavaOptions=-Duser\.timezone=UTC"
    ):
        require_single_zone(["UTC", "Asia/Tokyo"], "UTC")


def test_equal_names_are_alike_without_a_question_to_the_jvm() -> None:
    session = cast("SparkSession", object())
    assert ExecutorTimeZones().are_alike(session, "Asia/Tokyo", "Asia/Tokyo")
