"""Statements that concern both catalogs: hiveacid's and Spark's, which has a mirror of hiveacid's databases.

The mirror never has a real location, because Spark deletes that with a database.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.errors import CatalogError, HiveAcidError
from hiveacid.spark.session.classic_session import (
    ANOTHER_CATALOG,
    create_database,
    external_catalog,
    frame_of_plan,
    has_database,
    spark_catalog_tables,
)
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_packages, parser_of
from hiveacid.sql.binding.statement_owner import Owner, Ownership, decide_owner
from hiveacid.sql.execute import show_rows
from hiveacid.sql.execute.context import small_frame
from hiveacid.sql.execute.dispatch import execute
from hiveacid.sql.execute.show_and_describe import extended_rows
from hiveacid.sql.native.shared_gateway import NativeConnection
from hiveacid.sql.session import AcidSession
from hiveacid.sql.statements import SPARK_CATALOG, Slice, TableRef, administration, definitions
from hiveacid.storage.paths import absolute
from hiveacid.table.context import Context

_SPARK_DATABASE = re.compile(r"\w+", re.ASCII)
"""Names that Spark's own catalog takes for a database (``SessionCatalog.validateName``)."""
_SHOW_TABLES_COLUMNS = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))


def mirror_databases(session: AcidSession) -> None:
    """Create the databases of the hiveacid catalog in Spark's catalog, so that USE accepts their names.

    Those whose names Spark refuses stay unknown to it, and the others usable.
    """
    for name in session.context.catalog.list_databases():
        if _SPARK_DATABASE.fullmatch(name):
            create_database(session.context.env, name)


def decide_ownership(session: NativeConnection, source: Slice) -> Ownership:
    """Tell whose statement a text is, in Spark's current database; see `statement_owner.decide_owner`.

    While another catalog is the current one, a statement on databases is only Spark's, unless it names ``spark_catalog``.
    """
    session.follow()
    ownership = decide_owner(session.context, source)
    if ownership.owner is not Owner.BOTH or session.context.database != ANOTHER_CATALOG:
        return ownership
    names_spark_catalog = any(
        name.is_name and name.name.lower() == SPARK_CATALOG and dot.text == "."
        for name, dot in pairwise(source.tokens)
    )
    return ownership if names_spark_catalog else Ownership(Owner.SPARK)


def update_both_catalogs(session: NativeConnection, source: Slice, ownership: Ownership) -> None:
    """Carry out hiveacid's part of a statement that concerns both catalogs (a database, for example)."""
    context = session.context
    match ownership.statement:
        case (
            definitions.CreateTable(table=table)
            | definitions.CreateTableLike(table=table)
            | definitions.CreateView(view=table)
        ) if ownership.owner is Owner.HIVEACID:
            ensure_database(session, table)
        case definitions.CreateDatabase(name=name) if context.catalog.get_database(name) is None:
            # if Spark refuses the statement, neither catalog gets the database
            parser_of(context.env).parsePlan(source.text)
            if not _SPARK_DATABASE.fullmatch(name):
                raise CatalogError(
                    f"a database called {name!r} cannot be in a native session: Spark takes ASCII letters, digits and '_' only"
                )
            execute(session.execution(), ownership.statement)
        case definitions.AlterDatabase(name=name) if context.catalog.get_database(name) is not None:
            create_database(context.env, name)
            if ownership.owner is Owner.BOTH:
                # Spark refuses it before hiveacid changes anything
                parser_of(context.env).parsePlan(source.text)
                execute(session.execution(), ownership.statement)
        case definitions.DropDatabase(name=name, cascade=cascade) if (
            context.catalog.get_database(name) is not None
            # otherwise Spark refuses, and both catalogs keep it
            and (cascade or not spark_catalog_tables(context.env, name))
        ):
            create_database(context.env, name)  # first: if Spark refuses its name, both catalogs keep it
            require_nothing_foreign(context, name)
            execute(session.execution(), ownership.statement)
        case administration.ResetOption(key=None):
            execute(session.execution(), ownership.statement)
        case administration.ShowDatabases():
            mirror_databases(session)
        case (
            administration.UseDatabase(name=name)
            | administration.ShowTables(database=str(name))
            | administration.ShowViews(database=str(name))
        ) if context.catalog.get_database(name) is not None:
            create_database(context.env, name)


def change_mirror(session: NativeConnection, source: Slice, ownership: Ownership) -> DataFrame | None:
    """Carry out Spark's part of CREATE and DROP DATABASE, without the database's directory; None for other statements."""
    if ownership.owner is Owner.BOTH:
        match ownership.statement:
            case definitions.CreateDatabase():
                plan: JavaObject = parser_of(session.context.env).parsePlan(source.text)
                # Scala 2.12 (Spark 3.5) has no `removed`.
                properties = getattr(plan.properties(), "$minus")("location")
                return frame_of_plan(
                    session.context.env, plan.copy(plan.name(), plan.ifNotExists(), properties)
                )
            case definitions.DropDatabase() as statement:
                return drop_mirror(session.context.env, statement, source.text)
    return None


def ensure_database(session: NativeConnection, table: TableRef) -> None:
    """Create the database of a new table in the hiveacid catalog if only Spark's catalog has it."""
    context = session.context
    database = table.resolve(context.database).database
    if context.catalog.get_database(database) is None and has_database(context.env, database):
        execute(session.execution(), definitions.CreateDatabase(database, if_not_exists=True))


def add_hiveacid_tables(
    session: AcidSession, statement: administration.ShowTables, theirs: DataFrame
) -> DataFrame:
    """Add the tables or views of the hiveacid catalog to Spark's result of SHOW TABLES or SHOW VIEWS."""
    database = statement.database or session.context.database
    if session.context.catalog.get_database(database) is None:
        return theirs
    rows_of = show_rows.view_rows if isinstance(statement, administration.ShowViews) else show_rows.table_rows
    names = [row[0] for row in rows_of(session.context.catalog, database, statement.pattern)]
    named = {(row[0], row[1]) for row in theirs.collect()}
    names = [name for name in names if (database, name) not in named]
    if isinstance(statement, administration.ShowTableExtended):
        ours = extended_rows(session.context, database, names)
    else:
        rows = [(database, name, False) for name in names]
        ours = small_frame(session.context.env, _SHOW_TABLES_COLUMNS, rows)
    return theirs.union(ours).orderBy(*theirs.columns[:2])


_MAX_FILES_SHOWN = 3


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
    uri = java_packages(env.spark).java.io.File(scratch).toURI()
    # Later versions have more fields than 3.5, and Scala 2.12 (Spark 3.5) does not tell their names.
    fields = [before.productElement(number) for number in range(int(before.productArity()))]
    catalog.alterDatabase(before.copy(*(uri if field == before.locationUri() else field for field in fields)))
    try:
        return frame_of_plan(env, plan)
    except BaseException:
        if has_database(env, name):
            catalog.alterDatabase(before)
        raise
    finally:
        with suppress(OSError):  # Spark has deleted it
            Path(scratch).rmdir()


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
            f"are there ({', '.join(foreign[:_MAX_FILES_SHOWN])}): move them away, or drop the tables one by one and keep the database"
        )
