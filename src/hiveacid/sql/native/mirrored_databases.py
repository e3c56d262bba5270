"""Spark's mirror of hiveacid's databases: it never has a real location, because Spark deletes that with a database."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.errors import CatalogError, HiveAcidError
from hiveacid.spark.parser.catalyst import java_packages, parser_of
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import (
    external_catalog,
    frame_of_plan,
    has_database,
    spark_catalog_tables,
)
from hiveacid.sql.statements import definitions
from hiveacid.storage.paths import absolute
from hiveacid.table.context import Context

_SHOWN = 3


def create_mirror(env: SparkEnvironment, text: str) -> DataFrame:
    """Run CREATE DATABASE in Spark's catalog without its LOCATION."""
    plan: Any = parser_of(env).parsePlan(text)
    # Scala 2.12 (Spark 3.5) has no `removed`.
    properties = getattr(plan.properties(), "$minus")("location")
    return frame_of_plan(env, plan.copy(plan.name(), plan.ifNotExists(), properties))


def drop_mirror(env: SparkEnvironment, statement: definitions.DropDatabase, text: str) -> DataFrame:
    """Run DROP DATABASE in Spark's catalog so that only Spark's own tables lose their files.

    Spark deletes the directory of a database with everything in it. It therefore gets an empty one before. Spark then
    leaves the files of its managed tables, which are dropped one by one before.
    """
    name, plan = statement.name, parser_of(env).parsePlan(text)
    if not has_database(env, name):
        return frame_of_plan(env, plan)
    catalog = external_catalog(env)
    if statement.cascade and name != "default":
        for table in spark_catalog_tables(env, name):
            catalog.dropTable(name, table, True, False)  # noqa: FBT003 - ignoreIfNotExists, purge
    if env.hive_support:  # Hive cannot change a location; `require_nothing_foreign` has looked at it
        return frame_of_plan(env, plan)
    before = catalog.getDatabase(name)
    scratch = tempfile.mkdtemp(prefix="hiveacid-dropped-database-")
    catalog.alterDatabase(_at(before, env, scratch))
    try:
        return frame_of_plan(env, plan)
    except BaseException:
        if has_database(env, name):
            catalog.alterDatabase(before)
        raise
    finally:
        with suppress(OSError):  # Spark has deleted it
            Path(scratch).rmdir()


def _at(database: Any, env: SparkEnvironment, directory: str) -> Any:
    """Return a database's definition in Spark with another location."""
    uri = java_packages(env.spark).java.io.File(directory).toURI()
    # Later versions have more fields than 3.5, and Scala 2.12 (Spark 3.5) does not tell their names.
    fields = [database.productElement(number) for number in range(int(database.productArity()))]
    return database.copy(*(uri if field == database.locationUri() else field for field in fields))


def require_nothing_foreign(context: Context, name: str) -> None:
    """Raise CatalogError if Spark would delete foreign files with a database of a Hive Metastore that it uses itself."""
    env = context.env
    if not env.hive_support or not has_database(env, name):
        return
    location = str(external_catalog(env).getDatabase(name).locationUri())
    own = set(spark_catalog_tables(env, name))
    try:
        place = absolute(location)
        entries = context.fs.list_directory(place) if context.fs.exists(place) else ()
    except HiveAcidError as error:
        raise CatalogError(
            f"database {name} is in Spark's own catalog, too, at {location}, which cannot be listed: {error}"
        ) from error
    foreign = [entry.path for entry in entries if entry.path not in own]
    if foreign:
        raise CatalogError(
            f"DROP DATABASE {name} would delete everything in {location}, where Spark's own catalog has it, and files of others "
            f"are there ({', '.join(foreign[:_SHOWN])}): move them away, or drop the tables one by one and keep the database"
        )
