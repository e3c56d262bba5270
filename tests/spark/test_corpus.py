"""Tables of Hive and Trino, taken over as they lie on disk, read exactly as the engine read them.

All states of a scenario are read by one query: the same statement on each would take most of the time. What
`tests/interop` does with the same states begins with the same comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.corpus.continued_tables import read_together
from support.corpus.engine_rows import assert_as_the_engine_read
from support.corpus.golden_tables import REPEATED_TABLES, Golden, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiveacid.table.acid_table import AcidTable


@pytest.mark.exhaustive("tables of the same engine with the same kinds of files stay", cases=REPEATED_TABLES)
@pytest.mark.parametrize("which", sorted({(g.engine, g.scenario) for g in scenarios()}), ids="/".join)
def test_tables_read_as_their_engine_reads_them(
    which: tuple[str, str], adopt_golden: Callable[[Golden], AcidTable]
) -> None:
    goldens = {golden.snapshot: golden for golden in scenarios(engine=which[0], scenario=which[1])}
    frames = {
        name: adopt_golden(golden).scan(row_ids=golden.transactional == "full").to_df()
        for name, golden in goldens.items()
    }
    read = read_together(frames)
    for name, golden in goldens.items():
        assert_as_the_engine_read(golden, read[name], frames[name].schema)
