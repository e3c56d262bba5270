"""DataFrames of native sessions: their ``write``, ``writeTo`` and ``mergeInto`` know transactional tables.

The DataFrames of all sessions have one class. `replace_writers` therefore replaces members of that class until the native
session is closed. DataFrames of other applications' sessions still get Spark's own members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.sql.native.writer_targets import Target, WriterSession
from hiveacid.sql.native.writers import NativeWriter, NativeWriterV2
from hiveacid.table.write.merge import Merge

Values = Mapping[str, "Column"]


class NativeMergeWriter:
    """Clauses of a MERGE as Spark's ``MergeIntoWriter`` collects them; `merge` runs it.

    Expressions name a column of the target with the table's name before it, and a column of the source as its DataFrame does.
    """

    def __init__(self, source: DataFrame, target: Target, condition: Column) -> None:
        """Merge ``source`` into a hiveacid table."""
        table = target.require_table()
        self._target = target
        self._prepared = Merge(
            target.connection.context,
            table.name,
            source,
            condition,
            target_name=table.name.name,
            source_name=None,
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
class _When:
    writer: NativeMergeWriter
    condition: Column | None


class _WhenMatched(_When):
    def updateAll(self) -> NativeMergeWriter:  # noqa: N802 - Spark's name
        return self.writer.with_clause(lambda merge: merge.when_matched_update(None, self.condition))

    def update(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_update(assignments, self.condition))

    def delete(self) -> NativeMergeWriter:
        return self.writer.with_clause(lambda merge: merge.when_matched_delete(self.condition))


class _WhenNotMatched(_When):
    def insertAll(self) -> NativeMergeWriter:  # noqa: N802 - Spark's name
        return self.writer.with_clause(lambda merge: merge.when_not_matched_insert(None, self.condition))

    def insert(self, assignments: Values) -> NativeMergeWriter:
        return self.writer.with_clause(
            lambda merge: merge.when_not_matched_insert(assignments, self.condition)
        )


class _WhenNotMatchedBySource(_When):
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


_VIEW_MEMBERS = (
    "createTempView",
    "createOrReplaceTempView",
    "createGlobalTempView",
    "createOrReplaceGlobalTempView",
)
_MEMBERS = ("write", "writeTo", "mergeInto", *_VIEW_MEMBERS)  # mergeInto: Spark 4.0 and later


def replace_writers(
    frame_class: Any, native_session: Callable[[SparkSession], WriterSession | None]
) -> Callable[[], None]:
    """Replace the writers of a DataFrame class; return the function that restores them.

    ``native_session``: returns the native session for a DataFrame's session, None for Spark's own writers. A native session
    that is made later replaces the members again. Its members stay if this session is closed first.
    """
    own = {name: frame_class.__dict__[name] for name in _MEMBERS if name in frame_class.__dict__}

    def write(frame: Any) -> Any:
        native = native_session(frame.sparkSession)
        return own["write"].fget(frame) if native is None else NativeWriter(frame, native)

    def write_to(frame: Any, table: str) -> Any:
        native = native_session(frame.sparkSession)
        return own["writeTo"](frame, table) if native is None else NativeWriterV2(frame, table, native)

    def merge_into(frame: Any, table: str, condition: Any) -> Any:
        native = native_session(frame.sparkSession)
        target = None if native is None else native.find_target(table)
        if target is None or target.table is None:
            return own["mergeInto"](frame, table, condition)
        return NativeMergeWriter(frame, target, condition)

    def view_maker(make: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
        def create_view(frame: Any, name: str) -> None:
            native = native_session(frame.sparkSession)
            with nullcontext() if native is None else native.resolved_by_spark(name):
                make(frame, name)

        return create_view

    members = {"write": property(write), "writeTo": write_to, "mergeInto": merge_into}
    members |= {name: view_maker(own[name]) for name in _VIEW_MEMBERS}
    for name, member in own.items():
        members[name].__doc__ = member.__doc__
        setattr(frame_class, name, members[name])

    def restore() -> None:
        nonlocal native_session
        native_session = _no_session  # the members of a later session still call these
        for name, member in own.items():
            if frame_class.__dict__[name] is members[name]:
                setattr(frame_class, name, member)

    return restore


def _no_session(session: SparkSession) -> None:
    """Return None: Spark's own writers."""
    del session
