"""Rows to measure with, from a seed: store_sales like TPC-DS', a wide table of texts, keys with a value."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

SALES = (
    "ss_sold_date date, ss_sold_time_sk int, ss_item_sk int, ss_customer_sk int, ss_cdemo_sk int, ss_hdemo_sk int, "
    "ss_addr_sk int, ss_store_sk int, ss_promo_sk int, ss_ticket_number bigint, ss_quantity int, "
    "ss_wholesale_cost decimal(7,2), ss_list_price decimal(7,2), ss_sales_price decimal(7,2), "
    "ss_ext_discount_amt decimal(7,2), ss_ext_sales_price decimal(7,2), ss_ext_wholesale_cost decimal(7,2), "
    "ss_ext_list_price decimal(7,2), ss_ext_tax decimal(7,2), ss_coupon_amt decimal(7,2), ss_net_paid decimal(7,2), "
    "ss_net_paid_inc_tax decimal(7,2), ss_net_profit decimal(7,2)"
)
"""The columns of store_sales. A ticket has eight items: (ss_ticket_number, ss_item_sk) is a key."""
ITEMS = 200_000
TICKET = 8
SEED = 7
_HIGHEST = {"int": 200_000, "bigint": 2_000_000_000, "date": 1800, "decimal(7,2)": 9_999_999}
_NULLS = 25  # one value in so many


def columns(text: str) -> list[tuple[str, str]]:
    """Split a column list into names and types."""
    found = [column.split() for column in text.split(", ")]
    return [(name, kind) for name, kind in found]


def _value(place: int, name: str, kind: str) -> str:
    """Return the expression of a column: as good as random, nulls among them."""
    chance = f"xxhash64(id, {place}, {SEED})"
    number = f"CAST(pmod({chance}, {_HIGHEST[kind]}) AS INT)"
    match name, kind:
        case "ss_ticket_number", _:
            return f"id DIV {TICKET}"
        case "ss_item_sk", _:  # another one for each row of a ticket
            return f"CAST(pmod(xxhash64(id DIV {TICKET}, {SEED}) + id, {ITEMS}) + 1 AS INT)"
        case _, "date":
            number = f"date_add(DATE'1998-01-02', {number})"
        case _, "decimal(7,2)":
            number = f"CAST({number} / 100 AS DECIMAL(7,2))"
    return f"if(pmod(shiftright({chance}, 40), {_NULLS}) = 0, NULL, {number})"


def sales(spark: SparkSession, start: int, count: int, files: int) -> DataFrame:
    """Return rows ``start`` to ``start + count``."""
    return spark.range(start, start + count, numPartitions=files).selectExpr(*row())


def row() -> list[str]:
    """Return the expressions of a row, of its number ``id``."""
    return [f"{_value(i, name, kind)} AS {name}" for i, (name, kind) in enumerate(columns(SALES))]


def items(spark: SparkSession) -> DataFrame:
    """Return the dimension: every item with one of 1,000 categories."""
    return spark.range(1, ITEMS + 1, numPartitions=1).selectExpr(
        "CAST(id AS INT) AS item_sk", "CAST(pmod(id * 7919, 1000) AS INT) AS category"
    )


WIDE = ", ".join(f"s{place} string" for place in range(50))


def wide(spark: SparkSession, count: int, files: int) -> DataFrame:
    """Return rows of fifty texts of 8 to 40 characters."""
    texts = [
        f"substr(sha2(concat(id, '-{place}'), 256), 1, 8 + pmod(id + {place}, 33)) AS s{place}"
        for place in range(50)
    ]
    return spark.range(0, count, numPartitions=files).selectExpr(*texts)


NARROW = "k bigint, v int"


def narrow(spark: SparkSession, start: int, count: int, files: int) -> DataFrame:
    """Return keys with a value."""
    frame = spark.range(start, start + count, numPartitions=files)
    return frame.selectExpr("id AS k", f"CAST(pmod(xxhash64(id, {SEED}), 1000000) AS INT) AS v")
