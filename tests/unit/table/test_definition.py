"""Rules that every definition of a table keeps."""

from __future__ import annotations

import pytest

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.errors import ConfigError
from hiveacid.table.cleaning.remove_files import history_retention
from hiveacid.table.definition import check_definition
from support.samples import ORC


def table_with_retention(text: str) -> TableDefinition:
    properties = (("transactional", "true"), ("hiveacid.history.retention", text))
    return TableDefinition(TableName("d", "t"), (Column("id", "int"),), ORC, "/t", properties=properties)


@pytest.mark.parametrize("text", ["soon", "-1", "-7d"])
def test_a_retention_that_is_no_time_to_come_is_refused(text: str) -> None:
    """A negative one would keep nothing."""
    with pytest.raises(ConfigError, match=r"hiveacid\.history\.retention: .*" + text):
        check_definition(table_with_retention(text))


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90", 90), ("7d", 604_800)])
def test_a_retention_is_a_duration(text: str, seconds: int) -> None:
    table = table_with_retention(text)
    check_definition(table)
    assert history_retention(table) == seconds
