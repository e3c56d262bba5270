"""Statements on tables of few rows: the plan's round trips to the JVM cost more than the rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.spark.parser.catalyst import java_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

MOST_LOOKUPS, MOST_TRIPS = 110, 750
"""Of one statement. Before `java_packages` an UPDATE took 192 and some 850 on Spark 4.0. PySpark's own number depends on its version."""


def test_packages_are_named_without_asking_java(spark: SparkSession) -> None:
    packages: Any = java_packages(spark)
    assert packages.java.lang.Integer.parseInt("7") == 7
    assert not hasattr(packages.java, "__len__")


def test_a_statement_takes_few_round_trips(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("CREATE TABLE t (k INT, v INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(100)")
    acid.sql("DELETE FROM t WHERE k > 90")
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send = client.send_command
    for text in ("SELECT v FROM t WHERE k = 7", "UPDATE t SET v = v + 1 WHERE k = 7"):
        sent: Counter[str] = Counter()

        def counted(command: str, *rest: Any, sent: Counter[str] = sent, **options: Any) -> Any:
            sent[command[:3]] += 1
            return send(command, *rest, **options)

        monkeypatch.setattr(client, "send_command", counted)
        acid.sql(text).collect()
        monkeypatch.setattr(client, "send_command", send)
        assert 0 < sent["r\nu"] <= MOST_LOOKUPS
        assert 0 < sum(sent.values()) <= MOST_TRIPS
    assert acid.sql("SELECT sum(v), count(*) FROM t").collect() == [(1, 91)]
