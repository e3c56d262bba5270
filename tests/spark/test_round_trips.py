"""Statements on tables of few rows: the plan's round trips to the JVM cost more than the rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.spark.session.jvm import java_packages
from hiveacid.sql.native import both_catalogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.sql.binding.statement_owner import Ownership
    from hiveacid.sql.native.session import NativeSession
    from hiveacid.sql.native.shared_gateway import NativeConnection
    from hiveacid.sql.statements import Slice

MOST_MEMBERS = 6
"""Static members that Java looks up for one statement beyond PySpark's own, which follow a name that is looked up.

A DELETE had 34 more while Py4J asked about each method of each call.
"""
MOST_LOOKUPS = 110
"""Names that Java looks up for one statement: an UPDATE took 192 before `java_packages` on Spark 4.0, 64 after.

All round trips are not bounded: releases of objects, which Python collects at any time, and PySpark's own are among them.
"""


def test_packages_are_named_without_asking_java(spark: SparkSession) -> None:
    packages: Any = java_packages(spark)
    assert packages.java.nio.ByteOrder.LITTLE_ENDIAN.toString() == "LITTLE_ENDIAN"  # a constant, no method
    assert packages.java.lang.Integer.parseInt("7") == 7
    assert not hasattr(packages.java, "__len__")


def test_a_statement_looks_up_few_names(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    acid.sql("CREATE TABLE t (k INT, v INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(100)")
    acid.sql("DELETE FROM t WHERE k > 90")
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send = client.send_command
    source = "(SELECT 7 AS k, 0L AS v) s ON t.k = s.k"
    merge = "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)"
    for text in (
        "SELECT v FROM t WHERE k = 7",
        "UPDATE t SET v = v + 1 WHERE k = 7",
        f"MERGE INTO t USING {source} {merge}",
    ):
        sent: Counter[str] = Counter()

        def counted(command: str, *rest: Any, sent: Counter[str] = sent, **options: Any) -> Any:
            sent[command[:3]] += 1  # "r\nu": reflection, of an unknown name
            return send(command, *rest, **options)

        monkeypatch.setattr(client, "send_command", counted)
        acid.sql(text).collect()
        monkeypatch.setattr(client, "send_command", send)
        assert sent["c\no"] > 0
        assert sent["r\nm"] <= sent["r\nu"] + MOST_MEMBERS
        assert sent["r\nu"] <= MOST_LOOKUPS
    assert acid.sql("SELECT sum(v), count(*) FROM t").collect() == [(1, 91)]


def test_the_result_of_a_change_is_not_bound(native: NativeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's parser would ask hiveacid which tables the row of counts reads."""
    native.sql("CREATE TABLE t (k BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    native.sql("INSERT INTO t SELECT id FROM range(10)")
    decide, asked = both_catalogs.decide_ownership, list[str]()

    def noted(session: NativeConnection, source: Slice) -> Ownership:
        asked.append(source.text)
        return decide(session, source)

    monkeypatch.setattr(both_catalogs, "decide_ownership", noted)  # of texts that reach the session's parser
    assert native.sql("DELETE FROM t WHERE k = 2").first()[:2] == (1, 0)  # type: ignore[index]
    assert [text for text in asked if "num_affected_rows" in text] == []
