"""Compares the files of a table with what commits have recorded of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.core.snapshot.check_findings import FindingKind
from hiveacid.orc.footer_summary import read_summary, summary_of
from hiveacid.ports.store import own_store
from hiveacid.table.check_files import check_quick
from hiveacid.table.partitions import partitions_of

if TYPE_CHECKING:
    from hiveacid import AcidSession, AcidTable
    from hiveacid.table.context import Context


def require_recorded(acid: AcidSession, table: AcidTable) -> None:
    """Assert that the records of a table are complete and true, with all facts of its footers."""
    assert recorded_files(acid.context, table) > -1


def recorded_files(context: Context, table: AcidTable) -> int:
    """Return how many files are recorded and there, each with its footer's facts; fail if the records are not complete."""
    definition = table.definition
    partitions = partitions_of(context, definition)
    records = own_store(context.store).recorded_files(definition.name, partitions)
    assert records is not None, f"the records of {definition.name} are not complete"
    found = check_quick(context, definition, partitions)
    assert [one for one in found if one.kind is FindingKind.WRONG_RECORD] == []
    roots = {(): definition.location} | {one.key: one.location for one in partitions or ()}
    count = 0
    for key, directories in records.items():
        for directory in directories:
            for file in directory.files:
                path = f"{roots[key]}/{directory.name}/{file.name}"
                count += 1
                if file.facts is not None:
                    assert summary_of(file.facts) == read_summary(context.fs, path, file.size), path
    return count
