"""Errors of Spark that mean a hiveacid table, or a statement of another system: this project's error instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException

from hiveacid.errors import HiveAcidError, NoSuchTableError, NotTransactionalError, ParseError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.session.classic_session import ANOTHER_CATALOG
from hiveacid.spark.session.error_translation import spark_errors_logged
from hiveacid.sql.grammar.parse import advice_on
from hiveacid.sql.statements.values import table_ref
from hiveacid.table.context import HOW_TO_MAKE_TRANSACTIONAL, Context, missing_table

_CHANGES = frozenset({"UPDATE", "DELETE", "MERGE"})
_OF_OTHERS = frozenset(
    {"DETAIL", "TEMPORARY"}
)  # DESCRIBE DETAIL, CREATE TEMPORARY TABLE: Spark reads them as something else


class MisspeltTableError(NoSuchTableError, AnalysisException):
    """A table that exists in neither catalog, and hiveacid's has one of a similar name.

    Also an AnalysisException, because programs catch that to learn whether a table exists.
    """

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


@contextmanager
def spark_errors_explained(context: Context, statement: str = "") -> Iterator[None]:
    """Raise this project's error for Spark's where it says more."""
    with spark_errors_logged():
        try:
            yield
        except (AnalysisException, UnsupportedOperationException) as error:
            explained = _explained(context, statement, error)
            if explained is None:
                raise
            raise explained from error


def _explained(context: Context, statement: str, error: PySparkException) -> HiveAcidError | None:
    try:
        tokens = tokenize(statement)
    except HiveAcidError:  # Spark's own grammar
        return None
    condition = (getattr(error, "getCondition", None) or error.getErrorClass)() or ""
    is_of_spark = condition != "PARSE_SYNTAX_ERROR" and _OF_OTHERS.isdisjoint(
        token.keyword for token in tokens[1:2]
    )
    advice = None if is_of_spark else advice_on(tokens)
    if advice is not None:
        return ParseError(advice, line=tokens[0].line, column=tokens[0].column)
    values = error.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return _misspelt(context, values.get("relationName") or "")
    if condition.startswith("UNSUPPORTED_FEATURE.TABLE_OPERATION") and tokens[0].keyword in _CHANGES:
        return NotTransactionalError(
            f"{tokens[0].keyword} on {(values.get('tableName') or 'this table').replace('`', '')}: the table is Spark's own and "
            f"not transactional: {HOW_TO_MAKE_TRANSACTIONAL}"
        )
    return None


def _misspelt(context: Context, name: str) -> MisspeltTableError | None:
    ref = table_ref([part.replace("``", "`").lower() for part in name.strip("`").split("`.`")])
    if not name or ref is None or context.database == ANOTHER_CATALOG:
        return None
    table = ref.resolve(context.database)
    if context.catalog.get_database(table.database) is None:
        return None
    message = str(missing_table(context.catalog, table))
    return MisspeltTableError(message) if "did you mean" in message else None
