"""Filters of Arrow against Spark: no row that Spark selects is lost, and exact filters select no other."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.predicates import UNDECIDED, leaves
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.spark.predicates.column_conditions import condition_rows, predicate_of, visible_columns
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.table.arrow_read.filters import arrow_filter, is_exact
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = {
    "i": "int", "l": "bigint", "n": "decimal(6,2)", "w": "decimal(38,10)", "s": "string", "c": "char(4)", "x": "double",
    "f": "float", "b": "boolean", "d": "date",
}  # fmt: skip
TABLE = TableDefinition(
    TableName("db", "t"), tuple(Column(name, kind) for name, kind in TYPES.items()), ORC, "/t"
)
VALUES: dict[str, list[Any]] = {
    "i": [1, 0, -1, 2**31 - 1, -(2**31), 5],
    "l": [1, 2**53 + 1, 2**53, 2**63 - 1, -(2**63), 5],
    "n": [Decimal(text) for text in ("1.50", "0.00", "-0.01", "9999.99", "286.15", "5.00")],
    "w": [Decimal(text) for text in ("1.5", "0", "0.1", "9999999999999999999999999999.9999999999", "-1", "5")],
    "s": ["a", "", "a ", "\uffee", "😀", "5"],
    "c": ["a   ", "    ", "ab\x01 ", "é   ", "abcd", "5   "],
    "x": [1.5, 0.0, -0.0, math.nan, math.inf, 5.0],
    "f": [1.5, 0.0, -0.0, math.nan, -math.inf, 0.10000000149011612],
    "b": [True, False, True, False, True, False],
    "d": [dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4), dt.date(1970, 1, 1), dt.date(2020, 3, 1)],
}  # fmt: skip
ROWS = [{name: values[index] for name, values in VALUES.items()} for index in range(6)] + [
    dict.fromkeys(TYPES, None)
]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
LITERALS = {
    "i": ("1", "5.0", "'5'", "2147483648", "1.5", "1e0"),
    "l": ("9007199254740993", "9007199254740992D", "9223372036854775808", "5"),
    "n": ("1.5", "1.505", "10000", "286.15D", "5"),
    "w": ("1.5", "0.1", "99999999999999999999999999999999999999"),
    "s": ("'a'", "''", "'a '", "'\uffee'", "'😀'"),
    "c": ("'a'", "'a '", "'a    '", "'ab\x01'", "'abcde'", "''"),
    "x": ("1.5", "0.0", "-0e0", "CAST('NaN' AS DOUBLE)"),
    "f": ("0.1", "CAST(0.1 AS FLOAT)", "0", "CAST('NaN' AS FLOAT)"),
    "b": ("true", "false"),
    "d": ("DATE'2020-02-29'", "'2020-02-29'", "TIMESTAMP'2020-02-29 12:00:00'"),
}
PARTS = [
    *(f"{name} {operator} {text}" for name, texts in LITERALS.items() for operator, text in product(OPERATORS, texts)),
    *(f"{text} < {name}" for name, texts in LITERALS.items() for text in texts),
    *(f"{name} IN ({', '.join(texts)})" for name, texts in LITERALS.items()),
    *(f"{name} IN ({', '.join(texts[:2])}, NULL)" for name, texts in LITERALS.items()),
    *(f"{name} BETWEEN {texts[0]} AND {texts[1]}" for name, texts in LITERALS.items()),
    *(f"{name} IS NULL" for name in LITERALS),
    *(f"{rest} {operator} {value}" for rest in ("pmod(l, 3)", "i % 2", "pmod(i, 2147483647)", "l % 9223372036854775807") for operator in OPERATORS for value in (1, -1)),
    "pmod(i, -3) = 1", "i % 2.0 = 1", "pmod(l, 3) = NULL", "pmod(i, 3) = 1.5",
    "i = NULL", "b", "s LIKE 'a%'", "i = l", "i % 2 = 1", "x = f", "c = s", "rand() < 2", "d < current_date()",
]  # fmt: skip
CONDITIONS = [
    *PARTS,
    *(f"NOT ({part})" for part in PARTS),
    *(f"{one} AND NOT ({other})" for one, other in zip(PARTS, PARTS[7:], strict=False)),
    *(f"NOT ({one} OR {other})" for one, other in zip(PARTS, PARTS[40:], strict=False)),
    *(f"{one} OR {other}" for one, other in zip(PARTS, PARTS[90:], strict=False)),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    fields = [field for field in visible_columns(TABLE).fields if field.name in TYPES]
    schema = T.StructType(
        [T.StructField("row", T.IntegerType()), *(T.StructField(f.name, f.dataType) for f in fields)]
    )
    frame = spark.createDataFrame([(index, *row.values()) for index, row in enumerate(ROWS)], schema)
    typed = [F.col(field.name).alias(field.name, metadata=field.metadata) for field in fields]
    return called(SparkEnvironment(spark), frame.select("row", *typed), TABLE.name)


def test_filters_select_what_spark_selects(spark: SparkSession, rows: DataFrame) -> None:
    env = SparkEnvironment(spark)
    data = pa.Table.from_pylist(ROWS, arrow_schema(TABLE.columns)).append_column("row", pa.array(range(7)))
    conditions = sample(CONDITIONS, 40)
    by_spark: dict[str, set[int]] = {text: set() for text in conditions}
    true = [F.expr(text).eqNullSafe(F.lit(True)).alias(str(number)) for number, text in enumerate(conditions)]
    for row, *values in rows.select("row", *true).collect():
        for text, value in zip(conditions, values, strict=True):
            if value:
                by_spark[text].add(row)
    for text, expected in by_spark.items():
        predicate = predicate_of(TABLE, plan_of(condition_rows(env, TABLE, text)))
        selected = {*data.filter(arrow_filter(TABLE.all_columns, predicate).predicate)["row"].to_pylist()}
        assert selected >= expected, text
        if UNDECIDED not in leaves(predicate):
            assert selected == expected, text
        assert UNDECIDED not in leaves(predicate) or not is_exact(predicate, TABLE.all_columns)


@pytest.mark.parametrize(
    "text",
    [
        "i = 1 AND NOT (s > 'a' OR d <= DATE'2020-02-29')",
        "n IN (1.5, NULL) OR b",
        "i = '1' AND n < 1.505",
        "pmod(l, 100) = 3 OR i % 2 > 0",
    ],
)
def test_proven_comparisons_are_exact(spark: SparkSession, text: str) -> None:
    assert is_exact(
        predicate_of(TABLE, plan_of(condition_rows(SparkEnvironment(spark), TABLE, text))), TABLE.all_columns
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = 1.5",
        "pmod(i, 0) = 1",
        "i % 2.5 = 0",
        "pmod(l, -2) = 1",
        "pmod(n, 3) = 1",
        "f IS NULL",
        "c = 'a'",
        "w = 1.5",
        "i = 1 AND s LIKE 'a%'",
        "i = l",
    ],
)
def test_other_conditions_are_not_exact(spark: SparkSession, text: str) -> None:
    assert not is_exact(
        predicate_of(TABLE, plan_of(condition_rows(SparkEnvironment(spark), TABLE, text))), TABLE.all_columns
    )
