"""Java methods as Spark expressions: exact, inlined into generated code, no Python worker.

The conversion between a column and Catalyst's expression is not a public interface of Spark. It
changed with Spark 4; only this module depends on it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn

from hiveacid.spark.parser.catalyst import java_class, java_packages, java_value, parser_of
from hiveacid.spark.session.capabilities import SparkEnvironment

_SPARK_4 = (4, 0)


def call_static(
    env: SparkEnvironment, owner: str, method: str, result: str, arguments: Sequence[SparkColumn]
) -> SparkColumn:
    """Return the value of a static method of a class on Spark's class path; NULL if an argument is NULL.

    ``owner``: full class name. ``result``: Spark's name of the type returned, or a class for a Java object
    that another call takes.
    """
    jvm = _jvm(env)
    parts = [jvm.java.lang.Class.forName(owner), _type(env, result), method]
    return _invoke(env, "StaticInvoke", parts, arguments)


def call(env: SparkEnvironment, target: SparkColumn, method: str, result: str) -> SparkColumn:
    """Return the value of a method without arguments of ``target``'s Java object; NULL if ``target`` is NULL."""
    parts = [_expression(env, target), method, _type(env, result)]
    return _invoke(env, "Invoke", parts, [])


def hive_hash(env: SparkEnvironment, value: SparkColumn) -> SparkColumn:
    """Return Catalyst's own Hive hash (bucketing version 1) of a binary value; 0 for NULL."""
    catalyst = _jvm(env).org.apache.spark.sql.catalyst.expressions
    return column_of_expression(env, catalyst.HiveHash(scala_sequence(env, [_expression(env, value)])))


def long_array(env: SparkEnvironment, data: bytes) -> SparkColumn:
    """Return a literal array of little-endian longs, whose elements do not appear in printed plans."""
    return _array(
        env, java_class(env, "long"), len(data) // 8, _buffer(env, "q", data).asLongBuffer(), "bigint"
    )


def int_array(env: SparkEnvironment, data: bytes) -> SparkColumn:
    """Return a literal array of little-endian ints, as `long_array` does."""
    return _array(env, java_class(env, "int"), len(data) // 4, _buffer(env, "i", data).asIntBuffer(), "int")


def _buffer(env: SparkEnvironment, kind: str, data: bytes) -> Any:
    numbers = array(kind, data)
    numbers.byteswap()  # Java reads big-endian by default; changing that costs two more round trips
    return _jvm(env).java.nio.ByteBuffer.wrap(numbers.tobytes())


def _array(env: SparkEnvironment, java_type: Any, length: int, data: Any, kind: str) -> SparkColumn:
    gateway: Any = env.spark.sparkContext._gateway  # noqa: SLF001
    values = gateway.new_array(java_type, length)
    data.get(values)
    catalyst = _jvm(env).org.apache.spark.sql.catalyst.expressions
    without_null = _jvm(env).org.apache.spark.sql.types.ArrayType(_type(env, kind), False)  # noqa: FBT003
    elements = catalyst.UnsafeArrayData.fromPrimitiveArray(values)
    return column_of_expression(env, catalyst.Literal(elements, without_null))


def column_of_text(env: SparkEnvironment, text: str, columns: Mapping[str, SparkColumn]) -> SparkColumn:
    """Parse a SQL expression and put columns in place of names, for values (literal arrays) that have no SQL text.

    One text takes a tenth of the round trips that PySpark's operators take.
    """
    parser, replacements = parser_of(env), _jvm(env).java.util.HashMap()
    for name, column in columns.items():
        replacements.put(parser.parseExpression(name), _expression(env, column))
    # TreeNode.transform expects a partial function; a Scala map is one
    replace = _jvm(env).org.apache.spark.api.python.PythonUtils.toScalaMap(replacements)
    return column_of_expression(env, parser.parseExpression(text).transform(replace))


def map_lookup(
    env: SparkEnvironment, table: Mapping[str, str | int | None], key: SparkColumn, result: str
) -> SparkColumn:
    """Return the value of a hash table for a text; a missing text fails the query with a NoSuchElementException.

    ``result``: string or int. The entries of the table do not appear in printed plans.
    """
    jvm = _jvm(env)
    sql, to_scala = jvm.org.apache.spark.sql.catalyst, jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
    converted = sql.CatalystTypeConverters.convertToCatalyst(to_scala(java_value(env, dict(table))))
    entries = sql.util.ArrayBasedMapData.toScalaMap(converted)
    # a function that refers to the table does not print it, and is compared by identity
    function = entries.orElse(to_scala(jvm.java.util.HashMap()))
    literal = sql.expressions.Literal(function, _type(env, "scala.Function1"))
    return _invoke(env, "Invoke", [literal, "apply", _type(env, result)], [key])


def strings_of(env: SparkEnvironment, array: Any) -> list[str]:
    """Return a Java array of texts without line breaks, in one call."""
    joined = _jvm(env).scala.Predef.genericWrapArray(array).mkString("\n")
    return str(joined).split("\n") if joined else []


def try_cast(env: SparkEnvironment, value: SparkColumn, target: str) -> SparkColumn:
    """Cast to the type of a Spark name; NULL for a value that does not parse, also in ANSI mode."""
    if env.version >= _SPARK_4:  # in 3.5 any attribute of a column is a field of it
        return value.try_cast(target)
    catalyst = _jvm(env).org.apache.spark.sql.catalyst.expressions
    no_zone = _jvm(env).scala.Option.empty()
    parts = [_expression(env, value), _type(env, target), no_zone, catalyst.EvalMode.TRY()]
    return column_of_expression(env, catalyst.Cast(*parts))


def _invoke(
    env: SparkEnvironment, name: str, parts: list[Any], arguments: Sequence[SparkColumn]
) -> SparkColumn:
    propagate_null = return_nullable = deterministic = True
    parts += [
        scala_sequence(env, [_expression(env, argument) for argument in arguments]),
        scala_sequence(env, []),
    ]
    parts += [propagate_null, return_nullable, deterministic]
    if name == "StaticInvoke" and env.version >= _SPARK_4:
        parts.append(_jvm(env).scala.Option.empty())
    expressions = _jvm(env).org.apache.spark.sql.catalyst.expressions.objects
    return column_of_expression(env, getattr(expressions, name)(*parts))


def _jvm(env: SparkEnvironment) -> Any:
    return java_packages(env.spark)


def _type(env: SparkEnvironment, name: str) -> Any:
    jvm = _jvm(env)
    types = jvm.org.apache.spark.sql.types
    return (
        types.ObjectType(jvm.java.lang.Class.forName(name)) if "." in name else types.DataType.fromDDL(name)
    )


def scala_sequence(env: SparkEnvironment, items: list[Any]) -> Any:
    """Return a Scala Seq of Java objects."""
    return _jvm(env).org.apache.spark.api.python.PythonUtils.toSeq(items)


def _expression(env: SparkEnvironment, column: SparkColumn) -> Any:
    java: Any = column._jc  # noqa: SLF001
    if env.version < _SPARK_4:
        return java.expr()
    return _jvm(env).org.apache.spark.sql.classic.ExpressionUtils.expression(java)


def column_of_expression(env: SparkEnvironment, expression: Any) -> SparkColumn:
    """Return an expression of Catalyst, parsed or analysed, as a Column."""
    if env.version < _SPARK_4:
        from pyspark.sql import Column  # noqa: PLC0415 - in Spark 4 this class is abstract

        return Column(_jvm(env).org.apache.spark.sql.Column(expression))
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - not there in Spark 3.5

    return ClassicColumn(_jvm(env).org.apache.spark.sql.classic.ExpressionUtils.column(expression))
