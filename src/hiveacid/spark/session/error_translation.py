"""Translation of Spark's errors into errors of this project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from hiveacid.errors import (
    BadFileError,
    CatalogError,
    ConstraintViolationError,
    DataError,
    FormatError,
    HiveAcidError,
    MergeCardinalityError,
    NoSuchColumnError,
    ParseError,
    SchemaMismatchError,
    StatementTooLargeError,
    StorageError,
)
from hiveacid.spark.session.query_log import spark_errors_logged

_MARKED = re.compile(r"\[HIVEACID_(DATA|CARDINALITY|CONSTRAINT|FORMAT)\] ([^\n]*)")
_FILE = re.compile(r"(?:while reading file|Could not read footer for file:?|Malformed ORC file)\s+([^\s,]+)")
_MISSING = re.compile(
    r"(?:File|Path does not exist:?|FileNotFoundException:?)\s+(\S*(?:bucket_|0000|/)\S*)\s*"
)
_UNREACHABLE = re.compile(
    r"(?:java\.[\w.]+Exception: [^\n]*wiki\.apache\.org/hadoop/|org\.apache\.hadoop\.fs\.s3a\.AWS\w*Exception: )[^\n]*"
)
"""Hadoop's sentence about a name node or an object store that does not answer (``NetUtils``, ``S3AUtils``)."""
_STORAGE_SIGNS = (
    "Permission denied",
    "Read-only file system",
    "No space left",
    "Mkdirs failed",
    "AccessDenied",
)
_DATA_CONDITIONS = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "ARITHMETIC_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "DUPLICATED_MAP_KEY",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise this project's errors for Spark's, with the original as the cause; other errors pass unchanged."""
    with spark_errors_logged():
        try:
            yield
        except (PySparkException, Py4JError) as error:
            translated = translate(error)
            if translated is None:
                raise
            raise translated from error


def is_spark_error(error: BaseException) -> bool:
    """Tell whether Spark or Py4J raised an error."""
    return isinstance(error, PySparkException | Py4JError)


def is_stack_overflow(error: BaseException) -> bool:
    """Tell whether Spark ran out of stack: its parser and analyser are recursive in the nesting of a statement."""
    return "java.lang.StackOverflowError" in str(error)[:2000]


def stack_overflow_error() -> StatementTooLargeError:
    """Return the error for a statement that is `is_stack_overflow`."""
    return StatementTooLargeError(
        "the statement is nested too deeply for Spark: divide it, or give the driver's threads more stack (-Xss)"
    )


def is_unsupported_metastore(error: BaseException) -> bool:
    """Tell whether Spark's own client (of Hive 2.3) failed on a metastore of Hive 4, which lacks its calls."""
    return "Invalid method name: 'get_table'" in str(error)


def translate(error: Exception) -> HiveAcidError | None:
    """Return the error of this project for a Spark error; None if there is no better one."""
    if is_stack_overflow(error):
        return stack_overflow_error()
    text = str(error)
    # the plan in an analysis error holds our raise_error texts, too
    marked = None if isinstance(error, AnalysisException) else _MARKED.search(text)
    if marked:
        kind, message = marked.groups()
        return _marked_error(kind, message.partition(" SQLSTATE")[0].strip().strip("'\""))
    if isinstance(error, AnalysisException):
        return _analysis_error(error, text)
    unreachable = _UNREACHABLE.search(text)
    if unreachable:
        return StorageError(f"a file system could not be reached: {unreachable.group()[:500]}")
    if (
        "FAILED_READ_FILE" in text
        or "Malformed ORC" in text
        or "Encountered error while reading file" in text
    ):
        match = _FILE.search(text)
        path = match.group(1).rstrip(".") if match else None
        if "FILE_NOT_EXIST" in text or "FileNotFoundException" in text:
            return FormatError("a data file of the snapshot is gone (removed by hand?)", path=path)
        return BadFileError("a data file cannot be read: it is damaged or not what its name says", path=path)
    if "FileNotFoundException" in text:
        match = _MISSING.search(text)
        return FormatError("a data file of the snapshot is gone", path=match.group(1) if match else None)
    if any(sign in text for sign in _STORAGE_SIGNS):
        lines = (line.strip() for line in text.splitlines())
        return StorageError(
            next(line for line in lines if any(sign in line for sign in _STORAGE_SIGNS))[:500]
        )
    if any(sign in text for sign in _DATA_CONDITIONS):
        return DataError(_first_line(text))
    return None


def _marked_error(kind: str, message: str) -> HiveAcidError:
    match kind:
        case "CARDINALITY":
            return MergeCardinalityError(message + ": make the source unique on the ON condition")
        case "CONSTRAINT":
            return ConstraintViolationError(message)
        case "DATA":
            return DataError(message)
        case _:
            return BadFileError(message)


def _analysis_error(error: AnalysisException, text: str) -> HiveAcidError:
    line = _first_line(text)
    condition = (getattr(error, "getCondition", None) or error.getErrorClass)() or ""
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND")):
        return NoSuchColumnError(line)
    if condition.startswith("DATATYPE_MISMATCH") or "INCOMPATIBLE" in condition:
        return SchemaMismatchError(line)
    if condition.startswith("PARSE_SYNTAX_ERROR"):
        return ParseError(line)
    return CatalogError(line)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = next(
        (line for line in lines if "[" in line or "Exception:" in line), lines[0] if lines else text
    )
    return useful[:500]
