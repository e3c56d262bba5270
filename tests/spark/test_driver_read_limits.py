"""What the driver may read for an UPDATE or DELETE, in bytes of columns and stripes, with a local master and on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from hiveacid.spark.session import environment
from hiveacid.table.write import update_delete

if TYPE_CHECKING:
    from hiveacid import AcidSession


@pytest.mark.parametrize("local", [True, False])
def test_what_a_statement_reads_counts_not_the_size_of_the_table(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch, *, local: bool
) -> None:
    if not local:
        monkeypatch.setattr(environment, "is_local_master", lambda _: False)
    monkeypatch.setattr(update_delete, "ChangesByJob", lambda *_, **__: pytest.fail("a job would run"))
    assert acid.context.env.local is local
    acid.context.env.executor_python.usable = False  # else executors read what the driver does not
    acid.sql("CREATE TABLE big (k INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO big SELECT /*+ REPARTITION(10) */ id, sha2(string(id), 256) FROM range(1000)")
    files = acid.sql("SELECT * FROM big").inputFiles()
    assert len(files) == 10
    total = sum(Path(unquote(urlsplit(file).path)).stat().st_size for file in files)
    assert total > 40_000
    acid.sql(
        f"SET hiveacid.small.changes.max.bytes = {total // 40}"
    )  # 16 times this limit are enough for k, and for half of the files
    assert acid.table("big").delete("k = 1").deleted == 1
    assert acid.table("big").delete("abs(k) = 502 AND k > 300 AND k < 700").deleted == 1  # Spark judges few
    assert acid.table("big").update({"v": "'new'"}, "k IN (3, 4, 5)").updated == 3
    for statement in (
        "DELETE FROM big WHERE v > 'c'",  # the other column
        "UPDATE big SET v = 'new' WHERE k > 5",  # all stripes
    ):
        with pytest.raises(pytest.fail.Exception, match="a job would run"):
            acid.sql(statement)
    assert acid.sql("SELECT count(*), count_if(v = 'new') FROM big").collect() == [(998, 3)]
