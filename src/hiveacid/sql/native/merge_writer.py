"""``DataFrame.mergeInto`` of a native session: Spark 4's merge builder on a transactional table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.sql.native.targets import Target
from hiveacid.table.write.merge import Merge

Values = Mapping[str, "Column"]


class NativeMergeWriter:
    """Clauses of a MERGE as Spark's ``MergeIntoWriter`` collects them; `merge` runs it.

    Expressions name the target's columns by the table's name, the source's as in the source DataFrame.
    """

    def __init__(self, source: DataFrame, target: Target, condition: Column) -> None:
        """Merge ``source`` into a hiveacid table."""
        table = target.require_table()
        self._target = target
        self._prepared = Merge(
            target.session.context, table.name, source, condition, None, table.name.name, None
        )

    def whenMatched(self, condition: Column | None = None) -> _WhenMatched:  # noqa: N802 - Spark's name
        """Begin a clause for rows of both sides."""
        return _WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> _WhenNotMatched:  # noqa: N802
        """Begin a clause for rows of the source only."""
        return _WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _WhenNotMatchedBySource:  # noqa: N802
        """Begin a clause for rows of the target only."""
        return _WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> NativeMergeWriter:  # noqa: N802
        """Refuse schema evolution. Raises UnsupportedFeatureError."""
        raise UnsupportedFeatureError(
            "mergeInto: withSchemaEvolution is not supported: ALTER TABLE ... ADD COLUMNS first"
        )

    def merge(self) -> None:
        """Run the MERGE."""
        self._target.run(
            "mergeInto", lambda execution: replace(self._prepared, joined=execution.joined).execute()
        )

    def with_clause(self, add: Callable[[Merge], Merge]) -> NativeMergeWriter:
        """Add a clause."""
        self._prepared = add(self._prepared)
        return self


@dataclass(frozen=True)
class _WhenMatched:
    writer: NativeMergeWriter
    condition: Column | None

    def updateAll(self) -> NativeMergeWriter:  # noqa: N802 - Spark's name
        return self.writer.with_clause(lambda merge: merge.when_matched_update(None, self.condition))

    def update(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_update(assignments, self.condition))

    def delete(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_delete(self.condition))


@dataclass(frozen=True)
class _WhenNotMatched:
    writer: NativeMergeWriter
    condition: Column | None

    def insertAll(self) -> NativeMergeWriter:  # noqa: N802 - Spark's name
        return self.writer.with_clause(lambda merge: merge.when_not_matched_insert(None, self.condition))

    def insert(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(
            lambda merge: merge.when_not_matched_insert(assignments, self.condition)
        )


@dataclass(frozen=True)
class _WhenNotMatchedBySource:
    writer: NativeMergeWriter
    condition: Column | None

    def updateAll(self) -> NativeMergeWriter:  # noqa: N802 - Spark's name
        raise UnsupportedFeatureError(
            "mergeInto: whenNotMatchedBySource has no source row to take values from: use update({...})"
        )

    def update(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(
            lambda merge: merge.when_not_matched_by_source_update(assignments, self.condition)
        )

    def delete(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_not_matched_by_source_delete(self.condition))
