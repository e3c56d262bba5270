"""A few tables of Hive and Trino, taken over and gone on with; ``make interop`` does the same with all, CI with many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from continued_tables import continued, go_on, go_on_insert_only
from golden_tables import Golden, find

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

FULL_ACID = {
    "hive-3.1.3": [
        ("all_types", "2_crud"),
        ("streaming", "4_delete_and_insert_after"),
    ],
    "hive-4.0.1": [
        ("convert_orig_bucketed", "2_crud"),
        ("schema_evo", "3_int_to_bigint"),
    ],
    "trino-476": [("original", ""), ("part_ctas", "")],
}
INSERT_ONLY = [
    ("hive-3.1.3", "insert_only_orc", "3_minor_uncleaned"),
    ("hive-4.0.1", "insert_only_parquet", "5_iow_union"),
]


@pytest.mark.parametrize("engine", FULL_ACID)
def test_statements_and_compactions_on_adopted_tables(
    engine: str, adopt_golden: Callable[[Golden], AcidTable], golden_session: AcidSession
) -> None:
    tables = [adopt_golden(find(engine, *which)) for which in FULL_ACID[engine]]
    go_on(continued(golden_session, tables))


@pytest.mark.parametrize("which", INSERT_ONLY, ids="/".join)
def test_an_adopted_insert_only_table_is_filled_compacted_and_overwritten(
    which: tuple[str, str, str], adopt_golden: Callable[[Golden], AcidTable], golden_session: AcidSession
) -> None:
    go_on_insert_only(golden_session, adopt_golden(find(*which)))
