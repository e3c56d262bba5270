"""Scan of listed files: Spark gets names and sizes in one call, and checks no file again.

Spark's own reader takes paths one by one (one Py4J round trip each), asks whether each exists, and lists each in a job:
0.5 ms of CPU a file. Here one file of JSON lines passes all of them. Spark reads it as the log of a streaming sink
(``MetadataLogFileIndex``). This is Spark's only index that takes a list of files, and it never lists again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from hiveacid.spark.formats.file_columns import ORC
from hiveacid.spark.read.scan_groups import FileGroup, escape_globs
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.jvm import java_class, java_sequence, java_value, session_of

MIN_FILES = 100
"""Files from which the index costs less than Spark's own listing."""
_PACKAGES = ("streaming.runtime", "streaming.sinks", "streaming")
"""Packages below ``org.apache.spark.sql.execution`` that held the class: those of Spark 4.1 and newer, then 3.5 and 4.0."""
_WITHOUT_LOCALITY = ("file:", "s3a:", "gs:", "abfs:", "abfss:")
"""File systems whose blocks have no hosts. Elsewhere (HDFS) Spark lists, to run tasks where the blocks lie."""
_ILLEGAL = re.compile(
    r'[\x00-\x20"%<>\[\]{}|\\^`#?\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
)
"""Characters that ``java.net.URI`` escapes in a path: the texts must be those that Spark's own listing makes."""
_LINE = '{"path":"%s","size":%d,"isDir":false,"modificationTime":%d,"blockReplication":1,"blockSize":134217728,"action":"add"}'


def load_orc(
    source: ScanSource, schema: T.StructType, options: Mapping[str, str], group: FileGroup
) -> DataFrame:
    """Return the scan of a group of ORC files; ``schema``: the columns to request, ``options``: of the reader.

    The memo of the source keeps the index.
    """
    env = source.env
    index = None
    if is_indexed(group):
        index = source.memo.get(
            ("index", group.files), lambda: source.index_ahead(group) or make_index(env, group)
        )
    types = java_class(env, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    java_options, session = java_value(env, dict(options)), session_of(env)
    if index is not None:
        made = session.baseRelationToDataFrame(_relation(env, index, types, java_options))
    else:
        files = java_sequence(env, escape_globs(group.files))
        made = session.read().format(ORC).schema(types).options(java_options).load(files)
    return DataFrame(made, env.spark)


def is_indexed(group: FileGroup) -> bool:
    """Tell whether the files of a group are passed as an index: many, not copies, on a file system without locality."""
    return (
        len(group.files) >= MIN_FILES
        and group.options.original is None
        and all(file.startswith(_WITHOUT_LOCALITY) for file in group.files)
    )


def make_index(env: SparkEnvironment, group: FileGroup) -> Any:
    """Return Spark's index of exactly these files; None if this Spark has no such class."""
    files = (_ILLEGAL.sub(lambda match: quote(match[0]), file) for file in group.files)
    lines = (_LINE % (file, *size) for file, size in zip(files, group.sizes, strict=True))
    index_class = _index_class(env)
    if index_class is None:
        return None
    with tempfile.TemporaryDirectory(prefix="hiveacid-files-") as folder:
        log = Path(folder) / "_spark_metadata"
        log.mkdir()
        (log / "0").write_text("\n".join(("v1", *lines)), "utf-8")
        path = java_class(env, "org.apache.hadoop.fs.Path")(Path(folder).as_uri())
        # otherwise it would take p=1 in the paths for a partition column, and add that column
        options = _scala_map(env, java_value(env, {"recursiveFileLookup": "true"}))
        return index_class(session_of(env), path, options, java_class(env, "scala.Option").empty())


def _index_class(env: SparkEnvironment) -> Any:
    java: Any = env.spark._jvm.java.lang  # type: ignore[union-attr] # noqa: SLF001
    for package in _PACKAGES:
        name = f"org.apache.spark.sql.execution.{package}.MetadataLogFileIndex"
        try:
            java.Class.forName(name, False, java.Thread.currentThread().getContextClassLoader())  # noqa: FBT003
        except Py4JError:
            continue
        return java_class(env, name)
    return None


def _relation(env: SparkEnvironment, index: Any, types: Any, options: Any) -> Any:
    """Return the relation that ``DataFrameReader.load`` would make of the files (``DataSource.resolveRelation``)."""
    # the companion object: the class of the same name has a method ``apply`` of its own
    companion = java_class(env, "org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$")
    case_insensitive = getattr(companion, "MODULE$")
    return java_class(env, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
        index,
        java_class(env, "org.apache.spark.sql.types.StructType")(),
        types.asNullable(),
        java_class(env, "scala.Option").empty(),
        java_class(env, ORC)(),
        case_insensitive.apply(_scala_map(env, options)),
        session_of(env),
    )


def _scala_map(env: SparkEnvironment, values: Any) -> Any:
    return java_class(env, "org.apache.spark.api.python.PythonUtils").toScalaMap(values)
