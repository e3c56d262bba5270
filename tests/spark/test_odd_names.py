"""Odd names and values: each either refused with nothing written, or kept exactly as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiveacid import errors as e
from support.corpus.untouched import nothing_written
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


@pytest.mark.sampled(6, "the cases differ in one value each")
@pytest.mark.parametrize(
    "name",
    ["..", ".", ".hiveacid", "a/b", "../up", "a.b.c", "back`tick", "a:b", "tab\tin", "new\nline", " lead", "x" * 250],
)  # fmt: skip
def test_names_that_no_table_can_have(acid: AcidSession, name: str) -> None:
    quoted = name.replace("`", "``")
    for statement in (
        f"CREATE TABLE `{quoted}` (a INT) STORED AS ORC",
        f"CREATE TABLE `{quoted}` STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 1 AS a",
        f"CREATE DATABASE `{quoted}`",
    ):
        with nothing_written(acid), pytest.raises((e.CatalogError, e.ParseError)):
            acid.sql(statement)


@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_location_that_holds_the_warehouse(acid: AcidSession, up: int) -> None:
    warehouse = Path(acid.context.warehouse)
    place = (warehouse, *warehouse.parents)[up]
    with nothing_written(acid), pytest.raises(e.CatalogError, match="warehouse"):
        acid.sql(f"CREATE TABLE x (a INT) STORED AS ORC LOCATION '{place}'")


@pytest.mark.exhaustive(
    "another case of the same test stays", cases=("_under", "1]", "name6", "quo'te", "sp ace")
)
@pytest.mark.parametrize(
    "name", ["_under", "sp ace;semi;colon", "quo'te=dou\"ble", "ünï😀", "per%41cent[x]*{y}?", "1", "x" * 200]
)  # fmt: skip
def test_odd_names_that_a_table_can_have(acid: AcidSession, name: str) -> None:
    properties = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    acid.sql(f"CREATE TABLE `{name}` (a INT, s STRING) PARTITIONED BY (p STRING) {properties}")
    acid.sql(f"INSERT INTO `{name}` VALUES (1, 'x', 'é'), (2, 'y', NULL)")
    acid.sql(f"UPDATE `{name}` SET s = 'z' WHERE a = 2")
    acid.table(name).delete("a = 1")
    acid.table(name).compact("major")
    assert [tuple(row) for row in acid.sql(f"SELECT * FROM `{name}`").collect()] == [(2, "z", None)]
    assert [row[0] for row in acid.sql("SHOW TABLES").collect()] == [name]
    acid.sql(f"DROP TABLE `{name}`")
    assert [path for path in Path(acid.context.warehouse).iterdir() if path.name != ".hiveacid"] == []


ODD_COLUMNS = ("a b", "a.b", "quo'te", 'dou"ble', "ünï", "semi;colon", "a,b", "a:b", "operation", "bucket", "row", "rowid", "originaltransaction", "currenttransaction", "c0", "__k", "select", "x" * 100)  # fmt: skip


def test_odd_column_names(acid: AcidSession) -> None:
    quoted = ["`" + name.replace("`", "``") + "`" for name in ODD_COLUMNS]
    columns = ", ".join(f"{name} INT" for name in quoted)
    acid.sql(f"CREATE TABLE odd ({columns}) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    numbers = list(range(len(ODD_COLUMNS)))
    acid.sql(f"INSERT INTO odd VALUES ({', '.join(map(str, numbers))})")
    acid.sql(
        f"INSERT INTO odd ({', '.join(quoted)}) SELECT {', '.join(f'{name} + 100' for name in quoted)} FROM odd"
    )
    acid.sql(
        "UPDATE odd SET "
        + ", ".join(f"{name} = {name} + 1000" for name in quoted)
        + f" WHERE {quoted[0]} = 0"
    )
    table = acid.table("odd")
    changed = table.merge(table.to_df(), on="t.`row` = s.`row`").when_matched_update().execute()
    assert changed.updated == 2
    table.compact("major")
    expected = sorted([tuple(n + 1000 for n in numbers), tuple(n + 100 for n in numbers)])
    assert sorted(tuple(row) for row in table.to_df().collect()) == expected
    assert sorted(tuple(row) for row in acid.sql("SELECT * FROM odd").collect()) == expected


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p INT)"])
def test_odd_names_of_struct_fields(acid: AcidSession, partitioned: str) -> None:
    """They stand in types, which statements without rows and rebalance compactions give to Spark."""
    fields = ", ".join(f"`{name}`: INT" for name in ("a b", "a.b", "a-b", "ünï", "1", "select"))
    acid.sql(
        f"CREATE TABLE odd (id INT, s STRUCT<{fields}>) {partitioned} STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    place = "PARTITION (p = 1)" if partitioned else ""
    for n in range(3):
        acid.sql(f"INSERT INTO odd {place} SELECT {n}, struct({n}, 2, 3, 4, 5, 6)")
    acid.sql("UPDATE odd SET s = struct(7, 7, 7, 7, 7, 7) WHERE s.`a b` = 1")
    acid.table("odd").compact("rebalance")
    rows = sorted((row.id, tuple(row.s)) for row in acid.table("odd").to_df().collect())
    assert rows == [(0, (0, 2, 3, 4, 5, 6)), (1, (7,) * 6), (2, (2, 2, 3, 4, 5, 6))]
    acid.sql(f"INSERT OVERWRITE TABLE odd {place} SELECT id, s FROM odd WHERE id > 5")
    assert acid.table("odd").to_df().collect() == []
    acid.sql(f"INSERT INTO odd {place} SELECT 1, NULL")
    acid.sql("TRUNCATE TABLE odd")
    assert acid.table("odd").to_df().collect() == []


def test_names_of_the_file_format_in_files_from_before(acid: AcidSession) -> None:
    """Files without row ids: what numbers their rows has names of its own."""
    # ORC takes a file with the six alone for one with row ids
    names = ("x", "operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
    columns = ", ".join(f"`{name}` BIGINT" for name in names)
    acid.sql(f"CREATE TABLE before ({columns}) PARTITIONED BY (p INT) STORED AS ORC")
    values = ", ".join(f"id * 10 + {nth}" for nth in range(len(names)))
    acid.sql(f"INSERT INTO before PARTITION (p) SELECT {values}, CAST(id % 2 AS INT) FROM range(6)")
    acid.sql("ALTER TABLE before SET TBLPROPERTIES ('transactional'='true')")
    rows = [[*range(start * 10, start * 10 + len(names)), start % 2] for start in range(6)]
    assert sorted(map(list, acid.sql("SELECT * FROM before").collect())) == rows
    acid.sql("DELETE FROM before WHERE rowid = 24")
    acid.sql("UPDATE before SET currenttransaction = -1 WHERE bucket = 43")
    rows[4][names.index("currenttransaction")] = -1
    del rows[2]
    assert sorted(map(list, acid.sql("SELECT * FROM before").collect())) == rows
    acid.table("before").compact("major")
    assert sorted(map(list, acid.sql("SELECT * FROM before").collect())) == rows


ODD_VALUES = ("a/b", "a=b", "50%", "%41", "*", "?", "[x]", "{y,z}", "line\nbreak", "tab\t", "sp ace", " lead", "trail ", ".", "..", "_x", ".y", "quo'te", 'dou"ble', "back\\slash", "a+b", "a&b#c", "ünï😀", "null", "__HIVE_X__", "x" * 200)  # fmt: skip


def test_odd_partition_values(spark: SparkSession, acid: AcidSession) -> None:
    values = sample(ODD_VALUES, 6)
    acid.sql(
        "CREATE TABLE odd (a INT) PARTITIONED BY (p STRING, q STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    rows = [(i, value, value) for i, value in enumerate(values)]
    acid.table("odd").insert(
        spark.createDataFrame([*rows, (900, "", "e"), (901, None, "n")], "a int, p string, q string")
    )
    rows += [(900, None, "e"), (901, None, "n")]  # an empty text is the default partition, as in Hive
    assert seen(acid) == sorted(rows, key=str)
    acid.sql("UPDATE odd SET a = a + 1000")
    rows = [(a + 1000, p, q) for a, p, q in rows]
    for a, p, _ in rows[:-2]:
        found = acid.table("odd").scan(where=f"p = {literal(p)}").to_df().collect()
        assert [tuple(row) for row in found] == [(a, p, p)]
        if a % 5 == 0:
            acid.sql(f"INSERT INTO odd PARTITION (p = {literal(p)}, q = {literal(p)}) VALUES (5)")
            rows.append((5, p, p))
    for value in values[::4]:  # of some of them the insert made a second delta
        acid.table("odd").compact("major", partition={"p": value})
    assert seen(acid) == sorted(rows, key=str)
    names = [row[0] for row in acid.sql("SHOW PARTITIONS odd").collect()]
    assert len(names) == len(set(names)) == len(values) + 2
    gone = values[::6]
    for value in gone:
        acid.sql(f"ALTER TABLE odd DROP PARTITION (p = {literal(value)})")
    assert seen(acid) == sorted((row for row in rows if row[1] not in gone), key=str)


def literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"'{escaped}'"


def seen(acid: AcidSession) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in acid.table("odd").to_df().collect()), key=str)


def test_a_partition_value_too_long_for_a_directory(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE long (a INT) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    for statement in (
        f"INSERT INTO long VALUES (1, 'short'), (2, '{'x' * 300}')",
        f"INSERT INTO long PARTITION (p = '{'x' * 300}') VALUES (1)",
        f"ALTER TABLE long ADD PARTITION (p = '{'x' * 300}')",
    ):
        with (
            nothing_written(acid, "long"),
            pytest.raises(e.StorageError, match=r"(?i)too long|cannot create|Mkdirs failed"),
        ):
            acid.sql(statement)


def test_nulls_everywhere(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE nulls (a INT, s STRING, l ARRAY<INT>, m MAP<STRING, INT>) PARTITIONED BY (p STRING, q INT) "
        "CLUSTERED BY (a) INTO 3 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql(
        "INSERT INTO nulls VALUES (NULL, NULL, NULL, NULL, NULL, NULL), (1, NULL, array(NULL), NULL, 'x', NULL)"
    )
    acid.sql("UPDATE nulls SET s = 'was null' WHERE a IS NULL")
    acid.sql("UPDATE nulls SET m = map('k', NULL) WHERE s = NULL OR a = 1")
    acid.sql(
        """MERGE INTO nulls t USING (SELECT CAST(NULL AS INT) AS k, 'n' AS s UNION ALL SELECT 1, NULL) s ON t.a = s.k
           WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (a, s) VALUES (s.k, s.s)"""
    )
    acid.table("nulls").delete("s = NULL")
    acid.table("nulls").compact("major")
    rows = sorted((tuple(row) for row in acid.table("nulls").to_df().collect()), key=str)
    assert rows == sorted(
        [
            (None, "was null", None, None, None, None),
            (1, None, [None], {"k": None}, "x", None),
            (None, "n", None, None, None, None),
        ],
        key=str,
    )
