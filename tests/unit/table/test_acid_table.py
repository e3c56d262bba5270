"""`AcidTable` without a session: what it says about methods that it does not have."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from hiveacid.core.model import TableName
from hiveacid.table.acid_table import AcidTable

TABLE: Any = AcidTable(None, TableName("default", "t"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["where", "select", "filter", "groupBy", "limit"])
def test_methods_of_dataframes_are_those_of_to_df(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"a table has no {name}: use t\.to_df\(\)\.{name}"):
        getattr(TABLE, name)


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match=r"a table has no nonsense$"):
        _ = TABLE.nonsense
    assert not hasattr(TABLE, "_repr_png_")
    assert pickle.loads(pickle.dumps(TABLE)) == TABLE  # noqa: S301 - our own bytes
