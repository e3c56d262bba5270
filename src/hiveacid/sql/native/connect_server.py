"""Transactional tables in the calls of Spark Connect's clients: ``spark.table``, ``spark.catalog`` and Spark's writers.

The server passes the name in such a call through the parser of the client's session, and then looks its parts up in a catalog.
`ClientTables` puts a catalog before them that is written in Python: it gives Spark a view of the table's rows, the table's
description, or a table that takes rows.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, partialmethod, wraps
from itertools import pairwise
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.parser.lexer import scan
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_class, java_sequence, java_value, scala_items, session_of
from hiveacid.sql.binding.parameters import literal
from hiveacid.sql.grammar.admin import CACHE_ADVICE
from hiveacid.sql.native.shared_gateway import NativeConnection
from hiveacid.sql.native.writer_targets import TableSpec, Target
from hiveacid.sql.statements import SPARK_CATALOG, Slice, TableRef
from hiveacid.table.write.insert import InsertOptions

READ = ".transformReadRel("
"""Method of the planner, as a stack shows it, that asks for the name of a table to read."""
_ROWS, _SHOWN = "hiveacid_rows", "hiveacid_tables"
_BY_NAME, _BY_POSITION = "hiveacid_by_name", "hiveacid_by_position"
"""Catalogs of a client's session: rows of tables, their descriptions, and the two ways to write them."""
_OWN_CATALOGS = frozenset({_ROWS, _SHOWN, _BY_NAME, _BY_POSITION})
_CATALOGS = {
    READ: _ROWS,
    ".Catalog.isCached(": _ROWS,
    ".Catalog.refreshTable(": _ROWS,
    ".Catalog.tableExists(": _SHOWN,
    ".Catalog.getTable(": _SHOWN,
    ".Catalog.listColumns(": _SHOWN,
    ".DataFrameWriter.saveAsTable": _BY_NAME,
    ".DataFrameWriterV2.": _BY_NAME,
    ".DataFrameWriter.insertInto": _BY_POSITION,
}
_MOST_TABLES = 500
"""Tables that one plan can read by their names."""
_V1 = "org.apache.spark.sql.catalyst.catalog"
_PARTITION_COLUMNS, _PROPERTIES, _VIEW_TEXT, _COMMENT = 5, 11, 13, 14  # of CatalogTable, since Spark 4.0
_CONNECTOR = "org.apache.spark.sql.connector"
_CAPABILITIES = (
    *("V1_BATCH_WRITE", "BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC"),
    "ACCEPT_ANY_SCHEMA",
)
_INSERT = "a client of Spark Connect uses sql('INSERT INTO ... SELECT ... FROM {df}', df=df)"
_OVERWRITE = _INSERT.replace("INTO", "OVERWRITE TABLE")


def refuse_own_catalogs(text: str) -> None:
    """Raise UnsupportedFeatureError for a name in a catalog of `ClientTables`, which is not for the text of a user.

    Spark takes the one of descriptions for its own, and would create a table there in spite of hiveacid's of the same name.
    """
    if not any(catalog in text.lower() for catalog in _OWN_CATALOGS):
        return
    for name, dot in pairwise(scan(text)):
        if dot.text == "." and name.is_name and name.name.lower() in _OWN_CATALOGS:
            raise UnsupportedFeatureError(f"{name.name} is not for users: write database.table")


class _CalledByJava(Protocol):
    call: Callable[[Callable[[], JavaObject]], JavaObject]


S = TypeVar("S", bound=_CalledByJava)
P = ParamSpec("P")


def callers_of(env: SparkEnvironment) -> str:
    """Return the stack of the JVM's thread up to Python: only the caller of the parser knows what it asks a name for."""
    stack = java_class(env, "org.apache.spark.util.Utils").exceptionString(
        java_class(env, "java.lang.Throwable")()
    )
    return str(stack).split("PythonProxyHandler.invoke(", 2)[1]


def _for_java(method: Callable[Concatenate[S, P], JavaObject]) -> Callable[Concatenate[S, P], JavaObject]:
    """Make the errors of a method those of Java."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> JavaObject:
        return self.call(lambda: method(self, *args, **kwargs))

    return call


class ClientTables:
    """The catalogs of one JVM session, which gets them with the first call that needs them.

    To Java it is a table function with the plans of tables' rows, by tokens in the texts of their views. Spark calls it in
    the thread that analyses a plan, soon after that has loaded the views.
    """

    def __init__(
        self,
        connection: Callable[[], NativeConnection],
        call: Callable[[Callable[[], JavaObject]], JavaObject],
    ) -> None:
        """Use the connection of the calling thread. ``call``: runs a function, and makes its errors Java's."""
        self.connection = connection
        self.call = call
        self._local = threading.local()
        self._added = False

    def parts(self, named: Sequence[str], callers: str) -> JavaObject:
        """Return the parts (Scala's) by which the callers of the parser find a table; None if they must not find it.

        ``callers``: their stack. Raises UnsupportedFeatureError for a call that has another way.
        """
        if ".sql.connect." not in callers:
            return None
        if ".Catalog.cacheTable(" in callers:
            raise UnsupportedFeatureError(f"{'.'.join(named)}: {CACHE_ADVICE}")
        catalog = next((catalog for caller, catalog in _CATALOGS.items() if caller in callers), None)
        if catalog is None:
            return None
        if not self._added:
            self._add_to_session()
        self._local.plans = {}  # those of the previous plan of this thread
        self._local.named = (catalog, *named)
        return java_sequence(self.env, [catalog, *named])

    def forget_name(self) -> None:
        """End the call that named a table in this thread: a text may name its catalog in ways that only Spark knows."""
        self._local.named = None

    def require_named(self, catalog: str, parts: Sequence[str]) -> None:
        """Raise UnsupportedFeatureError unless the running call has named a table, which gave it these parts."""
        if getattr(self._local, "named", None) != (catalog, *parts):
            raise UnsupportedFeatureError(f"{catalog} is not for users: write database.table")

    def _add_to_session(self) -> None:
        state = session_of(self.env).sessionState()
        state.tableFunctionRegistry().createOrReplaceTempFunction(_ROWS, self, "python_udtf")
        catalogs = state.catalogManager().getClass().getDeclaredField("catalogs")
        catalogs.setAccessible(True)
        for name in sorted(_OWN_CATALOGS):
            catalogs.get(state.catalogManager()).put(name, _TableCatalog(self, name))
        self._added = True

    def view_of_rows(self, parts: Sequence[str], as_of: str) -> JavaObject:
        """Return a view (of Java) with the rows of a table."""
        env, text = self.env, f"SELECT * FROM {'.'.join(map(quote_name, parts))}{as_of}"
        with self.connection().binder() as binder:
            rows, token = plan_of(binder.run(binder.bind(Slice(text)))), uuid.uuid4().hex
        plans = self._local.__dict__.setdefault("plans", {})
        plans[token] = rows
        if len(plans) > _MOST_TABLES:  # the server plans a relation that it keeps without the parser
            del plans[next(iter(plans))]
        names = java_value(env, {"view.referredTempFunctionsNames": f'["{_ROWS}"]'})
        properties = java_class(env, "org.apache.spark.api.python.PythonUtils").toScalaMap(names)
        more = {_VIEW_TEXT: _option(env, f"SELECT * FROM {_ROWS}('{token}')"), _PROPERTIES: properties}
        return _v1_table(env, parts, "VIEW", rows.schema(), more)

    @_for_java
    def apply(self, arguments: JavaObject) -> JavaObject:
        """Return the plan of a table's rows."""
        token = "".join(str(argument.toString()) for argument in scala_items(arguments))
        if token not in self._local.__dict__.get("plans", {}):
            raise UnsupportedFeatureError(f"{_ROWS} is not for users: use spark.table or SELECT")
        return self._local.plans[token]

    @property
    def env(self) -> SparkEnvironment:
        """Return what is known about the session."""
        return self.connection().context.env

    class Java:
        """The Java interface that this class implements, as Py4J asks for it."""

        implements = ("scala.Function1",)


class _JavaObject:
    """Base of the objects that Java compares and prints."""

    def __init__(self, tables: ClientTables) -> None:
        self._tables = tables
        self.call = tables.call

    def hashCode(self) -> int:
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        return self is other

    def toString(self) -> str:
        return type(self).__name__

    def set_of(self, *items: object) -> JavaObject:
        answer = java_class(self._tables.env, "java.util.HashSet")()
        for item in items:
            answer.add(item)
        return answer

    @_for_java
    def refuse(self, message: str, *_: object) -> JavaObject:
        raise UnsupportedFeatureError(message)


class _TableCatalog(_JavaObject):
    def __init__(self, tables: ClientTables, name: str) -> None:
        super().__init__(tables)
        self._name = name
        self._writes = name in {_BY_NAME, _BY_POSITION}

    def name(self) -> str:
        """Return Spark's own catalog for descriptions; an analysis would take rows for Spark's own table of the name."""
        callers = callers_of(self._tables.env) if self._name == _SHOWN else ""
        described = any(call in callers for call, catalog in _CATALOGS.items() if catalog == _SHOWN)
        return SPARK_CATALOG if described else self._name

    capabilities = tableStateOptionKeys = _JavaObject.set_of

    def tableExists(self, identifier: JavaObject) -> bool:
        return self.loadTable(identifier) is not None

    def invalidateTable(self, identifier: JavaObject) -> None:
        """Do nothing: each call loads the table again."""

    @_for_java
    def loadTable(self, identifier: JavaObject, *travel: JavaObject) -> JavaObject:
        parts = [str(part) for part in (*identifier.namespace(), identifier.name())]
        if self._name == _ROWS:
            return self._tables.view_of_rows(parts, _as_of(travel))
        self._tables.require_named(self._name, parts)
        shown, options = (
            _shown(self._tables, TableName(*parts)),
            InsertOptions(by_name=self._name == _BY_NAME),
        )
        return _Written(self._tables, shown, TableName(*parts), options) if self._writes else shown

    def __getattr__(self, name: str) -> partial[JavaObject]:
        """Refuse every other method of a catalog; writers that replace a table call them."""
        if name.startswith("_"):
            raise AttributeError(name)
        meant = f"this writer would replace a transactional table: {_OVERWRITE}"
        return partial(self.refuse, meant if self._writes else f"{name}: {self._name} is not for users")

    class Java:
        implements = (f"{_CONNECTOR}.catalog.TableCatalog",)


class _Written(_JavaObject):
    """A table that takes rows, and the writer of one statement. ``_shown``: its description, a table of Java's."""

    def __init__(
        self, tables: ClientTables, shown: JavaObject, table: TableName, options: InsertOptions
    ) -> None:
        super().__init__(tables)
        self._shown = shown
        self._table = table
        self._options = options
        self._spec = TableSpec()

    def capabilities(self) -> JavaObject:
        """Return all kinds of writes: this class compares the columns, and refuses what it cannot do with a better error."""
        kinds = java_class(self._tables.env, f"{_CONNECTOR}.catalog.TableCapability")
        return self.set_of(*(getattr(kinds, name) for name in _CAPABILITIES))

    def newWriteBuilder(self, info: JavaObject) -> _Written:
        builder = _Written(self._tables, self._shown, self._table, self._options)
        builder._spec = TableSpec(options=dict(info.options().asCaseSensitiveMap()))
        return builder

    def truncate(self) -> _Written:
        """Replace all rows, or with ``insertInto`` those of the partitions that get rows."""
        self._options = replace(self._options, overwrite=True, whole=self._options.by_name)
        return self

    def canOverwrite(self, _: JavaObject) -> bool:
        return True  # so that Spark calls the next method

    overwrite = partialmethod(_JavaObject.refuse, f"overwrite by a condition: DELETE, then {_INSERT}")
    overwriteDynamicPartitions = partialmethod(_JavaObject.refuse, f"overwritePartitions: {_OVERWRITE}")

    def build(self) -> _Written:
        return self

    toInsertableRelation = build

    def _no(self, metrics: str) -> JavaObject:
        gateway: JavaGateway = self._tables.env.spark.sparkContext._gateway  # noqa: SLF001
        return gateway.new_array(java_class(self._tables.env, f"{_CONNECTOR}.metric.{metrics}"), 0)

    supportedCustomMetrics = partialmethod(_no, "CustomMetric")
    reportDriverMetrics = partialmethod(_no, "CustomTaskMetric")

    @_for_java
    def insert(self, rows: JavaObject, _: JavaObject) -> None:
        connection, options = self._tables.connection(), self._options
        method = "insertInto" if not options.by_name else "overwrite" if options.overwrite else "append"
        target = Target(connection, TableRef(self._table.database, self._table.name), self._table)
        self._spec.require_matches(method, target.require_table())
        if self._spec.merge_schema:
            self.refuse("mergeSchema: ALTER TABLE ... ADD COLUMNS first")
        target.insert(method, DataFrame(rows, connection.context.env.spark), options)

    def __getattr__(self, name: str) -> JavaObject:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._shown, name)

    class Java:
        implements = (
            f"{_CONNECTOR}.catalog.SupportsWrite",
            f"{_CONNECTOR}.write.SupportsOverwriteV2",
            f"{_CONNECTOR}.write.SupportsDynamicOverwrite",
            f"{_CONNECTOR}.write.V1Write",
            "org.apache.spark.sql.sources.InsertableRelation",
        )


def _as_of(travel: tuple[JavaObject, ...]) -> str:
    """Return the AS OF clause for what ``loadTable`` gets: a version, microseconds, privileges, or (Spark 4.3) all in one."""
    if len(travel) > 1:
        meant = travel[0].timeTravel().orElse(None)
        versioned = meant is not None and "Version" in str(meant.getClass().getName())
        travel = () if meant is None else (meant.version() if versioned else meant.micros(),)
    match travel:
        case (str(version),):
            return f" VERSION AS OF {version if version.isdecimal() else literal(version)}"
        case (int(micros),):
            return f" TIMESTAMP AS OF timestamp_micros({micros})"
    return ""


def _shown(tables: ClientTables, name: TableName) -> JavaObject:
    """Return the description of a table or view (Spark's ``V1Table``)."""
    context, env = tables.connection().context, tables.env
    relation = context.catalog.get_view(name) or context.require(name)
    kind, columns = "VIEW", [*relation.columns]
    more = {
        _COMMENT: _option(env, relation.comment),
        _VIEW_TEXT: _option(env, getattr(relation, "text", None)),
    }
    if isinstance(relation, TableDefinition):
        kind = "EXTERNAL" if relation.external else "MANAGED"
        columns += relation.partition_columns
        more[_PARTITION_COLUMNS] = java_sequence(env, relation.partition_column_names)
    schema = T.StructType()
    for column in columns:
        schema.add(
            column.name, column_type(column), metadata={"comment": column.comment} if column.comment else None
        )
    java_schema = java_class(env, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    return _v1_table(env, (name.database, name.name), kind, java_schema, more)


def _option(env: SparkEnvironment, value: object) -> JavaObject:
    return java_class(env, "scala.Option").apply(value)


def _v1_table(
    env: SparkEnvironment, parts: Sequence[str], kind: str, schema: JavaObject, more: Mapping[int, object]
) -> JavaObject:
    """Return a table of Spark's own catalog that it does not have. ``more``: parameters of ``CatalogTable`` by position."""
    database, catalog = _option(env, parts[-2]), _option(env, SPARK_CATALOG)
    name = java_class(env, "org.apache.spark.sql.catalyst.TableIdentifier")(parts[-1], database, catalog)
    kinds = java_class(env, f"{_V1}.CatalogTableType")
    storage = java_class(env, f"{_V1}.CatalogStorageFormat").empty()
    given = {0: name, 1: getattr(kinds, kind)(), 2: storage, 3: schema, **more}
    defaults = getattr(java_class(env, f"{_V1}.CatalogTable$"), "MODULE$")
    constructor = java_class(env, "java.lang.Class").forName(f"{_V1}.CatalogTable").getConstructors()[0]
    values = [
        given[index] if index in given else getattr(defaults, f"apply$default${index + 1}")()
        for index in range(constructor.getParameterCount())
    ]
    return java_class(env, f"{_CONNECTOR}.catalog.V1Table")(java_class(env, f"{_V1}.CatalogTable")(*values))
