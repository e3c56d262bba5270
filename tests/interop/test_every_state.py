"""Every state of every table in the corpus: read as its engine read it, checked, changed, compacted, read again.

The states of one scenario go together: each statement runs on all of them before one query looks at all.
HIVEACID_TEST_COUNT=2 takes two states of each scenario: those of ALWAYS, others as HIVEACID_TEST_SEED (1) draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.snapshot.check_findings import Finding, FindingKind, Severity
from support.corpus.continued_tables import continued, go_on, go_on_insert_only, read_together
from support.corpus.engine_rows import assert_as_the_engine_read
from support.corpus.golden_tables import Golden, find, scenarios
from support.exhaustive import COUNT, steady_seed

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

# What each engine is known to write in a way of its own: never left to chance.
ALWAYS = {
    ("hive-3.1.3", "all_types", "2_crud"),
    ("hive-3.1.3", "streaming", "4_delete_and_insert_after"),
    ("hive-3.1.3", "insert_only_orc", "3_minor_uncleaned"),
    ("hive-4.0.1", "convert_orig_bucketed", "2_crud"),
    ("hive-4.0.1", "schema_evo", "3_int_to_bigint"),
    ("hive-4.0.1", "insert_only_parquet", "5_iow_union"),
}

Adopt = Callable[[Golden], "AcidTable"]


def of_kind(kind: str) -> list[tuple[str, str]]:
    return sorted({(g.engine, g.scenario) for g in scenarios() if g.transactional == kind})


def some(goldens: Sequence[Golden]) -> Sequence[Golden]:
    if not 0 < COUNT < len(goldens):
        return goldens
    always = [one for one in goldens if (one.engine, one.scenario, one.snapshot) in ALWAYS]
    others = [one for one in goldens if one not in always]
    dice = Random(f"{steady_seed()} {goldens[0].engine} {goldens[0].scenario}")
    return [*always, *dice.sample(others, COUNT - len(always))]


def taken_over(which: tuple[str, str], kind: str, adopt: Adopt) -> list[AcidTable]:
    """Adopt all states of a scenario; look whether they are read as the engine read them, and undamaged."""
    found = [one for one in scenarios(engine=which[0], scenario=which[1]) if one.transactional == kind]
    goldens = some(found)
    tables = {str(golden): adopt(golden) for golden in goldens}
    frames = {name: table.scan(row_ids=kind == "full").to_df() for name, table in tables.items()}
    read = read_together(frames)
    for golden in goldens:
        assert_as_the_engine_read(golden, read[str(golden)], frames[str(golden)].schema)
    assert_undamaged(list(tables.values()))
    return list(tables.values())


def assert_undamaged(tables: Sequence[AcidTable], *, quick: bool = False) -> None:
    assert [
        (table.definition.location, one)
        for table in tables
        for one in table.inspect.check(quick=quick)
        if one.severity is Severity.DAMAGE and not is_of_hive(one)
    ] == []


def is_of_hive(found: Finding) -> bool:
    """Tell whether damage is Hive's own.

    Hive 3.1.3 left the row of ``INSERT OVERWRITE … SELECT 100 + id`` in the bucket that its source has: 4 belongs
    to bucket 2 of 3, and 104 does not.
    """
    return found.kind is FindingKind.WRONG_HASH_BUCKET and found.partition == "p=y/q=1"


@pytest.mark.parametrize("which", of_kind("full"), ids="/".join)
def test_full_acid_tables_go_on(
    which: tuple[str, str], adopt_golden: Adopt, golden_session: AcidSession
) -> None:
    tables = taken_over(which, "full", adopt_golden)
    go_on(continued(golden_session, tables))
    assert_undamaged(tables, quick=True)


@pytest.mark.parametrize("which", of_kind("insert_only"), ids="/".join)
def test_insert_only_tables_go_on(
    which: tuple[str, str], adopt_golden: Adopt, golden_session: AcidSession
) -> None:
    tables = taken_over(which, "insert_only", adopt_golden)
    for table in tables:
        go_on_insert_only(golden_session, table)
    assert_undamaged(tables, quick=True)


@pytest.mark.parametrize("which", of_kind("none"), ids="/".join)
def test_tables_of_the_time_before_their_conversion_go_on(
    which: tuple[str, str], adopt_golden: Adopt, golden_session: AcidSession
) -> None:
    (table,) = taken_over(which, "none", adopt_golden)
    golden_session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('transactional'='true')")
    converted = find(*which, "1_converted")
    frame = table.scan(row_ids=True).to_df()
    assert_as_the_engine_read(converted, read_together({"t": frame})["t"], frame.schema)
    go_on(continued(golden_session, [table]))
    assert_undamaged([table], quick=True)
