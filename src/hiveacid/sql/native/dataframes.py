"""DataFrames of native sessions: their ``write``, ``writeTo`` and ``mergeInto`` know transactional tables.

PySpark gives every DataFrame one class, whatever its session is. `replace_writers` therefore replaces members of that
class, until the native session is closed; DataFrames of other applications' sessions get Spark's own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.sql.native.merge_writer import NativeMergeWriter
from hiveacid.sql.native.targets import WriterSession
from hiveacid.sql.native.writers import NativeWriter, NativeWriterV2

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

    ``native_session``: the native session for a DataFrame's session, None for Spark's own writers. A session that was made
    later replaces the members again, and stays in effect if this one is closed first.
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
            with nullcontext() if native is None else native.naming_others(name):
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
