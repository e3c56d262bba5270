"""What a stream wrote is read, changed and compacted by the other verbs as what an INSERT wrote."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hiveacid.streaming import Connection

if TYPE_CHECKING:
    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TYPES = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(38,10), c CHAR(4), "
    "v VARCHAR(3), bin BINARY, day DATE, at TIMESTAMP, a ARRAY<STRUCT<x:INT,day:DATE>>, mp MAP<STRING,TIMESTAMP>"
)
OLD = "1500-01-01 01:02:03.25"
TIMES = (
    "2024-07-01 12:00:00.123456", "1969-12-31 20:00:00.5", "1969-12-31 23:59:58.999999", OLD,
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00",
)  # fmt: skip
DAYS = ("1500-02-28", "1582-10-04", "1582-10-15", "1970-01-01", "9999-12-31", "0001-01-01")


def stream(acid: AcidSession, table: str, **options: Any) -> Connection:
    return Connection(table, store=acid.context.store, **options)  # type: ignore[arg-type]


def rows(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in acid.sql(query).collect()]


def test_values_of_every_type_are_those_that_spark_writes(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE streamed (k INT, {TYPES}) {ACID}")
    acid.sql(f"CREATE TABLE inserted (k INT, {TYPES}) {ACID}")
    base: dict[str, Any] = {
        "b": True, "t": -128, "s": 32767, "i": -(1 << 31), "l": (1 << 63) - 1, "f": 1.5, "d": float("nan"),
        "m": Decimal("-1234567890123456789012345678.0123456789"), "c": "é", "v": "abcdef", "bin": b"\x00\xff",
    }  # fmt: skip
    given = []
    for at, text in enumerate(TIMES):
        when = datetime.fromisoformat(text)
        day = date.fromisoformat(DAYS[at % len(DAYS)])
        given.append(
            base | {"k": at, "at": when, "day": day, "a": [{"x": at, "day": day}, None], "mp": [("k", when)]}
        )
    given.append({"k": 99})
    with stream(acid, "streamed") as out:
        for part in (given[:1], given[1:]):  # the first by Arrow, the second by pyorc
            out.begin_transaction()
            out.write(part)
            out.commit()
    for row in given[:-1]:
        acid.sql(
            f"INSERT INTO inserted SELECT {row['k']}, true, -128, 32767, -2147483648, 9223372036854775807, 1.5, "
            "double('NaN'), -1234567890123456789012345678.0123456789, 'é', 'abc', X'00FF', "
            f"DATE '{row['day'].isoformat()}', TIMESTAMP '{row['at'].isoformat(' ')}', "
            f"array(named_struct('x', {row['k']}, 'day', DATE '{row['day'].isoformat()}'), NULL), "
            f"map('k', TIMESTAMP '{row['at'].isoformat(' ')}')"
        )
    acid.sql("INSERT INTO inserted (k) VALUES (99)")
    names = [
        part.split()[0]
        for part in f"k INT, {TYPES.replace('<x:INT,', '<x:INT;').replace('G,T', 'G;T')}".split(", ")
    ]
    wanted = ", ".join(f"cast({name} AS string)" for name in names)
    assert rows(acid, f"SELECT {wanted} FROM streamed ORDER BY k") == rows(
        acid, f"SELECT {wanted} FROM inserted ORDER BY k"
    )
    times = rows(acid, "SELECT cast(at AS string), cast(day AS string) FROM streamed WHERE k < 90 ORDER BY k")
    assert times == [(text, DAYS[at % len(DAYS)]) for at, text in enumerate(TIMES)]


@pytest.mark.exhaustive("unit/streaming reads open batches without Spark")
def test_streamed_rows_are_read_while_the_batch_is_open_and_then_changed_and_compacted(
    acid: AcidSession,
) -> None:
    acid.sql(
        f"CREATE TABLE t (id INT, name STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 3 BUCKETS {ACID}"
    )
    numbers = list(range(300))
    with stream(acid, "t") as out:

        def send(some: list[int]) -> None:
            out.begin_transaction()
            out.write(pa.table({"id": some, "name": [f"n{n}" for n in some], "p": [n % 2 for n in some]}))

        send(numbers[:100])
        assert rows(acid, "SELECT count(*) FROM t") == [(0,)]
        out.commit()
        early = acid.table("t").to_df()
        assert rows(acid, "SELECT count(*), sum(id) FROM t") == [(100, sum(numbers[:100]))]
        send([-1, -2])
        for file in out._current._files.values():  # type: ignore[union-attr]
            file.spill()
        assert early.count() == 100
        assert rows(acid, "SELECT count(*) FROM t WHERE id < 0") == [(0,)]
        out.abort()
        send(numbers[100:200])
        out.commit()
        assert rows(acid, "SELECT count(*), sum(id) FROM t") == [(200, sum(numbers[:200]))]
        acid.sql("DELETE FROM t WHERE id = 150")
        send(numbers[200:])
        out.commit()
        assert early.count() == 100
    assert not [one for one in acid.table("t").inspect.check() if one.severity == "damage"]
    acid.sql("INSERT INTO t PARTITION (p) VALUES (150, 'again', 0)")
    acid.sql("UPDATE t SET name = 'x' WHERE id IN (0, 250)")
    want = [(n, "x" if n in (0, 250) else "again" if n == 150 else f"n{n}", n % 2) for n in numbers]
    query = "SELECT id, name, p FROM t ORDER BY id"
    assert rows(acid, query) == want
    buckets = {
        row[1]: row[0] for row in rows(acid, "SELECT ROW__ID.bucketid, id FROM t WHERE id IN (150, 153, 156)")
    }
    assert len(buckets) == 3
    for p in (0, 1):
        acid.sql(f"ALTER TABLE t PARTITION (p={p}) COMPACT 'major' AND WAIT")
    acid.clean()
    assert rows(acid, query) == want
    assert [one for one in acid.table("t").inspect.check() if one.severity == "damage"] == []


def test_insert_only_tables_and_buckets_agree_with_spark(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE o (id INT, c CHAR(3), at TIMESTAMP) STORED AS ORC TBLPROPERTIES "
        "('transactional'='true','transactional_properties'='insert_only')"
    )
    with stream(acid, "o") as out:
        for number in (1, 2):
            with out.transaction():
                out.write([{"id": number, "c": "x", "at": datetime.fromisoformat(OLD)}])
    assert rows(acid, "SELECT id, c, cast(at AS string) FROM o ORDER BY id") == [
        (1, "x  ", OLD),
        (2, "x  ", OLD),
    ]
    acid.sql(f"CREATE TABLE s (id BIGINT, w STRING) CLUSTERED BY (w, id) INTO 7 BUCKETS {ACID}")
    acid.sql(f"CREATE TABLE j (id BIGINT, w STRING) CLUSTERED BY (w, id) INTO 7 BUCKETS {ACID}")
    acid.sql("INSERT INTO j SELECT id, concat('w', id % 11) FROM range(100)")
    with stream(acid, "s") as out, out.transaction():
        out.write([{"id": n, "w": f"w{n % 11}"} for n in range(100)])
    query = "SELECT ROW__ID.bucketid, id, w FROM {} ORDER BY id"
    assert rows(acid, query.format("s")) == rows(acid, query.format("j"))
