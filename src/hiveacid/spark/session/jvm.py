"""The JVM of a session: its classes and values, and Java methods as Spark expressions.

Every call is a Py4J round trip of some 40 microseconds; the functions here make as few as possible. A Java method as an
expression is exact, inlined into generated code, and needs no Python worker. The conversion between a column and Catalyst's
expression is not a public interface of Spark. It changed with Spark 4; only this module depends on it.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import GatewayClient, JavaClass, JavaGateway, JavaMember, JavaObject, JVMView
from py4j.protocol import STATIC_PREFIX
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession

from hiveacid.spark.session.environment import SparkEnvironment

_SPARK_4 = (4, 0)


def parser_of(env: SparkEnvironment) -> JavaObject:
    """Return the session's ``ParserInterface``, with the user's extensions but without hiveacid's parser."""
    return env.parser or env.state.sqlParser()


def session_of(env: SparkEnvironment) -> JavaObject:
    """Return the JVM's session."""
    return env.spark._jsparkSession  # noqa: SLF001


def substitute_variables(env: SparkEnvironment, text: str) -> str:
    """Return a text with its ``${variables}`` replaced as Spark does (``spark.sql.variable.substitute``)."""
    if "${" not in text:
        return text
    jvm: JVMView = env.spark._jvm  # noqa: SLF001
    return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))


@contextmanager
def active_session(env: SparkEnvironment) -> Iterator[None]:
    """Make the session the active one of this thread's JVM thread in the block.

    Spark's parser and ``${variables}`` take their settings from the active session. A thread of Python's other than the
    first has none, and a thread of a streaming query has another one, which gets its place back.
    """
    package = "org.apache.spark.sql" if env.version < (4, 0) else "org.apache.spark.sql.classic"
    sessions = java_class(env, f"{package}.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session_of(env))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def java_class(env: SparkEnvironment, name: str) -> JavaClass:
    """Return a class of the JVM by its full name, without the round trip for each part of ``jvm.java.lang...``."""
    return class_of_session(env.spark, name)


def class_of_session(spark: SparkSession, name: str) -> JavaClass:
    """Return a class of a session's JVM by its full name."""
    gateway: JavaGateway = spark.sparkContext._gateway  # noqa: SLF001
    return _StaticMethods(name, gateway._gateway_client)  # noqa: SLF001


def class_beside(java_object: JavaObject, name: str) -> JavaClass:
    """Return a class, by its full name, of the JVM that has an object."""
    return _StaticMethods(name, java_object._gateway_client)  # noqa: SLF001


def java_value(env: SparkEnvironment, value: object) -> JavaObject:
    """Return a map or list as a Java object, in two round trips; Py4J takes one for each entry."""
    unpickler = java_class(env, "net.razorvine.pickle.Unpickler")()
    return unpickler.loads(pickle.dumps(value, protocol=2))


def java_sequence(env: SparkEnvironment, items: Sequence[object]) -> JavaObject:
    """Return a list as a Scala Seq, as `java_value`."""
    return java_class(env, "org.apache.spark.api.python.PythonUtils").toSeq(java_value(env, list(items)))


class _StaticMethods(JavaClass):  # type: ignore[misc] # py4j has no types
    """Class of the JVM: a name with a small letter is a method. Py4J asks Java about each name of each call."""

    def __getattr__(self, name: str) -> JavaMember | JavaClass:
        """Return a static method, or a constant or inner class."""
        if not name[0].islower():
            return super().__getattr__(name)
        return JavaMember(name, None, STATIC_PREFIX + self._fqn, self._gateway_client)


class JavaPackages:
    """The JVM's packages by attributes: a name with a capital is a class, any other a package.

    Unlike ``_jvm`` of PySpark this takes no round trips. Py4J asks Java for each part, and Java looks for a class of
    that name in all jars.
    """

    def __init__(self, client: GatewayClient, prefix: str = "") -> None:
        self._client = client
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        """Return a package or class."""
        if name.startswith("__"):
            raise AttributeError(name)
        whole = self._prefix + name
        is_class = name[0].isupper()
        return _StaticMethods(whole, self._client) if is_class else JavaPackages(self._client, f"{whole}.")


def java_packages(spark: SparkSession) -> JavaPackages:
    """Return the packages of a session's JVM."""
    gateway: JavaGateway = spark.sparkContext._gateway  # noqa: SLF001
    return JavaPackages(gateway._gateway_client)  # noqa: SLF001


def scala_items(sequence: JavaObject) -> Iterator[JavaObject]:
    """Yield the elements of a Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def scala_sequence(env: SparkEnvironment, items: list[JavaObject]) -> JavaObject:
    """Return a Scala Seq of Java objects."""
    return java_packages(env.spark).org.apache.spark.api.python.PythonUtils.toSeq(items)


# Expressions of Catalyst as columns


def call_static(
    env: SparkEnvironment, owner: str, method: str, result: str, arguments: Sequence[SparkColumn]
) -> SparkColumn:
    """Return the value of a static method of a class on Spark's class path; NULL if an argument is NULL.

    ``owner``: full class name. ``result``: Spark's name of the type returned, or a class for a Java object
    that another call takes.
    """
    jvm = java_packages(env.spark)
    parts = [jvm.java.lang.Class.forName(owner), _type(env, result), method]
    return _invoke(env, "StaticInvoke", parts, arguments)


def call(env: SparkEnvironment, target: SparkColumn, method: str, result: str) -> SparkColumn:
    """Return the value of a method without arguments of ``target``'s Java object; NULL if ``target`` is NULL."""
    parts = [_expression(env, target), method, _type(env, result)]
    return _invoke(env, "Invoke", parts, [])


def hive_hash(env: SparkEnvironment, value: SparkColumn) -> SparkColumn:
    """Return Catalyst's own Hive hash (bucketing version 1) of a binary value; 0 for NULL."""
    catalyst = java_packages(env.spark).org.apache.spark.sql.catalyst.expressions
    return column_of_expression(env, catalyst.HiveHash(scala_sequence(env, [_expression(env, value)])))


def long_array(env: SparkEnvironment, data: bytes) -> SparkColumn:
    """Return a literal array of little-endian longs, whose elements do not appear in printed plans."""
    return _array(
        env, java_class(env, "long"), len(data) // 8, _buffer(env, "q", data).asLongBuffer(), "bigint"
    )


def int_array(env: SparkEnvironment, data: bytes) -> SparkColumn:
    """Return a literal array of little-endian ints, as `long_array` does."""
    return _array(env, java_class(env, "int"), len(data) // 4, _buffer(env, "i", data).asIntBuffer(), "int")


def _buffer(env: SparkEnvironment, kind: str, data: bytes) -> JavaObject:
    numbers = array(kind, data)
    numbers.byteswap()  # Java reads big-endian by default; changing that costs two more round trips
    return java_packages(env.spark).java.nio.ByteBuffer.wrap(numbers.tobytes())


def _array(
    env: SparkEnvironment, java_type: JavaClass, length: int, data: JavaObject, kind: str
) -> SparkColumn:
    gateway: JavaGateway = env.spark.sparkContext._gateway  # noqa: SLF001
    values = gateway.new_array(java_type, length)
    data.get(values)
    catalyst = java_packages(env.spark).org.apache.spark.sql.catalyst.expressions
    without_null = java_packages(env.spark).org.apache.spark.sql.types.ArrayType(_type(env, kind), False)  # noqa: FBT003
    elements = catalyst.UnsafeArrayData.fromPrimitiveArray(values)
    return column_of_expression(env, catalyst.Literal(elements, without_null))


def column_of_text(env: SparkEnvironment, text: str, columns: Mapping[str, SparkColumn]) -> SparkColumn:
    """Parse a SQL expression and put columns in place of names, for values (literal arrays) that have no SQL text.

    One text takes a tenth of the round trips that PySpark's operators take.
    """
    parser, replacements = parser_of(env), java_packages(env.spark).java.util.HashMap()
    for name, column in columns.items():
        replacements.put(parser.parseExpression(name), _expression(env, column))
    # TreeNode.transform expects a partial function; a Scala map is one
    replace = java_packages(env.spark).org.apache.spark.api.python.PythonUtils.toScalaMap(replacements)
    return column_of_expression(env, parser.parseExpression(text).transform(replace))


def map_lookup(
    env: SparkEnvironment, table: Mapping[str, str | int | None], key: SparkColumn, result: str
) -> SparkColumn:
    """Return the value of a hash table for a text; a missing text fails the query with a NoSuchElementException.

    ``result``: string or int. The entries of the table do not appear in printed plans.
    """
    jvm = java_packages(env.spark)
    sql, to_scala = jvm.org.apache.spark.sql.catalyst, jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
    converted = sql.CatalystTypeConverters.convertToCatalyst(to_scala(java_value(env, dict(table))))
    entries = sql.util.ArrayBasedMapData.toScalaMap(converted)
    # a function that refers to the table does not print it, and is compared by identity
    function = entries.orElse(to_scala(jvm.java.util.HashMap()))
    literal = sql.expressions.Literal(function, _type(env, "scala.Function1"))
    return _invoke(env, "Invoke", [literal, "apply", _type(env, result)], [key])


def strings_of(env: SparkEnvironment, array: JavaObject) -> list[str]:
    """Return a Java array of texts without line breaks, in one call."""
    joined = java_packages(env.spark).scala.Predef.genericWrapArray(array).mkString("\n")
    return str(joined).split("\n") if joined else []


def try_cast(env: SparkEnvironment, value: SparkColumn, target: str) -> SparkColumn:
    """Cast to the type of a Spark name; NULL for a value that does not parse, also in ANSI mode."""
    if env.version >= _SPARK_4:  # in 3.5 any attribute of a column is a field of it
        return value.try_cast(target)
    catalyst = java_packages(env.spark).org.apache.spark.sql.catalyst.expressions
    no_zone = java_packages(env.spark).scala.Option.empty()
    parts = [_expression(env, value), _type(env, target), no_zone, catalyst.EvalMode.TRY()]
    return column_of_expression(env, catalyst.Cast(*parts))


def _invoke(
    env: SparkEnvironment, name: str, parts: list[JavaObject | str | bool], arguments: Sequence[SparkColumn]
) -> SparkColumn:
    propagate_null = return_nullable = deterministic = True
    parts += [
        scala_sequence(env, [_expression(env, argument) for argument in arguments]),
        scala_sequence(env, []),
    ]
    parts += [propagate_null, return_nullable, deterministic]
    if name == "StaticInvoke" and env.version >= _SPARK_4:
        parts.append(java_packages(env.spark).scala.Option.empty())
    expressions = java_packages(env.spark).org.apache.spark.sql.catalyst.expressions.objects
    return column_of_expression(env, getattr(expressions, name)(*parts))


def _type(env: SparkEnvironment, name: str) -> JavaObject:
    jvm = java_packages(env.spark)
    types = jvm.org.apache.spark.sql.types
    return (
        types.ObjectType(jvm.java.lang.Class.forName(name)) if "." in name else types.DataType.fromDDL(name)
    )


def _expression(env: SparkEnvironment, column: SparkColumn) -> JavaObject:
    java: JavaObject = column._jc  # noqa: SLF001
    if env.version < _SPARK_4:
        return java.expr()
    return java_packages(env.spark).org.apache.spark.sql.classic.ExpressionUtils.expression(java)


def star_targets(column: SparkColumn) -> Iterator[tuple[str, ...]]:
    """Yield the parts before each star of a Column that is not analysed, none for a bare one."""
    java: JavaObject = column._jc  # noqa: SLF001
    if hasattr(type(column), "try_cast"):  # Spark 4, whose own conversion keeps the nodes until the analysis
        converter = class_beside(java, "org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$")
        tree: JavaObject = getattr(converter, "MODULE$").apply(java.node())
    else:
        tree = java.expr()
    for leaf in scala_items(tree.collectLeaves()):
        if str(leaf.nodeName()).startswith("UnresolvedStar"):
            target = leaf.target()
            yield tuple(map(str, scala_items(target.get()))) if target.isDefined() else ()


def column_of_expression(env: SparkEnvironment, expression: JavaObject) -> SparkColumn:
    """Return an expression of Catalyst, parsed or analysed, as a Column."""
    if env.version < _SPARK_4:
        from pyspark.sql import Column  # noqa: PLC0415 - in Spark 4 this class is abstract

        return Column(java_packages(env.spark).org.apache.spark.sql.Column(expression))
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - not there in Spark 3.5

    return ClassicColumn(
        java_packages(env.spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression)
    )
