"""Translation of Spark's errors into errors of this project, and PySpark's own log of failed queries.

Since Spark 4, PySpark prints each error as JSON to standard error when it is made. An error that becomes one of this
project's has all details itself, so its line is only noise, with Spark's stack trace.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import convert_exception

from hiveacid import errors

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class _LastLine(logging.Filter):
    """Filter that keeps the last record of the thread that made it, and passes those of other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self.record: logging.LogRecord | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the logger may print a record now."""
        if threading.get_ident() != self._thread:
            return True
        self.record = record
        return False


@contextmanager
def spark_errors_logged(*, unless: type[BaseException] = errors.HiveAcidError) -> Iterator[None]:
    """Print PySpark's line for an error only if that error leaves the block, and then only once.

    Lines of errors that the block handles are dropped, and so are those of errors of the class ``unless``. Other threads,
    and the handlers and levels of the loggers, are not affected.
    """
    kept = _LastLine()
    loggers = _query_loggers()
    for logger in loggers:
        logger.addFilter(kept)
    theirs = False
    try:
        yield
    except BaseException as error:
        theirs = not isinstance(error, unless)
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(kept)
        if theirs and kept.record is not None:
            logging.getLogger(kept.record.name).handle(kept.record)


def disable_query_log() -> None:
    """Print no such line in this process: the command line prints errors itself."""
    for logger in _query_loggers():
        logger.disabled = True


def _query_loggers() -> list[logging.Logger]:
    """Return the loggers, which only Spark 4 and later have. They must be of PySpark's class when PySpark uses them."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - not there in Spark 3.5
    except ImportError:
        return []
    return [PySparkLogger.getLogger(name) for name in _LOGGERS]


_COUNTED_FROM_0 = re.compile(r"\(line (\d+), pos (\d+)\)")
_COUNTED_FROM_1 = re.compile(r"\(line (\d+), position (\d+)\)")
_NOISE = re.compile(
    r"(?<!\s)\s*+(?:SQLSTATE: \w+|\(line \d+, pos\w* \d+\)|; line \d+ pos \d+;?.*)", re.DOTALL
)
_PLAN = re.compile(r";\s*\n")
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_LONGEST = 400  # characters of a message
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
# the sign's own line may name no path
_WRITING = re.compile(r"Task failed while writing rows to (\S{1,1000})")
_JAVA_CLASSES = re.compile(r"^\s*(?:Caused by: )?(?:[a-z][\w.$]*\.\w+: )*")
_DATA_CONDITIONS = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "ARITHMETIC_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "REMAINDER_BY_ZERO",
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


_CANCELLED = re.compile(r"\bJob \d+ cancelled\b")  # not the name of a table in a path


def is_failed_job(error: BaseException) -> bool:
    """Tell whether Spark raised an error, other than that a user cancelled the job, which nothing may repeat."""
    return is_spark_error(error) and not _CANCELLED.search(str(error))


def is_unsupported_metastore(error: BaseException) -> bool:
    """Tell whether Spark's own client (of Hive 2.3) failed on a metastore of Hive 4, which lacks its calls."""
    return "Invalid method name: 'get_table'" in str(error)


def stack_overflow(error: BaseException) -> errors.StatementTooLargeError | None:
    """Return the error for a statement that overflowed a stack of the JVM; None for other errors.

    Spark's parser and analyser are recursive in the nesting of a statement.
    """
    if not isinstance(error, Py4JError) or "java.lang.StackOverflowError" not in str(error)[:2000]:
        return None
    return errors.StatementTooLargeError(
        "the statement is nested too deeply for Spark: divide it, or give the driver's threads more stack (-Xss)"
    )


def undeclared(error: Py4JError) -> Exception | None:
    """Return PySpark's error for a checked exception that Java wrapped, because the parser's methods do not declare it.

    Spark's parser raises AnalysisException for a parameter without a value, and ours passes it on.
    """
    thrown = getattr(error, "java_exception", None)
    if thrown is None or thrown.getClass().getName() != "java.lang.reflect.UndeclaredThrowableException":
        return None
    meant: Exception = convert_exception(thrown.getUndeclaredThrowable())
    return meant


def translate(error: Exception) -> errors.HiveAcidError | None:
    """Return the error of this project for a Spark error; None if there is no better one."""
    text = str(error)
    if too_deep := stack_overflow(error):
        return too_deep
    # the plan in an analysis error holds our raise_error texts, too
    marked = None if isinstance(error, AnalysisException) else _MARKED.search(text)
    if marked:
        kind, message = marked.groups()
        return _marked_error(kind, message.partition(" SQLSTATE")[0].strip().strip("'\""))
    if isinstance(error, AnalysisException):
        return _analysis_error(error)
    unreachable = _UNREACHABLE.search(text)
    if unreachable:
        return errors.StorageError(f"a file system could not be reached: {unreachable.group()[:500]}")
    if (
        "FAILED_READ_FILE" in text
        or "Malformed ORC" in text
        or "Encountered error while reading file" in text
    ):
        match = _FILE.search(text)
        path = match.group(1).rstrip(".") if match else None
        if "FILE_NOT_EXIST" in text or "FileNotFoundException" in text:
            return errors.FormatError("a data file of the snapshot is gone (removed by hand?)", path=path)
        return errors.BadFileError(
            "a data file cannot be read: it is damaged or not what its name says", path=path
        )
    if "FileNotFoundException" in text:
        match = _MISSING.search(text)
        return errors.FormatError(
            "a data file of the snapshot is gone", path=match.group(1) if match else None
        )
    if any(sign in text for sign in _STORAGE_SIGNS):
        line = next(line for line in text.splitlines() if any(sign in line for sign in _STORAGE_SIGNS))
        writing = _WRITING.search(text)
        place = f" (rows were written to {writing[1].rstrip('.')})" if writing else ""
        return errors.StorageError(_JAVA_CLASSES.sub("", line)[:500] + place)
    if any(sign in text for sign in _DATA_CONDITIONS):
        return errors.DataError(_first_line(text))
    return None


def _marked_error(kind: str, message: str) -> errors.HiveAcidError:
    match kind:
        case "CARDINALITY":
            return errors.MergeCardinalityError(message)
        case "CONSTRAINT":
            return errors.ConstraintViolationError(message)
        case "DATA":
            return errors.DataError(message)
        case _:
            return errors.BadFileError(message)


def _parse_error(text: str) -> errors.ParseError:
    """Return a ParseError for the text of a Spark error, with a position counted from 1."""
    line = column = None
    if found := _COUNTED_FROM_0.search(text):
        line, column = int(found[1]), int(found[2]) + 1
    elif found := _COUNTED_FROM_1.search(text):
        line, column = int(found[1]), int(found[2])
    return errors.ParseError(_clean_message(text.partition("== SQL")[0]), line=line, column=column)


def _clean_message(text: str) -> str:
    """Return Spark's message in one line, without class, SQL state, position and plan."""
    text = _NOISE.sub("", _PLAN.split(text)[0])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = _CLASS.sub("", " ".join(lines)).rstrip(".")
    return message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"


def _analysis_error(error: AnalysisException) -> errors.HiveAcidError:
    if isinstance(error, ParseException):
        return _parse_error(str(error))
    condition = (getattr(error, "getCondition", None) or error.getErrorClass)() or ""
    message = _clean_message(str(error))
    values = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        text = _missing_name_text("column", values.get("objectName"), values.get("proposal"))
        return errors.NoSuchColumnError(text or message)
    if condition.startswith(("FIELD_NOT_FOUND", "UNRESOLVED_FIELD")):
        candidates = values.get("fields") or values.get("proposal")
        text = _missing_name_text("field", values.get("fieldName"), candidates)
        return errors.NoSuchColumnError(text or message)
    if condition.startswith("DATATYPE_MISMATCH") or "INCOMPATIBLE" in condition:
        return errors.SchemaMismatchError(message)
    return errors.StatementError(message)


_VIRTUAL_COLUMNS = {
    "ROW__ID": "only rows of tables with UPDATE and DELETE have ids",
    "BLOCK__OFFSET__INSIDE__FILE": "ROW__ID and INPUT__FILE__NAME tell which row it is",
}
"""Hive's columns that a table may lack, and the reason or what to write."""


def _missing_name_text(kind: str, name: str | None, candidates: str | None) -> str | None:
    """Return what is missing and what there is instead; None without the name, which Spark Connect may omit."""
    if not name:
        return None
    message = f"{kind} {name.replace('`', '')} does not exist"
    if reason := _VIRTUAL_COLUMNS.get(name.replace("`", "").rpartition(".")[2].upper()):
        return f"{message}: {reason}"
    shown = [
        name.removeprefix("spark_catalog.")
        for name in (candidates or "").replace("`", "").split(", ")
        if not name.startswith("__hiveacid")
    ]
    if any(shown):
        message += f"; did you mean one of: {', '.join(shown)}"
    return message


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = next(
        (line for line in lines if "[" in line or "Exception:" in line), lines[0] if lines else text
    )
    return useful[:500]
