"""Statements of a cluster test, whose rows are compared with a model in Python after each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiveacid.errors import CompactionRefusedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

Rows = dict[int, tuple[str, int]]
"""By id: a text, and the partition."""
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_SIZE = 600


def require(sql: Callable[[str], DataFrame], table: str, model: Rows, after: str) -> None:
    """Raise AssertionError unless a table holds exactly the rows of a model."""
    found = sorted(tuple(row) for row in sql(f"SELECT id, v, p FROM {table}").collect())
    wanted = sorted((number, text, part) for number, (text, part) in model.items())
    wrong = sorted(set(found) ^ set(wanted))[:10]
    assert found == wanted, f"{table} after {after}: {len(found)} rows, not {len(wanted)}: {wrong}"


def verbs(sql: Callable[[str], DataFrame], prefix: str) -> Mapping[str, int]:
    """Run every verb on a full ACID and an insert-only table; return how many rows each holds at the end."""
    full, only = f"{prefix}_full", f"{prefix}_only"
    columns = "(id BIGINT, v STRING) PARTITIONED BY (p INT)"
    sql(f"CREATE TABLE {full} {columns} {ACID}")
    sql(f"CREATE TABLE {only} {columns} {ACID[:-1]}, 'transactional_properties'='insert_only')")
    model: Rows = {number: ("a", number % 3) for number in range(_SIZE)}
    sql(f"INSERT INTO {full} SELECT id, 'a', CAST(id % 3 AS INT) FROM range({_SIZE})")
    require(sql, full, model, "INSERT")
    model |= {number: ("u", number % 3) for number in range(0, _SIZE, 10)}
    sql(f"UPDATE {full} SET v = 'u' WHERE id % 10 = 0")
    require(sql, full, model, "UPDATE")
    model = {number: row for number, row in model.items() if number % 7}
    sql(f"DELETE FROM {full} WHERE id % 7 = 0")
    require(sql, full, model, "DELETE")
    _compact(sql, f"ALTER TABLE {full} PARTITION (p = 1) COMPACT 'minor' AND WAIT")
    require(sql, full, model, "a minor compaction")
    model = _merge(sql, full, model)
    require(sql, full, model, "MERGE")
    _compact(sql, f"ALTER TABLE {full} PARTITION (p = 0) COMPACT 'major' AND WAIT")
    require(sql, full, model, "a major compaction")
    kept = {number: row for number, row in model.items() if row[1] != 2}
    model = kept | dict.fromkeys(range(5000, 5050), ("o", 2))
    sql(f"INSERT OVERWRITE TABLE {full} PARTITION (p = 2) SELECT id, 'o' FROM range(5000, 5050)")
    require(sql, full, model, "INSERT OVERWRITE")
    inserted = {number: row for number, row in model.items() if row[1] != 1}
    sql(f"INSERT INTO {only} SELECT * FROM {full} WHERE p <> 1")
    require(sql, only, inserted, "INSERT … SELECT")
    inserted = {number: row for number, row in inserted.items() if row[1] != 0}
    sql(f"TRUNCATE TABLE {only} PARTITION (p = 0)")
    _compact(sql, f"ALTER TABLE {only} PARTITION (p = 2) COMPACT 'major' AND WAIT")
    require(sql, only, inserted, "TRUNCATE and a compaction")
    sql(f"CREATE TABLE {prefix}_copy {ACID} AS SELECT * FROM {full}")
    require(sql, f"{prefix}_copy", model, "CREATE TABLE AS")
    sql(f"DROP TABLE {prefix}_copy")
    return {full: len(model), only: len(inserted)}


def _compact(sql: Callable[[str], DataFrame], text: str) -> None:
    with suppress(
        CompactionRefusedError
    ):  # the initiator of services was first, and its job is not cleaned yet
        sql(text)


def _merge(sql: Callable[[str], DataFrame], table: str, model: Rows) -> Rows:
    low, high = _SIZE // 2, _SIZE * 3 // 2
    sql(
        f"""MERGE INTO {table} USING (SELECT id FROM range({low}, {high})) s ON {table}.id = s.id
        WHEN MATCHED AND {table}.id % 2 = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = 'm'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', CAST(s.id % 3 AS INT))"""
    )
    merged = dict(model)
    for number in range(low, high):
        if number not in model:
            merged[number] = ("n", number % 3)
        elif number % 2:
            merged[number] = ("m", number % 3)
        else:
            del merged[number]
    return merged


def merged_stream(spark: SparkSession, acid: AcidSession) -> Mapping[str, int]:
    """Merge three batches by ``foreachBatch``, the query being stopped and started after the first one."""
    acid.sql(f"CREATE TABLE s (id BIGINT, v STRING, p INT) {ACID}")
    model: Rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        source, checkpoint = Path(scratch, "source"), Path(scratch, "checkpoint")
        source.mkdir()
        for batches in ((0,), (1, 2)):
            for batch in batches:
                rows: Rows = dict.fromkeys(range(batch * 50, batch * 50 + 100), (f"b{batch}", batch))
                model |= rows
                lines = [
                    json.dumps({"id": number, "v": text, "p": part}) for number, (text, part) in rows.items()
                ]
                (source / f"{batch}.json").write_text("\n".join(lines), encoding="utf-8")
            frame = spark.readStream.schema("id BIGINT, v STRING, p INT").option("maxFilesPerTrigger", 1)
            writer: Any = acid.table("s").stream_writer("cluster", merge_on="id")
            into = frame.json(str(source)).writeStream.foreachBatch(writer)
            into = into.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            into.start().awaitTermination()
            require(acid.sql, "s", model, "foreachBatch")
    return {"s": len(model)}
