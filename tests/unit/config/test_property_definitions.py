"""Table properties: one registry of all that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hiveacid
from hiveacid.config import property_definitions
from hiveacid.config.property_definitions import SECTIONS, TABLE_PROPERTIES, TableProperty
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import ConfigError

CODE = Path(hiveacid.__file__).parent
# The modules that define names; `transactional` is also a word of Trino's WITH clause.
DEFINING = {
    "config/property_definitions.py",
    "config/setting_definitions.py",
    "core/model.py",
    "sql/grammar/table_clauses.py",
}
DEFINING |= {"core/schema/storage_formats.py", "core/schema/evolution.py"}
READERS_OPTION = ("spark/formats/file_columns.py", "orc.force.positional.evolution")


def constants() -> dict[str, TableProperty]:
    return {name: one for name, one in vars(property_definitions).items() if isinstance(one, TableProperty)}


def test_every_constant_is_in_one_section() -> None:
    listed = [one for section in SECTIONS for one in section.entries]
    assert sorted(one.name for one in constants().values()) == sorted(one.name for one in listed)
    assert len(TABLE_PROPERTIES) == len(listed)
    assert all(one.doc.endswith(".") for one in listed)


@pytest.mark.parametrize("constant", sorted(constants()))
def test_code_reads_every_property(constant: str) -> None:
    use = re.compile(rf"\b{constant}\b(?! = TableProperty)")
    assert any(use.search(path.read_text(encoding="utf-8")) for path in CODE.rglob("*.py"))


@pytest.mark.parametrize("constant", sorted(constants()))
def test_each_kind_is_known(constant: str) -> None:
    """A misspelt kind would validate nothing."""
    kind = constants()[constant].kind
    if kind in {"bool", "int", "duration", "fraction", "quiet hours"} or " | " in kind:
        with pytest.raises(ConfigError):
            constants()[constant].check("rubbish")
    else:
        assert kind in {"text", "true", "byte", "list of int", "as the setting NAME"}


def test_no_other_module_spells_a_property() -> None:
    spelled = set()
    for path in CODE.rglob("*.py"):
        name = path.relative_to(CODE).as_posix()
        if name not in DEFINING:
            texts = set(re.findall(r'"([a-zA-Z0-9_.]+)"', path.read_text(encoding="utf-8")))
            spelled |= {(name, text) for text in texts if text in TABLE_PROPERTIES}
    assert spelled - {READERS_OPTION} == set()


def test_a_table_has_a_property_whatever_its_case() -> None:
    table = TableDefinition(TableName("d", "t"), (), ORC, "/t", properties=(("ORC.Compress", "LZ4"),))
    assert property_definitions.ORC_COMPRESS.of(table) == "LZ4"
    assert property_definitions.MIGRATION.of(table) is None
