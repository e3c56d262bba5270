"""Writers of native sessions, as far as they need no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hiveacid.core.model import TableName
from hiveacid.sql.native.writers import NativeMergeWriter
from hiveacid.table.context import Context
from hiveacid.table.write.merge import TableMerger
from hiveacid.table.write.publish import WriteReport
from support.contexts import open_context

STOCK = TableName("default", "stock")


@dataclass
class SmallTarget:
    """A target whose statements have their own context, as in `hiveacid.sql.native.writer_targets.Target`."""

    connection: Any

    def require_table(self) -> Any:
        """Return a definition, of which only the name is asked for."""
        return SimpleNamespace(name=STOCK)

    @contextmanager
    def statement(self, method: str) -> Iterator[Any]:
        """Provide the context of a statement."""
        yield SimpleNamespace(context=replace(self.connection.context, statement=method), joined=None)


def test_merge_into_runs_in_the_context_of_its_statement_which_the_history_records(tmp_path: Path) -> None:
    run_in: list[Context] = []

    @dataclass(frozen=True, repr=False)
    class Recorded(TableMerger):
        def execute(self) -> WriteReport:
            run_in.append(self.context)
            return WriteReport()

    context = open_context(tmp_path)
    nothing = cast("Any", None)
    writer = NativeMergeWriter(nothing, cast("Any", SmallTarget(SimpleNamespace(context=context))), nothing)
    writer.with_clause(lambda merge: Recorded(merge.context, merge.name, merge.source, merge.on)).merge()
    context.close()
    assert [each.statement for each in run_in] == ["mergeInto"]
    assert context.statement is None
