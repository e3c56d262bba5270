"""Plans of queries and expressions in which the rows of a snapshot stand for the name of a table.

A plan names a table by `UnresolvedRelation`. Its place is taken by the plan of a DataFrame under the table's name and
database, so that ``column``, ``table.column`` and ``database.table.column`` mean what they mean in Spark.

Columns may be hidden, as Spark hides ``_metadata`` of files: a name finds them, but no star, ordinal, set operator,
join or pipe sees them. They are the metadata output of a projection (``Project.hiddenOutputTag``). An alias ends a
metadata output, so the projection stands above the alias.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.model import TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.parser.catalyst import java_class, java_sequence, scala_items
from hiveacid.spark.parser.relations import FunctionCall, Relation
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import frame_of_plan, plan_of
from hiveacid.spark.session.java_methods import scala_sequence

SPARK_CATALOG = "spark_catalog"
"""Name of Spark's own catalog, of which all tables are."""
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_METADATA_COLUMN = "__metadata_col"  # Spark's METADATA_COL_ATTR_KEY


@dataclass(frozen=True)
class BoundTable:
    """Rows that stand for a name: the table's name as written, its catalog and database.

    ``hidden``: how many of the last columns only their names find.
    """

    frame: DataFrame
    name: str
    qualifier: tuple[str, ...] = ()
    hidden: int = 0


def with_own_ids(frame: DataFrame) -> DataFrame:
    """Return the same rows in columns with new ids: Spark renews those of tables that occur twice, but not of hidden columns."""
    return frame.select(*[F.col(quote_name(column)).alias(column) for column in frame.columns])


def named_frame(env: SparkEnvironment, table: BoundTable) -> DataFrame:
    """Return a DataFrame whose columns may be called by the table's name, with its database or without."""
    return frame_of_plan(env, _aliased(env, table, _own_name(env, table)))


def called(env: SparkEnvironment, frame: DataFrame, name: str | TableName) -> DataFrame:
    """Return a DataFrame whose columns may be called by an alias, or by a table's name as in `named_frame`."""
    if isinstance(name, str):
        return frame.alias(name)
    return named_frame(env, BoundTable(frame, name.name, (SPARK_CATALOG, name.database)))


def last_part(name: str | TableName | None) -> str:
    """Return the name of one part by which columns may be called in `called`; empty without a name."""
    return name.name if isinstance(name, TableName) else name or ""


def with_tables(
    env: SparkEnvironment, plan: Any, tables: Sequence[tuple[Relation | FunctionCall, BoundTable]]
) -> Any:
    """Return a plan in which tables stand for the names, or calls, that `read_query` found in it.

    A table with hidden columns stands for one name: two projections with the same ones could not be told apart.
    """
    if not tables:
        return plan
    # nodes of one name are equal: only their identity tells them apart
    replacements = java_class(env, "java.util.IdentityHashMap")()
    for place, table in tables:
        if isinstance(place, Relation) and place.alias is not None:
            replacements.put(place.alias, _aliased(env, table, place.alias.identifier()))
        else:
            replacements.put(place.node, _aliased(env, table, _own_name(env, table)))
    # a Scala map is a partial function
    converters = java_class(env, "scala.collection.JavaConverters")
    return plan.transformDownWithSubqueries(converters.mapAsScalaMap(replacements))


def _own_name(env: SparkEnvironment, table: BoundTable) -> Any:
    identifier = java_class(env, "org.apache.spark.sql.catalyst.AliasIdentifier")
    return identifier(table.name, java_sequence(env, table.qualifier))


def _aliased(env: SparkEnvironment, table: BoundTable, alias: Any) -> Any:
    """Return a table's plan under a name, with the hidden columns outside its output."""
    rows = java_class(env, f"{_PLANS}.SubqueryAlias")(alias, plan_of(table.frame))
    if not table.hidden:
        return rows
    output = list(scala_items(rows.output()))
    project = java_class(env, f"{_PLANS}.Project")
    metadata = java_class(env, "org.apache.spark.sql.types.Metadata")
    shown, hidden = output[: -table.hidden], output[-table.hidden :]
    hidden = [
        column.withMetadata(metadata.fromJson(json.dumps({_METADATA_COLUMN: str(column.name())})))
        for column in hidden
    ]
    plan = project(scala_sequence(env, shown), rows)
    plan.setTagValue(project.hiddenOutputTag(), scala_sequence(env, hidden))
    return plan
