"""The inputs and outputs that lineage tells of statements, DataFrames and transactions."""

from __future__ import annotations

import json
from pathlib import Path

from hiveacid.sql.native.session import NativeSession
from hiveacid.transactions.lineage import sender_of_process

CREATE = "CREATE TABLE {} (id INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def test_inputs_and_outputs(native: NativeSession, tmp_path: Path) -> None:
    file = tmp_path / "events"
    native.sql(f"SET hiveacid.openlineage.to=file://{file}")
    for name in ("a", "b", "c"):
        native.sql(CREATE.format(name))
    native.sql("CREATE TABLE p USING parquet AS SELECT 1 AS id, 'k' AS v")
    native.sql("INSERT INTO b VALUES (1, 'x'), (2, 'y')")
    native.sql("INSERT INTO c SELECT * FROM b")
    native.sql("INSERT INTO a SELECT p.* FROM p JOIN b q ON q.id = p.id WHERE p.id IN (SELECT id FROM c)")
    native.sql("INSERT OVERWRITE a SELECT * FROM a")
    native.sql("DELETE FROM a WHERE id IN (SELECT id FROM b WHERE id = 2)")
    native.sql("MERGE INTO b USING c ON c.id = b.id WHEN MATCHED THEN UPDATE SET v = c.v")
    native.table("b").alias("z").writeTo("a").append()
    table = native.acid.table("a")
    table.merge(native.table("c"), "t.id = s.id").when_not_matched_insert().execute()
    for statement in ("START TRANSACTION", "INSERT INTO a VALUES (5, 'q')", "UPDATE b SET v = 'w'", "COMMIT"):
        native.sql(statement)
    native.sql("DROP TABLE p")
    sender_of_process().flush(60)
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [
        (event["job"]["name"].replace("default.", ""), [i["name"].removeprefix("default.") for i in event["inputs"]])
        for event in events
    ] == [
        ("insert b", []),
        ("insert c", ["b"]),
        ("insert a", ["b", "c", "p"]),
        ("insert overwrite a", ["a"]),
        ("delete a", ["a", "b"]),
        ("merge b", ["b", "c"]),
        ("insert a", ["b"]),
        ("merge a", ["a", "c"]),
        ("insert a, update b", ["b"]),
    ]  # fmt: skip
    rows = [event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for event in events]
    assert rows == [2, 2, 1, 1, 0, 2, 2, 0, 1]
