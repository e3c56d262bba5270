"""INSERT OVERWRITE and TRUNCATE leave files; cleaning takes them, with no compaction asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.core.model import TxnId
from hiveacid.errors import NotEnoughHistoryError, TransactionAbortedError
from hiveacid.ports.transactions import TxnKind
from hiveacid.table.cleaning import clean_after_overwrite, remove_files
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.transactions.transaction import this_client

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.core.compaction.cleaning_plan import CleaningPlan
    from hiveacid.core.format.write_id_lists import ValidTxnList

pytestmark = pytest.mark.exhaustive("space only; other tests of the cleaner stay")


def test_what_was_overwritten_goes_without_a_compaction(acid: AcidSession) -> None:
    """Once nobody reads it: INSERT OVERWRITE of partitions, TRUNCATE."""
    acid.sql(
        "CREATE TABLE ow (id INT) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO ow VALUES (1, 1), (2, 2), (3, 3)")
    acid.sql("UPDATE ow SET id = id + 10 WHERE p = 1")
    location = Path(acid.table("ow").definition.location)

    def directories(p: int) -> list[str]:
        return sorted(path.name for path in (location / f"p={p}").iterdir())

    frame = acid.table("ow").to_df()
    acid.sql("INSERT OVERWRITE TABLE ow SELECT id * 2, p FROM ow WHERE p < 3")
    acid.sql("TRUNCATE TABLE ow PARTITION (p = 3)")
    acid.clean()
    assert sorted(frame.collect()) == [(2, 2), (3, 3), (11, 1)]
    del frame
    for _ in range(10):
        acid.clean()
        if len(directories(1)) == 1:
            break
    assert [directories(p) for p in (1, 2, 3)] == [
        ["base_0000003"],
        ["base_0000003"],
        ["base_0000004"],
    ]
    assert sorted(map(tuple, acid.sql("SELECT * FROM ow").collect())) == [(4, 2), (22, 1)]
    with pytest.raises(NotEnoughHistoryError):
        acid.table("ow").as_of(2).to_df()
    assert acid.table("ow").inspect.check() == ()


def overwritten(acid: AcidSession) -> Path:
    """Make a table whose first delta is obsolete; return its directory."""
    acid.sql("CREATE TABLE ow (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO ow VALUES (1)")
    acid.sql("INSERT OVERWRITE TABLE ow VALUES (2)")
    acid.context.read_leases.close()  # of the statements' results
    return Path(acid.table("ow").definition.location)


def test_a_transaction_that_was_just_being_opened_keeps_its_files(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server, the snapshot of the cleaner need not show it although its own snapshot is older."""
    location, store = overwritten(acid), acid.context.store
    (reader,) = store.open_txns(this_client(), kind=TxnKind.READ_ONLY)
    ask = store.valid_txns

    def without_the_reader() -> ValidTxnList:
        txns = ask()
        return replace(txns, high_watermark=TxnId(reader - 1), open=())

    monkeypatch.setattr(store, "valid_txns", without_the_reader)
    cleaner = OverwrittenCleaner(acid.context)
    cleaner.step(lambda _, work: work())
    assert (location / "delta_0000001_0000001_0000").exists()
    monkeypatch.undo()
    store.commit_txn(reader)
    cleaner.step(lambda _, work: work())
    assert [path.name for path in location.iterdir()] == ["base_0000002"]


def test_a_cleaner_that_slept_past_its_time_out_deletes_nothing(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is gone: the table may be another one, with directories of the same names."""
    location, store = overwritten(acid), acid.context.store
    plan = remove_files.plan_location_cleaning

    def sleep_after(*arguments: Any, **options: Any) -> CleaningPlan:
        planned = plan(*arguments, **options)
        store.abort_txns(
            [row.txn_id for row in store.show_transactions() if row.state == "OPEN"], "timed out"
        )
        return planned

    monkeypatch.setattr(clean_after_overwrite, "plan_location_cleaning", sleep_after)
    with pytest.raises(TransactionAbortedError):
        OverwrittenCleaner(acid.context).step(lambda _, work: work())
    assert (location / "delta_0000001_0000001_0000").exists()
