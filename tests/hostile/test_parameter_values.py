"""Values of parameters are data: Spark's variable substitution does not reach into them (issue 20, 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import UnsupportedOperationException

from hiveacid.errors import ConfigError
from hiveacid.spark.formats.driver_frames import epoch_millis
from support.exhaustive import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

_TABLE = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_VALUES = (
    "${env:HOME}",
    "${system:user.home}",
    "${hiveacid.hostile}",
    "${spark:hiveacid.hostile}",
    "${",
    "$\\u007b",
    "a'b\\",
)


def _check(sql: Callable[..., DataFrame], spark_set: Callable[[str, str], None]) -> None:
    spark_set("hiveacid.hostile", "x' OR '1'='1")
    values = sample(_VALUES, 2)
    sql(f"CREATE TABLE parameters (s STRING, k INT) PARTITIONED BY (p STRING) {_TABLE}")
    for number, value in enumerate(values):
        sql("INSERT INTO parameters PARTITION (p = :v) VALUES (:v, :k)", {"v": value, "k": number})
        sql("INSERT INTO parameters SELECT ?, ?, ?", [value, number, "x"])
    sql("UPDATE parameters SET s = :v WHERE p = 'x' AND s = :v", {"v": values[0]})
    expected = [(value, number) for number, value in enumerate(values)]
    for partition in ("p = 'x'", "p = s"):
        rows = sql(f"SELECT s, k FROM parameters WHERE {partition} ORDER BY k").collect()
        assert [tuple(row) for row in rows] == expected
    for value in values:
        assert sql("SELECT count(*) FROM parameters WHERE s = :v", {"v": value}).collect()[0][0] == 2
        assert sql("SELECT :v", {"v": value}).collect()[0][0] == value
        sql("DELETE FROM parameters WHERE s = :v", {"v": value})
        assert sql("SELECT count(*) FROM parameters WHERE s = :v", {"v": value}).collect()[0][0] == 0
    assert sql("SELECT count(*) FROM parameters").collect()[0][0] == 0
    sql("DROP TABLE parameters")


@pytest.mark.exhaustive("the other SQL interface stays", cases=("true",))
@pytest.mark.exhaustive("another case of the same test stays", cases=("false",))
@pytest.mark.parametrize("literal_backslashes", ["false", "true"])
def test_parameter_values_are_data_in_acid_sql(acid: AcidSession, literal_backslashes: str) -> None:
    """INSERT stores them as they are, in rows and partitions; UPDATE, DELETE and SELECT match these rows only."""
    conf = acid.context.env.spark.conf
    conf.set("spark.sql.parser.escapedStringLiterals", literal_backslashes)
    try:
        _check(acid.sql, conf.set)
    finally:
        conf.unset("spark.sql.parser.escapedStringLiterals")


def test_parameter_values_are_data_in_a_native_session(native: NativeSession) -> None:
    """Also those of EXECUTE IMMEDIATE: of a query they are data, of a statement that writes they are refused."""
    _check(native.sql, native.conf.set)
    native.sql(f"CREATE TABLE immediate (s STRING) {_TABLE}")
    native.sql("INSERT INTO immediate VALUES (:v), ('y')", {"v": _VALUES[0]})
    select = "EXECUTE IMMEDIATE 'SELECT s FROM immediate WHERE s = ?' USING :v"
    assert [row[0] for row in native.sql(select, {"v": _VALUES[0]}).collect()] == [_VALUES[0]]
    for value in sample(_VALUES, 2):
        with pytest.raises(UnsupportedOperationException, match="parameters of this statement"):
            native.sql("EXECUTE IMMEDIATE 'INSERT INTO immediate VALUES (?)' USING :v", {"v": value})
    assert native.sql("SELECT count(*) FROM immediate").collect()[0][0] == 2


def test_a_moment_is_no_sql(acid: AcidSession) -> None:
    """A text for AS OF is compared with nothing of the environment."""
    for text in ("${env:HOME}", "2024-01-01' || '", "$"):
        with pytest.raises(ConfigError, match="is not a timestamp"):
            epoch_millis(acid.context.env, text)
