"""Frames of Arrow rows, as far as no JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from hiveacid.spark.formats.driver_frames import frame_of_arrow
from hiveacid.spark.session.environment import SparkEnvironment

SCHEMA = T.StructType(
    [T.StructField("k", T.LongType()), T.StructField("s", T.StringType()), T.StructField("b", T.BinaryType())]
)
ROWS = pa.table({"k": [1, 2], "s": ["", "x"], "b": [b"", b"y"]})


class _SentError(Exception):
    """Ends the call where rows would go to the JVM."""


class FakeSession:
    """A session of a version with one setting, which keeps the batches that are sent to its JVM."""

    def __init__(self, version: str, large: str) -> None:
        self.version = version
        self.conf = {"spark.sql.execution.arrow.useLargeVarTypes": large}
        self.sparkContext = self
        client = SimpleNamespace(
            converters=None, gateway_property=SimpleNamespace(pool=None, enable_memory_management=False)
        )
        self._gateway = SimpleNamespace(_gateway_client=client)
        self.batches: list[pa.RecordBatch] = []

    def _serialize_to_jvm(self, batches: list[pa.RecordBatch], *_: object) -> None:
        self.batches = batches
        raise _SentError


@pytest.mark.parametrize(
    ("version", "large", "text", "data"),
    [
        ("4.0.0", "false", pa.string(), pa.binary()),
        ("4.0.0", "true", pa.large_string(), pa.large_binary()),
        ("4.3.0", "TRUE", pa.large_string(), pa.large_binary()),
        ("3.5.0", "true", pa.string(), pa.binary()),  # it knows no such setting
    ],
)
def test_offsets_are_as_wide_as_the_jvm_reads_them(
    version: str, large: str, text: pa.DataType, data: pa.DataType
) -> None:
    """Else the JVM reads other texts, or memory that is not the batch's: any client may set it."""
    session = FakeSession(version, large)
    with pytest.raises(_SentError):
        frame_of_arrow(SparkEnvironment(cast("Any", session)), ROWS, SCHEMA)
    (batch,) = session.batches
    assert batch.schema.types == [pa.int64(), text, data]
    assert batch.to_pylist() == ROWS.to_pylist()
